"""What a lake holds: its tables, and the runs that it has seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

from lakeport.html.charts import bar, frame, grid, label, nice, sparkline
from lakeport.html.document import render
from lakeport.html.facts import LakeFacts, LakeTableFacts
from lakeport.html.text import age
from lakeport.units import count, counted, size

Href = Callable[[str], str]
"""Turns a page's path into what a link to it says."""

_COLUMNS = (
    ("table", ""),
    ("format", ""),
    ("rows", "n"),
    ("growth", ""),
    ("size", "n"),
    ("files", "n"),
    ("version", "n"),
    ("last change", ""),
    ("age", ""),
)
_MANY_SMALL = 20
_DAYS = 14
_Day = tuple[str, int, int, int]
"""Day (UTC), good runs, failed ones, rows."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run, as its line shows it.

    Attributes:
        path: of its page.
        run_id: its id, or the name that it was given.
        ok: whether it came to its end.
        error: what it ended with; empty for a good one.
        started: when it began, UTC.
        seconds: how long it took.
        rows: rows that it landed.
        rejected: bad records that it set aside.
        tables: name and page of each table that it landed something in; no page for others.
        loads: of a run of a lake's file, how many loads came to what; else empty.
    """

    path: str
    run_id: str
    ok: bool
    error: str
    started: datetime
    seconds: float
    rows: int
    rejected: int
    tables: Sequence[tuple[str, str]]
    loads: str = ""


def lake_body(lake: LakeFacts, runs: Sequence[RunLine], now: datetime, href: Href) -> Markup:
    """The page of a lake.

    Args:
        lake: what it holds.
        runs: its runs, newest first.
        now: the moment, UTC.
        href: gives the links.
    """
    by_day = _by_day(runs, now)
    return render(
        "lake.html",
        lake=lake,
        runs=runs,
        href=href,
        columns=_COLUMNS,
        totals=_totals(lake, runs),
        small={table.name: words for table in lake.tables if (words := _small(table))},
        sparks={table.name: _spark(table) for table in lake.tables},
        ages={table.name: _age(table, now) for table in lake.tables},
        days=_days(by_day, now),
        by_day=by_day,
    )


def _totals(lake: LakeFacts, runs: Sequence[RunLine]) -> list[tuple[str, object]]:
    rows = [table.rows for table in lake.tables]
    known = [each for each in rows if each is not None]
    more = " and more" if len(known) < len(rows) else ""
    failed = sum(not run.ok for run in runs)
    return [
        ("tables", count(len(lake.tables))),
        ("rows", f"{count(sum(known))}{more}"),
        ("size", size(sum(table.bytes or 0 for table in lake.tables))),
        ("files", count(sum(table.files or 0 for table in lake.tables))),
        ("runs shown", f"{count(len(runs))}, {count(failed) if failed else 'none'} failed"),
    ]


def _small(table: LakeTableFacts) -> str:
    small, files = table.small_files or 0, table.files or 0
    if small < _MANY_SMALL or small * 2 <= files:
        return ""
    return f"{count(small)} of {counted(files, 'file')} are small"


def _spark(table: LakeTableFacts) -> Markup:
    points = table.growth
    if len(points) < 2:
        return Markup("")
    first, last = points[0][1], points[-1][1]
    return sparkline(points, f"rows, from {count(first)} to {count(last)}")


def _age(table: LakeTableFacts, now: datetime) -> str:
    return "?" if table.last_change is None else age((now - table.last_change).total_seconds())


def _by_day(runs: Sequence[RunLine], now: datetime) -> list[_Day]:
    """Those of the last two weeks that had runs."""
    found: dict[str, tuple[int, int, int]] = {}
    oldest = (now - timedelta(days=_DAYS - 1)).date()
    for run in reversed(runs):
        day = run.started.astimezone(UTC).date()
        if day >= oldest:
            good, failed, rows = found.get(day.isoformat(), (0, 0, 0))
            found[day.isoformat()] = (good + run.ok, failed + (not run.ok), rows + run.rows)
    return [(day, *values) for day, values in found.items()]


def _days(by_day: Sequence[_Day], now: datetime, height: int = 110) -> Markup:
    """Good and failed runs of each of the last days."""
    found = {day: (good, failed) for day, good, failed, _ in by_day}
    if not found:
        return Markup("")
    days = [(now - timedelta(days=back)).date().isoformat() for back in reversed(range(_DAYS))]
    top, box, width = nice(max(map(sum, found.values()))), height - 34, 100 / _DAYS
    drawn: list[Markup] = []
    for place, day in enumerate(days):
        below = 0.0
        for runs_of, kind in zip(found.get(day, (0, 0)), ("good", "bad"), strict=True):
            if not runs_of:
                continue
            tall = max(2.0, box * runs_of / top)
            words = f"{day}: {counted(runs_of, kind + ' run')}"
            x, y = (place + 0.15) * width, 14 + box - below - tall
            drawn.append(bar(words, x, width * 0.7, y, tall, kind))
            below += tall
    ticks = [label(days[at][5:], (at + 0.5) / _DAYS, height - 5) for at in (0, _DAYS // 2, -1)]
    ticks[-1] = label(days[-1][5:], 1, height - 5)
    levels = [(0.0, ""), (1.0, count(top))]
    told = f"runs by day: {count(sum(ok for ok, _ in found.values()))} good, "
    told += f"{count(sum(bad for _, bad in found.values()))} failed"
    return frame(told, height, grid(14, box, levels, *drawn), *ticks)
