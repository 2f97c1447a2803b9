"""A run: where its time went, what it landed, what it set aside, and how to repeat it.

Reports of older versions lack some keys: a page shows what there is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from markupsafe import Markup

from lakeport.html.charts.timeline import Span, rate, stage_class, stages, timeline
from lakeport.html.facts import BadSample
from lakeport.html.render import render
from lakeport.html.text import count, duration, moment, size

__all__ = ["run_body", "run_part"]

Report = Mapping[str, Any]


def run_body(
    report: Report,
    samples: Sequence[BadSample],
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
    spans = _spans(report)
    written, read = _pace(report, "pace"), _pace(report, "reading_pace")
    shown = [replace(s, record="masked") for s in samples] if masked else samples
    return render(
        "run.html",
        r={"streams_left_out": 0, **report},
        href=href,
        totals=_totals(report),
        warnings=_warnings(report),
        spans=spans,
        timeline=timeline(spans, report["seconds"]) if spans else "",
        stages=_stages(spans),
        paces=[
            (title, _rates(points), points)
            for title, points in (("Written", written), ("Read", read))
            if len(points) > 1
        ],
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


def _pace(report: Report, key: str) -> list[tuple[float, float, float]]:
    return [(each[0], each[1], each[2]) for each in report.get(key, ())]


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
