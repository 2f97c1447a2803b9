"""Pages of a run and of a plan: time, streams, loads, rejected records, the command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from typing import Any
from urllib.parse import unquote

from markupsafe import Markup

from lakeport.html.charts import draw_rate, draw_timeline, get_stage_class, order_stages
from lakeport.html.document import render_template
from lakeport.html.facts import BadSample, RunFacts
from lakeport.html.text import build_tag, build_time_tag, format_duration
from lakeport.model import Span, StreamReport
from lakeport.units import format_count, format_size, pluralize

Plan = Mapping[str, Any]

_MODES = {
    "append": "append the rows to {}",
    "overwrite": "replace the rows of {}",
    "merge": "merge the rows into {} by their keys",
}


def render_run_page(
    run: RunFacts,
    samples: Sequence[BadSample],
    href: Callable[[str], str],
    pages: Mapping[str, str],
    *,
    masked: bool = False,
) -> Markup:
    """Render a run's page: figures, timeline, streams and samples of bad records.

    Args:
        samples: some of its bad records.
        pages: table's URI -> its page.
        masked: whether the records' values are left out.
    """
    shown = [replace(s, record="masked") for s in samples] if masked else samples
    return render_template(
        "run.html",
        **_collect_facts(run, pages),
        href=href,
        paces=[
            (title, _draw_rates(points), points)
            for title, points in (("Written", run.pace), ("Read", run.reading_pace))
            if len(points) > 1
        ],
        samples=shown,
        command=shlex.join(run.command or ()),
        undo=list_undo_commands(run),
    )


def list_undo_commands(run: RunFacts, undone: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return (purpose, command line) pairs that take a run's rows out of its tables again.

    Tables out of which they are taken already have none; `undone` has URIs of further ones.
    """
    undone = {*undone, *(each["table"] for each in run.undone)}
    told: dict[str, tuple[str, str]] = {}
    for stream in run.streams:
        uri = stream.table.rstrip("/")
        if uri in undone or not (stream.rows or stream.removed_files):
            continue
        name, quoted = _get_table_name(uri), shlex.quote(uri)
        told[uri] = (
            (f"Take away {name}, which the run made", f"lakeport table drop {quoted}")
            if stream.first_version == 0
            else (
                f"Take its rows out of {name}",
                f"lakeport table undo {quoted} {shlex.quote(run.run_id)}",
            )
        )
    return list(told.values())


def render_run_part(run: RunFacts) -> Markup:
    """Render a run for notebooks: figures, timeline and tables."""
    return render_template("part_run.html", **_collect_facts(run, {}, is_live=True))


def _collect_facts(
    run: RunFacts, pages: Mapping[str, str], *, is_live: bool = False
) -> dict[str, Any]:
    """Return a run's template variables; `pages` has the page path of each table's URI."""
    return {
        "r": run,
        "totals": _list_totals(run, is_live=is_live),
        "warnings": [
            *run.warnings,
            *(f"{each.stream}: {words}" for each in run.streams for words in each.warnings),
        ],
        "timeline": draw_timeline(run.spans, run.seconds) if run.spans else "",
        "stages": _sum_stages(run.spans),
        "streams": [_collect_stream_facts(each, pages) for each in run.streams],
    }


def _list_totals(run: RunFacts, *, is_live: bool) -> list[tuple[str, object]]:
    """Return (label, value) pairs of a run's result, rows, size, time and engine.

    Spark's UI is linked only if `is_live`: the run's process still goes on.
    """
    undone = [("undone in", each.get("table", "").rpartition("/")[2]) for each in run.undone]
    told: list[tuple[str, object]] = [
        ("result", "ok" if run.ok else "failed"),
        *undone,
        ("rows", format_count(run.rows)),
        ("size", format_size(run.bytes)),
        ("files", format_count(run.files)),
        ("took", format_duration(run.seconds)),
    ]
    if run.rows and run.seconds > 0:
        told.append(("rows a second", format_count(run.rows / run.seconds)))
    if run.rejected:
        told.append(("set aside", format_count(run.rejected)))
    told.append(("started", build_time_tag(run.started.astimezone(UTC))))
    if run.engine.name:
        told.append(("run by", str(run.engine).removeprefix("by ")))
    if run.engine.application:
        told.append(("application", run.engine.application))
    for title, url in (("Spark's UI", run.engine.ui), ("history server", run.engine.history)):
        if url.startswith(("http://", "https://")) and (is_live or title != "Spark's UI"):
            told.append((title, build_tag("a", url, href=url)))
    if run.parser:
        told.append(("read by", f"{run.parser} parser"))
    return told


def _draw_rates(pace: Sequence[tuple[float, float, float]]) -> Markup:
    """Draw two charts from (seconds, rows, bytes): rows a second, and bytes a second if known."""
    rows = draw_rate(
        [(at, rows) for at, rows, _ in pace], "rows", lambda n: f"{format_count(n)} rows/s"
    )
    if not any(read for _, _, read in pace):
        return rows
    sizes = [(at, read) for at, _, read in pace]
    return rows + draw_rate(sizes, "bytes", lambda n: f"{format_size(n)}/s")


def _sum_stages(spans: Sequence[Span]) -> list[tuple[str, str, float]]:
    """Return (CSS class, stage, total seconds) for each stage of these spans."""
    return [
        (
            get_stage_class(stage),
            stage,
            sum(span.end - span.start for span in spans if span.stage == stage),
        )
        for stage in order_stages(spans)
    ]


def _collect_stream_facts(stream: StreamReport, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return a stream's template variables, with the path of its table's page or ""."""
    uri = stream.table.rstrip("/")
    first, last = stream.first_version, stream.last_version
    return {
        **asdict(stream),
        "table": _get_table_name(uri),
        "path": pages.get(uri, ""),
        "versions": ""
        if last is None
        else format_count(last)
        if first == last
        else f"{first} to {last}",
        "last": -1 if last is None else last,
        "facts": _list_remarks(stream),
        "columns": list(stream.columns.items()),
    }


def _list_remarks(stream: StreamReport) -> list[tuple[str, object]]:
    """Return (label, value) pairs of a stream's counts, such as rows replaced."""
    counted = {
        "files replaced": stream.removed_files,
        "rows replaced": stream.removed_rows,
        **stream.merged,
        "batches landed before": stream.skipped_batches,
        **{f"left out: {name}": records for name, records in stream.dropped.items()},
    }
    return [(name, format_count(n)) for name, n in counted.items() if n]


@dataclass(frozen=True, slots=True)
class LoadBox:
    """A load, shown as a box on the page of a lake file's (`lake.yaml`) plan or run.

    Attributes:
        uses: the loads that it uses.
        words: its action or outcome, in one line.
        state: `ok`, `failed`, or empty for neither.
        columns: column -> type.
        error: `type`, `message` and `hint` of its error; None if it did not fail.
        undo: purpose and command line of each command that undoes it.
    """

    name: str
    uses: Sequence[str]
    words: str
    state: str = ""
    facts: Sequence[tuple[str, object]] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    error: Mapping[str, Any] | None = None
    undo: Sequence[tuple[str, str]] = ()


def render_plan_page(plan: Plan) -> Markup:
    """Render the page of a load's plan, given as `LandingPlan.to_dict()`."""
    streams = [{**each, "table": _get_table_name(each["table"])} for each in plan["streams"]]
    rows = [each["rows"] for each in streams]
    known = sum(value for value in rows if value >= 0)
    unknown = any(value < 0 for value in rows)
    totals = [
        ("engine", plan.get("engine", "")),
        ("mode", plan["mode"]),
        ("format", plan["file_type"]),
        ("tables", format_count(len(streams))),
        ("rows", f"{format_count(known)}{' and more' if unknown else ''}"),
        ("files, about", format_count(sum(max(0, each["files"]) for each in streams))),
    ]
    source = {"title": plan.get("source") or "Source", "words": pluralize(len(streams), "stream")}
    return render_template(
        "plan.html",
        plan={**plan, "streams": streams},
        totals=totals,
        source=source,
        steps=_list_steps(plan, streams),
        doing=lambda stream: _describe_write(stream, plan["mode"]),
        stream_facts=_list_plan_facts,
    )


def _list_steps(plan: Plan, streams: list[dict[str, Any]]) -> list[str]:
    """Describe a planned load's steps in words, from reading to writing."""
    columns = [column for each in streams for column in each["columns"]]
    new = sum(column["change"] == "new" for column in columns)
    bad = sum(each["bad"] for each in streams)
    keys = dict.fromkeys(key for each in streams for key in each["partition_keys"])
    tables = pluralize(len(streams), "table")
    return [
        "read every record",
        *([f"{pluralize(bad, 'bad record')}: fail or set aside, as configured"] if bad else []),
        f"give {pluralize(len(columns), 'column')} their types",
        *([f"add {pluralize(new, 'new column')}"] if new else []),
        *([f"partition by {', '.join(keys)}"] if keys else []),
        f"write {plan['file_type']} files",
        _MODES.get(plan["mode"], plan["mode"] + " {}").format(tables),
    ]


def _describe_write(stream: Mapping[str, Any], mode: str) -> str:
    """Describe how a stream will be written, such as `append, 12 rows, on version 3`."""
    rows = "" if stream["rows"] < 0 else f", {pluralize(stream['rows'], 'row')}"
    if not stream["exists"]:
        return f"is made{rows}"
    version = f", on version {stream['version']:,}" if stream["version"] >= 0 else ""
    return f"{mode}{rows}{version}"


def _list_plan_facts(stream: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return (label, value) pairs of a planned stream, such as its table and rows."""
    return [
        ("table", stream["table"] if stream["exists"] else f"{stream['table']} (new)"),
        ("rows", format_count(stream["rows"])),
        ("files, about", format_count(stream["files"])),
        ("partitions", ", ".join(stream["partition_keys"]) or "none"),
        ("columns", format_count(len(stream["columns"]))),
    ]


def _get_table_name(uri: str) -> str:
    """Return the last part of a table's URI, percent-decoded."""
    return unquote(uri.rstrip("/").rpartition("/")[2]) or uri
