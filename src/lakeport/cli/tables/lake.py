"""`lakeport tables` and `lakeport runs`: what is in a lake, and how it came there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.options import Debug, JsonOut, SetKeys, keys, refuse_secrets
from lakeport.cli.output.console import Console, Json
from lakeport.cli.output.errors import Guard
from lakeport.cli.output.formatting import (
    moment,
    readable,
    shown,
)
from lakeport.engine.base import EngineReport
from lakeport.units import count, size

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.tables.lake import LakeTable
    from lakeport.tables.runs import LakeRun

_TABLES = ("name", "format", "rows", "size", "files", "last change")
_TABLES_SPARE = ("files", "last change", "size")
_RUNS = ("started", "run id", "rows", "streams", "seconds", "engine", "result")
_FOR_PAGES = ("run", "command", "reasons", "spans", "streams_left_out", "pace", "reading_pace")
_LOADS = ("load", "outcome", "rows", "seconds", "run id")
_LOADS_SPARE = ("seconds", "rows")
_RUNS_SPARE = ("engine", "streams", "seconds", "rows", "started")

Target = Annotated[str, typer.Argument(metavar="TARGET", help="A folder, a URI, or a config file.")]


def tables(
    target: Target,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """List a lake's tables: format, rows, size, files, last change."""
    output = Json() if json_out else Console()
    with opened_lake(output, target, set_keys, debug) as config:
        from lakeport.tables.lake import tables as listed

        show_tables(output, target, listed(config))


def runs(
    target: Target,
    last: Annotated[bool, typer.Option("--last", help="Show the newest run in full.")] = False,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="Show this run in full: its id, or `last`."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="At most so many runs.")
    ] = 20,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """List the runs of a lake, the newest first; one of a lake's file stands for its loads."""
    output = Json() if json_out else Console()
    with opened_lake(output, target, set_keys, debug) as config:
        from lakeport.tables.lake import open_lake
        from lakeport.tables.runs import find_run
        from lakeport.tables.runs import runs as listed

        if run is not None:
            found, last = [find_run(*open_lake(config), run)], True
        else:
            found = listed(config, 1 if last else limit)
        if isinstance(output, Json):
            newest = found[0].report if found else None
            output.document(newest if last else [each.to_dict() for each in found])
        elif not found:
            output.say(f"no run has left a report in {target}: `manifest: true` has each leave one")
        elif last:
            _show_run(output, found[0])
        else:
            _show_runs(output, found)


@contextmanager
def opened_lake(
    output: Console | Json, target: str, set_keys: Sequence[str] | None, debug: bool
) -> Iterator[DestinationConfig]:
    """The target's config; errors take the way that every command's take."""
    with Guard(output, debug, cut_off=("nothing was changed", "")) as guard:
        output.begin(f"looking at {target}")
        from lakeport.config.load import load_target

        given = keys({}, set_keys, None)
        config = load_target(target, given)
        guard.protect(config, target, set_keys)
        refuse_secrets(given, type(config))
        yield config


def show_tables(output: Console | Json, target: str, found: Sequence[LakeTable]) -> None:
    """Print the tables of a lake."""
    if isinstance(output, Json):
        output.document([table.to_dict() for table in found])
        return
    if not found:
        output.say(f"there is no table in {target}; `lakeport land` makes tables")
        return
    rows = [
        (
            table.name,
            table.format or "?",
            count(table.rows),
            size(table.bytes),
            count(table.files),
            "?" if table.last_change is None else moment(table.last_change),
        )
        for table in found
    ]
    output.rows("", _TABLES, rows, _TABLES_SPARE)
    for table in found:
        if table.problem:
            output.say(f"  {shown(table.name)}: {shown(table.problem)}", hanging=2)


def _show_runs(output: Console, found: Sequence[LakeRun]) -> None:
    rows = [
        (
            moment(run.started),
            run.run_id,
            count(run.rows),
            _of_loads(run) or ", ".join(run.streams) or "none",
            f"{run.seconds:.1f}",
            run.engine,
            "ok" if run.ok else "failed",
        )
        for run in found
    ]
    output.rows("", _RUNS, rows, _RUNS_SPARE)
    for run in found:
        if run.error:
            output.say(f"  {shown(run.run_id)}: {shown(run.error)}", hanging=2)


def _show_run(output: Console, run: LakeRun) -> None:
    """Everything that a report tells in words, but for what is empty."""
    report: dict[str, Any] = {**run.report, "result": "ok" if run.ok else run.error}
    if engine := report.get("engine"):
        told = str(EngineReport(**engine)), engine["application"]
        report["engine"] = ", ".join(filter(None, told))
    loads = [load for load in report.pop("loads", ()) if load["outcome"] != "left out"]
    streams = [_stream(stream) for stream in report.pop("streams", ())]
    left_out = ("report", "ok", "run_id", "error", *_FOR_PAGES)
    facts = {name: value for name, value in report.items() if name not in left_out}
    output.facts(f"run {run.run_id}", readable({k: v for k, v in facts.items() if _tells(v)}))
    for stream in streams:
        output.facts(str(stream.pop("stream")), readable(stream))
    if loads:
        output.rows("", _LOADS, [_load(load) for load in loads], _LOADS_SPARE)
    for load in loads:
        if why := load["reason"] or (load["error"] or {}).get("message", ""):
            output.say(f"  {shown(load['load'])}: {shown(why)}", hanging=2)


def _load(load: Mapping[str, Any]) -> tuple[str, ...]:
    """A load of a run of a lake's file; by its run's id it is shown in full."""
    own = (load.get("report") or load)["run_id"] or "-"
    return load["load"], load["outcome"], count(load["rows"]), f"{load['seconds']:.1f}", own


def _of_loads(run: LakeRun) -> str:
    """What became of the loads of a run of a lake's file; empty for a load by itself."""
    ends = ", ".join(f"{count(number)} {end}" for end, number in run.outcomes.items())
    return f"loads of {PurePath(run.file).name}: {ends}" if run.file else ""


def _stream(stream: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in stream.items() if _tells(v) and k != "source_columns"}


def _tells(value: object) -> bool:
    return value not in (None, "", 0, [], {})
