"""A run: where its time went, what it landed, what it set aside, and how to repeat it.

Reports of older versions lack some keys: a page shows what there is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from markupsafe import Markup

from lakeport.html.charts.timeline import Span, rate, stage_class, stages, timeline
from lakeport.html.render import render
from lakeport.html.text import count, duration, moment, size

__all__ = ["Sample", "run_body", "run_part"]

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """A bad record.

    Attributes:
        stream: whose it is; may be empty.
        reason: why it is bad.
        where: the file and the line it came from; may be empty.
        record: its text, or the beginning of it.
    """

    stream: str
    reason: str
    where: str
    record: str


def run_body(
    report: Report,
    samples: Sequence[Sample],
    href: Callable[[str], str],
    pages: Mapping[str, str],
    *,
    masked: bool = False,
) -> Markup:
    """The page of a run.

    Args:
        report: as `LandingReport.to_dict` gives it.
        samples: some of its bad records.
        href: gives the links.
        pages: table's URI -> its page.
        masked: whether the records' values are left out.
    """
    spans, pace = _spans(report), _pace(report)
    shown = [Sample(s.stream, s.reason, s.where, "masked") for s in samples] if masked else samples
    return render(
        "run.html",
        r=report,
        href=href,
        totals=_totals(report),
        warnings=_warnings(report),
        spans=spans,
        timeline=timeline(spans, report["seconds"]) if spans else "",
        stages=_stages(spans),
        pace=pace,
        rates=_rates(pace),
        streams=[_stream(stream, pages) for stream in report["streams"]],
        set_aside=report.get("quarantine", ()),
        reasons=report.get("reasons", ()),
        samples=shown,
        command=shlex.join(report.get("command") or ()),
    )


def run_part(report: Report) -> Markup:
    """A run in a notebook: its figures, its timeline and what was landed."""
    spans = _spans(report)
    return render(
        "part_run.html",
        r=report,
        totals=_totals(report),
        warnings=_warnings(report),
        timeline=timeline(spans, report["seconds"]) if spans else "",
        stages=_stages(spans),
        streams=[_stream(stream, {}) for stream in report["streams"]],
    )


def _totals(report: Report) -> list[tuple[str, object]]:
    seconds = report["seconds"]
    told: list[tuple[str, object]] = [
        ("result", "ok" if report["ok"] else "failed"),
        ("rows", count(report["rows"])),
        ("size", size(report["bytes"])),
        ("files", count(report["files"])),
        ("took", duration(seconds)),
    ]
    if report["rows"] and seconds:
        told.append(("rows a second", count(report["rows"] / seconds)))
    if report.get("rejected"):
        told.append(("set aside", count(report["rejected"])))
    told.append(("started", moment(datetime.fromisoformat(report["started"]).astimezone(UTC))))
    if report.get("parser"):
        told.append(("read by", f"{report['parser']} parser"))
    return told


def _warnings(report: Report) -> list[str]:
    own = list(report.get("warnings", ()))
    return own + [
        f"{stream['stream']}: {words}"
        for stream in report["streams"]
        for words in stream.get("warnings", ())
    ]


def _spans(report: Report) -> list[Span]:
    return [
        (each["stage"], each["stream"], each["start"], each["end"])
        for each in report.get("spans", ())
    ]


def _pace(report: Report) -> list[tuple[float, float, float]]:
    return [(each[0], each[1], each[2]) for each in report.get("pace", ())]


def _rates(pace: Sequence[tuple[float, float, float]]) -> Markup:
    rows = rate([(at, rows) for at, rows, _ in pace], "rows", count)
    if not any(read for _, _, read in pace):
        return rows
    return rows + rate([(at, read) for at, _, read in pace], "", size)


def _stages(spans: Sequence[Span]) -> list[tuple[str, str, float]]:
    """Class, name and seconds of each stage, all its spans together."""
    return [
        (stage_class(stage), stage, sum(s[3] - s[2] for s in spans if s[0] == stage))
        for stage in stages(spans)
    ]


def _stream(stream: Report, pages: Mapping[str, str]) -> dict[str, Any]:
    uri = stream["table"].rstrip("/")
    first, last = stream.get("first_version"), stream.get("last_version")
    facts: list[tuple[str, object]] = []
    if stream.get("removed_files"):
        facts.append(("files replaced", count(stream["removed_files"])))
    if stream.get("removed_rows"):
        facts.append(("rows replaced", count(stream["removed_rows"])))
    facts += [(name, count(rows)) for name, rows in stream.get("merged", {}).items()]
    if stream.get("skipped_batches"):
        facts.append(("batches landed before", count(stream["skipped_batches"])))
    facts += [(f"left out: {name}", count(n)) for name, n in stream.get("dropped", {}).items()]
    facts += [("note", note) for note in stream.get("notes", ())]
    return {
        **stream,
        "table": unquote(uri.rpartition("/")[2]) or uri,
        "path": pages.get(uri, ""),
        "versions": "" if last is None else count(last) if first == last else f"{first} to {last}",
        "last": -1 if last is None else last,
        "facts": facts,
        "columns": list(stream.get("columns", {}).items()),
    }
