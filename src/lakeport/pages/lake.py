"""Compose the pages of a lake, of its tables and of its runs.

Reads logs, footers, manifests and reports; starts no Spark, and writes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from markupsafe import Markup

from lakeport.errors import LakeportError, SourceError
from lakeport.html import document
from lakeport.html.charts import draw_bars, draw_sparkline
from lakeport.html.document import Href, Page, read_asset, render_template
from lakeport.html.facts import MOST_POINTS, parse_run_facts
from lakeport.html.run import LoadBox, list_undo_commands, render_run_page
from lakeport.html.table import Preview, render_table_page
from lakeport.html.text import build_tag, format_age, format_duration, truncate
from lakeport.lake.facts import format_value, read_table_facts
from lakeport.lake.runs import list_loads, list_runs, read_bad_samples, read_run
from lakeport.lake.snapshots import are_mostly_small, list_values
from lakeport.lake.tables import list_tables, open_lake, table_as_lake_error
from lakeport.loading.progress import list_running_loads
from lakeport.schema.hints import format_command
from lakeport.schema.types import is_number
from lakeport.units import format_count, format_size, pluralize

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.lake.runs import LakeRun
    from lakeport.lake.snapshots import DeltaSnapshot, FilesSnapshot
    from lakeport.lake.tables import LakeTable
    from lakeport.model import Storage
    from lakeport.pipeline.plan import LoadPlan, PipelinePlan

_LOADS: Final = "loads.html"
_STATES: Final = {"landed": "ok", "failed": "failed", "interrupted": "failed"}

_AS_TABLE: Final = ("which gives", "columns")

_ASSETS = {"theme.css": "text/css", "page.js": "text/javascript", "live.js": "text/javascript"}
_RUNNING: Final = "/running"
"""Path of the page of running loads, which the lake's page asks for again and again."""
_TABLE: Final = "/table/"
_RUN: Final = "/run/"
_RUNS = 200
_SAMPLES = 20
_LONGEST_NAME: Final = 255  # bytes, of folders on a disk

_RunLine = tuple["LakeRun", str, int, list[tuple[str, str]]]
"""A run, its page, how many bad records it set aside, and names and pages of its tables."""

_DAYS = 14
_Day = tuple[str, int, int, int]
"""Day (UTC), good runs, failed ones, rows."""

_ROWS: Final = 10
_MOST_COLUMNS: Final = 100
_LONGEST: Final = 120  # characters of a value


def build_pipeline_plan_page(plan: PipelinePlan) -> Page:
    """Build the page for a plan of a lake file (`lake.yaml`), with a box per load."""
    totals = [("loads", format_count(len(plan.loads))), ("steps", format_count(len(plan.steps)))]
    loads = [_build_planned_box(load) for load in plan.loads]
    title = f"Plan of {PurePath(plan.file).name}"
    body = render_template(
        _LOADS, title=title, run_id="", file=plan.file, totals=totals, loads=loads, warnings=()
    )
    return Page("/", "Plan", body)


def _build_planned_box(load: LoadPlan) -> LoadBox:
    """Build the box that shows one load of a plan."""
    facts = {name: words for name, words in load.in_words.items() if name not in _AS_TABLE}
    words = ", ".join(filter(None, (load.mode, load.transform, load.runs)))
    columns = load.result or load.columns
    return LoadBox(load.load, load.uses, words, facts=list(facts.items()), columns=columns)


def build_pipeline_run_page(
    report: Mapping[str, Any], path: str = "/", links: Mapping[str, str] | None = None
) -> Page:
    """Build the page for one run of a lake file (`lake.yaml`), with a box per load.

    Args:
        report: as `PipelineReport.to_dict` gives it.
        links: run of a load -> the link to its page.
    """
    loads = [load for load in report["loads"] if load["outcome"] != "left out"]
    runs = [parse_run_facts(load.get("report") or {}) for load in loads]
    engines = dict.fromkeys(run.engine.title for run in runs if run and run.engine.name)
    totals = [
        ("loads", format_count(len(loads))),
        *(
            (end, format_count(number))
            for end, number in Counter(x["outcome"] for x in loads).items()
        ),
        ("rows", format_count(report["rows"])),
        ("set aside", format_count(report["rejected"])),
        ("took", format_duration(report["seconds"])),
        *([("run by", ", ".join(engines))] if engines else []),
    ]
    undone = [str(each["table"]) for each in report.get("undone", ())]
    boxes = [
        _build_finished_box(load, links or {}, list_undo_commands(run, undone) if run else ())
        for load, run in zip(loads, runs, strict=True)
    ]
    body = render_template(
        _LOADS,
        title="Run",
        run_id=report["run_id"],
        file=report["file"],
        totals=totals,
        loads=boxes,
        warnings=report["warnings"],
    )
    return Page(path, f"Run {report['run_id']}", body)


def _build_finished_box(
    load: Mapping[str, Any], links: Mapping[str, str], undo: Sequence[tuple[str, str]]
) -> LoadBox:
    """Build the box of a load that has ended.

    `links` has run ids with their URLs, `undo` has the purposes and commands that undo it.
    """
    outcome = load["outcome"]
    own = str((load.get("report") or load)["run_id"] or "")
    landed = f"{outcome}, {pluralize(load['rows'], 'row')}, {format_duration(load['seconds'])}"
    facts = [
        ("outcome", outcome),
        ("why", load["reason"]),
        ("rows", format_count(load["rows"])),
        ("set aside", format_count(load["rejected"])),
        ("took", format_duration(load["seconds"])),
        ("tables", ", ".join(load["tables"])),
        ("run", build_tag("a", own, href=links[own]) if links.get(own) else own),
    ]
    streams = (load.get("report") or {}).get("streams", ())
    facts += [("note", words) for stream in streams for words in stream["notes"]]
    return LoadBox(
        load["load"],
        load.get("uses", ()),
        landed if outcome in _STATES else outcome,
        _STATES.get(outcome, ""),
        [(name, value) for name, value in facts if value],
        {name: type_ for stream in streams for name, type_ in stream["columns"].items()},
        [words for stream in streams for words in stream["warnings"]],
        load["error"],
        undo,
    )


def open_pages(config: DestinationConfig, *, masked: bool = False) -> LakePages:
    """Open the pages of a lake or table; `masked` hides values. SourceError if it is no folder.

    Raises:
        SourceError: it is no folder of this machine.
        DestinationError: the store refused.
    """
    return LakePages(*open_lake(config), masked)


@dataclass(frozen=True)
class LakePages:
    """Builds the pages of a lake or of one table, from the store at each call.

    Attributes:
        folder: the lake's key there; empty for the root.
        masked: whether values of columns and records are left out.
    """

    storage: Storage
    folder: str
    masked: bool = False

    def find_page(self, path: str) -> Page | None:
        """Build the page at a percent-decoded URL path; None if the path has no page."""
        if path == _RUNNING:
            return Page(path, "Running loads", self._render_running())
        if path == "/":
            return (
                self.build_table_page("")
                if self.is_table
                else self.build_lake_page(self.list_runs(), quote, running=self._render_running())
            )
        if not all(map(_is_folder_name, path[1:].split("/"))):
            return None
        if path.startswith(_TABLE):
            return self.build_table_page(path.removeprefix(_TABLE))
        if path.startswith(_RUN):
            run = read_run(self.storage, self.folder, path.removeprefix(_RUN))
            return None if run is None else self.build_run_page(run, quote)
        return None

    def build_document(self, page: Page) -> str:
        """Build a page's whole document, with links to the style and the script."""
        trail = [(page.title, "")] if page.path == "/" else [("Lake", "/"), (page.title, "")]
        return document.build_linked_document(page, trail, quote)

    def find_asset(self, name: str) -> tuple[str, bytes] | None:
        """Return media type and contents of the style or the script; None for other names."""
        kind = _ASSETS.get(name)
        return None if kind is None else (kind, read_asset(name).encode())

    @property
    def is_table(self) -> bool:
        """Whether the target is a table, and no lake."""
        return table_as_lake_error(self.storage, self.folder) is not None

    def list_tables(self) -> list[LakeTable]:
        """List the lake's tables by name, with their growth."""
        return list_tables(self.storage, self.folder, MOST_POINTS)

    def list_runs(self) -> list[LakeRun]:
        """List the 200 newest runs, newest first."""
        return list_runs(self.storage, self.folder, _RUNS)

    def build_lake_page(
        self,
        runs: Sequence[LakeRun],
        href: Href,
        tables: Sequence[LakeTable] | None = None,
        running: Markup | str = "",
    ) -> Page:
        """Build the lake's page with `runs` and `tables`; None lists the tables itself.

        `running` is the section of running loads, for a page that is served.
        """
        tables = self.list_tables() if tables is None else tables
        body = render_lake_page(
            self.storage.uri(self.folder), tables, runs, datetime.now(UTC), href, running
        )
        return Page("/", "Lake", body)

    def _render_running(self) -> Markup:
        """Render the section of this user's loads that go on in the lake, on this machine."""
        lake = self.storage.uri(self.folder).rstrip("/") + "/"
        targets = ((load, load.target.rstrip("/") + "/") for load in list_running_loads())
        loads = [
            load for load, target in targets if target.startswith(lake) or lake.startswith(target)
        ]
        return render_template("running.html", loads=loads, now=datetime.now(UTC), source=_RUNNING)

    def build_table_page(self, name: str) -> Page:
        """Build the page of a table, or of the target if `name` is ""; SourceError if none."""
        folder = f"{self.folder}/{name}".strip("/")
        title = name or unquote(self.storage.uri(folder).rstrip("/").rpartition("/")[2])
        facts, rows = read_table_facts(self.storage, folder, title)
        first = Preview() if self.masked else read_preview(rows, facts.uri)
        body = render_table_page(facts, first, masked=self.masked)
        return Page(f"{_TABLE}{name}" if name else "/", title, body)

    def build_run_page(self, run: LakeRun, href: Href) -> Page:
        """Build the page of a run, of one load or a lake file; SourceError for a bad report."""
        if run.file:
            return self._build_pipeline_run_page(run, href)
        facts = parse_run_facts(run.report)
        if facts is None:
            raise _unreadable_report_error(run)
        pages = {
            each.table.rstrip("/"): self._find_table_path(each.table) for each in facts.streams
        }
        found = read_bad_samples(self.storage, run.report, _SAMPLES)
        body = render_run_page(facts, found, href, pages, masked=self.masked)
        return Page(f"{_RUN}{run.name}", f"Run {run.run_id}", body)

    def _build_pipeline_run_page(self, run: LakeRun, href: Href) -> Page:
        """Build the page of a lake file's run; it links to the runs of its loads."""
        loads = list_loads(self.storage, self.folder, _RUNS)
        links = {load.run_id: href(f"{_RUN}{load.name}") for load in loads}
        try:
            return build_pipeline_run_page(run.report, f"{_RUN}{run.name}", links)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _unreadable_report_error(run) from None

    def _find_table_path(self, uri: str) -> str:
        """Return the page path of the table at `uri`; empty if it is not in the lake."""
        above = self.storage.uri(self.folder).rstrip("/") + "/"
        name = uri.rstrip("/").removeprefix(above)
        return f"{_TABLE}{unquote(name)}" if uri.startswith(above) and name else ""


def _unreadable_report_error(run: LakeRun) -> SourceError:
    """Return the SourceError for a run report with missing or malformed parts."""
    return SourceError(
        f"the report of run {run.run_id!r} can't be read: {run.name}.json",
        "others than lakeport have written it, or changed it.",
    )


def _build_run_line(run: LakeRun, pages: Mapping[str, str]) -> _RunLine:
    """Return a run's row for the lake's list: run, page path, bad records, tables with paths."""
    facts = parse_run_facts(run.report)
    uris = [each.table for each in facts.streams] if facts else []
    if run.file:
        uris = [uri for load in run.report["loads"] for uri in load.get("tables", ())]
    found = [uri.rstrip("/") for uri in uris if uri]
    named = [(unquote(uri.rpartition("/")[2]), pages.get(uri, "")) for uri in found]
    return run, f"{_RUN}{run.name}" if facts else "", facts.rejected if facts else 0, named


def _is_folder_name(part: str) -> bool:
    """Whether one part of a URL path is a safe folder name: no `..`, at most 255 bytes.

    >>> [_is_folder_name(part) for part in ("a b", "", "..", "a\\\\b", "é" * 128)]
    [True, False, False, False, False]
    """
    escapes = part in ("", ".", "..") or "\\" in part or "\0" in part
    return not escapes and len(part.encode()) <= _LONGEST_NAME


def render_lake_page(
    uri: str,
    tables: Sequence[LakeTable],
    runs: Sequence[LakeRun],
    now: datetime,
    href: Href,
    running: Markup | str = "",
) -> Markup:
    """Render the lake's page: tables, runs in the given order, and ages relative to `now`."""
    by_day = _count_runs_by_day(runs, now)
    pages = {table.uri.rstrip("/"): f"{_TABLE}{table.name}" for table in tables}
    return render_template(
        "lake.html",
        uri=uri,
        running=running,
        tables=tables,
        runs=[_build_run_line(run, pages) for run in runs],
        href=href,
        totals=_list_totals(tables, runs),
        small={table.name: words for table in tables if (words := _describe_small_files(table))},
        sparks={table.name: _draw_table_sparkline(table) for table in tables},
        ages={table.name: format_age(now, table.last_change) for table in tables},
        days=_draw_runs_by_day(by_day, now),
        by_day=by_day,
    )


def _list_totals(tables: Sequence[LakeTable], runs: Sequence[LakeRun]) -> list[tuple[str, object]]:
    """Return (label, value) pairs of the lake's counts: tables, rows, size, files and runs."""
    rows = [table.rows for table in tables]
    known = [each for each in rows if each is not None]
    more = " and more" if len(known) < len(rows) else ""
    failed = sum(not run.ok for run in runs)
    return [
        ("tables", format_count(len(tables))),
        ("rows", f"{format_count(sum(known))}{more}"),
        ("size", format_size(sum(table.bytes or 0 for table in tables))),
        ("files", format_count(sum(table.files or 0 for table in tables))),
        (
            "runs shown",
            f"{format_count(len(runs))}, {format_count(failed) if failed else 'none'} failed",
        ),
    ]


def _describe_small_files(table: LakeTable) -> str:
    """Return such as `9 of 12 files are small`; empty unless most are small."""
    small, files = table.small_files or 0, table.files or 0
    if not are_mostly_small(small, files):
        return ""
    return f"{format_count(small)} of {pluralize(files, 'file')} are small"


def _draw_table_sparkline(table: LakeTable) -> Markup:
    """Draw a table's row counts over time as a sparkline."""
    points = table.growth
    ends = [format_count(rows) for _, rows in (*points[:1], *points[-1:])]
    return draw_sparkline(points, f"rows, from {' to '.join(ends)}")


def _count_runs_by_day(runs: Sequence[LakeRun], now: datetime) -> list[_Day]:
    """Count good and failed runs and rows per UTC day, for the last 14 days; no empty days."""
    found: dict[str, tuple[int, int, int]] = {}
    oldest = (now - timedelta(days=_DAYS - 1)).date()
    for run in reversed(runs):
        day = run.started.astimezone(UTC).date()
        if day >= oldest:
            good, failed, rows = found.get(day.isoformat(), (0, 0, 0))
            found[day.isoformat()] = (good + run.ok, failed + (not run.ok), rows + run.rows)
    return [(day, *values) for day, values in found.items()]


def _draw_runs_by_day(by_day: Sequence[_Day], now: datetime) -> Markup:
    """Draw a bar chart of good and failed runs for the last 14 days; empty without runs."""
    found = {day: {"good": good, "bad": failed} for day, good, failed, _ in by_day}
    if not found:
        return Markup("")
    days = [(now - timedelta(days=back)).date().isoformat() for back in reversed(range(_DAYS))]
    columns = [
        [
            (f"{day}: {pluralize(runs, kind + ' run')}", runs, kind)
            for kind, runs in found.get(day, {}).items()
            if runs
        ]
        for day in days
    ]
    good, bad = (sum(each[kind] for each in found.values()) for kind in ("good", "bad"))
    ticks = [(0, days[0][5:]), (0.5, days[_DAYS // 2][5:]), (1, days[-1][5:])]
    return draw_bars(
        columns, f"runs by day: {format_count(good)} good, {format_count(bad)} failed", ticks, 110
    )


def read_preview(snapshot: DeltaSnapshot | FilesSnapshot, uri: str) -> Preview:
    """Return a table's first ten rows, read without Spark; or a note why that failed."""
    try:
        rows = snapshot.preview(_ROWS)
    except LakeportError as error:
        return Preview(note=f"The rows can't be read: {error.message}")
    if rows is None:
        return Preview(
            note=f"Only Spark can read its files: {format_command('table', 'preview', uri)} does."
        )
    return _build_preview(rows)


def _build_preview(rows: pa.Table) -> Preview:
    """Format rows as text: at most 100 columns, and 120 characters a value."""
    names = rows.column_names[:_MOST_COLUMNS]
    types = rows.schema.types[:_MOST_COLUMNS]
    kinds = ["n" if is_number(each) else "" for each in types]
    values = [list_values(rows.column(place)) for place in range(len(names))]
    lines = [
        [(_format_cell(column[line]), kind) for column, kind in zip(values, kinds, strict=True)]
        for line in range(len(rows))
    ]
    more = len(rows.column_names) - len(names)
    note = f"{more:,} further columns are left out." if more else ""
    return Preview(list(zip(names, kinds, strict=True)), lines, note or ("" if lines else "None."))


def _format_cell(value: Any) -> str:
    """Format a cell's value as text of at most 120 characters; empty for None."""
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        value = json.dumps(value, default=_format_cell, ensure_ascii=False)
    if isinstance(value, bytes):
        value = f"0x{value[: _LONGEST // 2].hex()}"
    return truncate(format_value(value), _LONGEST)
