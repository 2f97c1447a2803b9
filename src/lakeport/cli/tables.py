"""The commands `tables`, `runs`, `table` and `state`: look at tables, and maintain them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.options import (
    COMMON,
    LAKE,
    body_parameters,
    choose_lake,
    choose_table,
    collect_keys,
    keyword_parameter,
    make_command,
    refuse_secrets,
)
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.formatting import format_facts, format_time, format_value
from lakeport.cli.output.help import KEEP, LOOK, Guard, command_help, make_group
from lakeport.errors import ConfigError, SourceError
from lakeport.model import EngineReport
from lakeport.schema.hints import format_command
from lakeport.units import format_count, format_size, pluralize

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.lake.records import DropReport, UndoReport
    from lakeport.lake.runs import LakeRun
    from lakeport.lake.table import Table
    from lakeport.lake.tables import LakeTable


_TABLES = ("name", "format", "rows", "size", "files", "last change")
_TABLES_SPARE = ("files", "last change", "size")
_RUNS = ("started", "run id", "rows", "streams", "seconds", "engine", "result")
_FOR_PAGES = ("run", "command", "reasons", "spans", "streams_left_out", "pace", "reading_pace")
_LOADS = ("load", "outcome", "rows", "seconds", "run id")
_LOADS_SPARE = ("seconds", "rows")
_RUNS_SPARE = ("engine", "streams", "seconds", "rows", "started")

LakeName = Annotated[
    str | None,
    typer.Argument(metavar="TARGET", help="The lake: a folder, a URI, or a config file."),
]
LakeOption = Annotated[
    str | None,
    typer.Option(
        "--to", "--config", metavar="TARGET", help="The lake, in place of the argument TARGET."
    ),
]
Body = Callable[..., None]

_READS = ("nothing was changed", "")
COMMITS = (
    "whether the table has a new version of this command is unknown",
    "{history} tells. Readers see the version before or the new one, whole; the "
    "same command can be run again.",
)
DELETES = (
    "some of the files may be deleted already",
    "no version that is kept needs them; the same command deletes the rest.",
)
"""Message and hint for an interrupted command that commits (above) or deletes files (here)."""
DROPS = (
    "some of the table may be gone already",
    "the same command drops the rest; a local table is moved as a whole.",
)
"""Message and hint for an interrupted `table drop`."""


TableName = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE",
        help="The table's folder or URI; with `--to`, its name below that target.",
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        "--config",
        metavar="TARGET",
        help="The table's lake, or a config file with its store's credentials; without TABLE, the "
        "table itself.",
    ),
]

Version = Annotated[
    int | None,
    typer.Option("--version", metavar="N", min=0, help="Show the table as of version N."),
]
Timestamp = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="Show the table as of this time (ISO 8601)."),
]
_SPARE = (
    "engine",
    "mode",
    "files_removed",
    "files_added",
    "run_id",
    "bytes_added",
    "rows_added",
)
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N rows.")]
Timeout = Annotated[
    int,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="Cancel the query after this time, not counting Spark's start.",
    ),
]


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of a lake or table command: its printer, the name given, config and table."""

    output: Output
    name: str
    config: DestinationConfig  # of the lake, or of the table's store
    tables: tuple[Table, ...] = ()  # the one table; empty for a command about a lake
    words: tuple[str, ...] = ()  # that name the table in such a command
    debug: bool = False

    @property
    def table(self) -> Table:
        """The table of a command about a table; IndexError for a lake."""
        return self.tables[0]

    @property
    def json(self) -> bool:
        """Whether the result is one JSON document."""
        return isinstance(self.output, Json)

    def printable_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return facts as the output prints them: with units for people, unchanged for JSON."""
        return facts if self.json else format_facts(facts)

    def facts(self, facts: dict[str, Any]) -> None:
        """Print facts about the table."""
        self.output.facts(self.name, self.printable_facts(facts))

    def confirm(self, plan: str, *command: str, yes: bool, unasked: bool = False) -> None:
        """Print what a command will do, and ask on a terminal; raise unless it may be done.

        Args:
            plan: what will be done, as a sentence without its full stop.
            command: words of the command, such as `table`, `undo`; the hint adds `--yes`.
            yes: whether the user has agreed by `--yes`.
            unasked: whether it may be done where nobody can be asked, even without `yes`.

        Raises:
            ConfigError: nobody can be asked, and `yes` and `unasked` are false.
            typer.Exit: the answer was no; nothing was changed.
        """
        output = self.output
        terminal = isinstance(output, Console) and output.interactive and sys.stdin.isatty()
        if not (yes or unasked or terminal):
            # The output adds `--set` to a command without `--to`.
            table = self.words if "--to" in self.words else (self.name,)
            given = format_command(*command, *table, "--yes")
            raise ConfigError(
                f"nobody was asked, so nothing was changed: {plan}", f"{given} does it."
            )
        if isinstance(output, Console):
            output.close()
            output.say(f"{plan}.", hanging=2)
            if terminal and not yes and not _ask("Go on?"):
                output.say("nothing was changed")
                raise typer.Exit(1)
            output.begin(f"working on {self.name}")


def _ask(question: str) -> bool:
    """Ask a yes-or-no question on the terminal; anything but `y` or `yes`, and Ctrl-C, means no."""
    try:
        return typer.confirm(question)
    except typer.Abort:
        typer.echo()
        return False


def lake_command(body: Body, name: object = LakeName) -> Body:
    """Decorate a function as a command about a lake; it is called with an `Invocation`.

    `name` is the annotation of the argument that names the lake.
    """
    return _build_command(body, keyword_parameter(LAKE, name, None), LakeOption, _READS)


def table_command(cut_off: tuple[str, str] = _READS) -> Callable[[Body], Body]:
    """Return a decorator for a table command; `cut_off`: message and hint after a signal."""

    def decorate(body: Body) -> Body:
        return _build_command(
            body, keyword_parameter("table", TableName, None), TableOption, cut_off
        )

    return decorate


def _build_command(body: Body, place: Parameter, to: object, cut_off: tuple[str, str]) -> Body:
    """Build a command with an argument `place` or `--to`; it calls `body` with an `Invocation`."""
    own = body_parameters(body)
    needed = [each for each in own if each.default is each.empty]
    rest = [each for each in own if each not in needed]
    parameters = [place, *needed, keyword_parameter("to", to, None), *rest, *COMMON]
    of_table = place.name != LAKE

    def command(
        *, to: str | None, set_keys: list[str] | None, json_out: bool, debug: bool, **own: Any
    ) -> None:
        output: Output = Json() if json_out else Console()
        with Guard(output, debug, cut_off=cut_off) as guard:
            given = collect_keys({}, set_keys, None)
            chosen = own.pop(place.name)
            name, target = (
                choose_table(chosen, to, given) if of_table else ("", choose_lake(chosen, to))
            )
            if not of_table and isinstance(target, str):
                name = target
            words = (name, *(("--to", target) if of_table and isinstance(target, str) else ()))
            message, hint = cut_off
            history = format_command("table", "history", *words)
            guard.cut_off = message, hint.replace("{history}", history)
            about = name or "the lake"
            output.begin(f"looking at {about}" if cut_off is _READS else f"working on {about}")
            from lakeport.config.load import load_target
            from lakeport.lake.table import Table

            tables = (Table(name, target, **given),) if of_table else ()
            config = tables[0].config if tables else load_target(target, given)
            guard.protect(config, target, set_keys)
            refuse_secrets(given, type(config))
            words += tuple(word for pair in set_keys or () for word in ("--set", pair))
            name = name or config.storage().uri()  # of a lake that the environment's keys name
            body(Invocation(output, name, config, tables, words, debug), **own)

    return make_command(command, body, parameters)


@lake_command
def tables(lake: Invocation) -> None:
    """List a lake's tables: format, rows, size, files, last change."""
    from lakeport.lake.tables import tables as listed

    show_tables(lake.output, lake.name, listed(lake.config))


@lake_command
def runs(
    lake: Invocation,
    last: Annotated[bool, typer.Option("--last", help="Show the newest run in full.")] = False,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="Show this run in full: its id, or `last`."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Show at most N runs.")
    ] = 20,
) -> None:
    """List a lake's runs, newest first. A `lakeport run` is one entry."""
    from lakeport.lake.runs import find_run
    from lakeport.lake.runs import runs as listed
    from lakeport.lake.tables import open_lake

    output = lake.output
    if run is not None:
        found, last = [find_run(*open_lake(lake.config), run)], True
    else:
        found = listed(lake.config, 1 if last else limit)
    if isinstance(output, Json):
        newest = found[0].report if found else None
        output.document(newest if last else [each.to_dict() for each in found])
    elif not found:
        output.say(f"no run has left a report in {lake.name}: `manifest: true` has each leave one")
    elif last:
        _show_run(output, found[0])
    else:
        _show_runs(output, found)


@lake_command
def sql(
    lake: Invocation,
    query: Annotated[
        str,
        typer.Argument(metavar="SQL", help="Spark SQL; tables are called as their folders."),
    ],
    limit: Limit = 1000,
    timeout: Timeout = 600,
) -> None:
    """Run Spark SQL on a lake's tables, by their names."""
    from lakeport.lake.query import sql as run

    _show_rows(lake, run(lake.config, query, limit=limit, timeout=timeout))


def show_tables(output: Output, target: str, found: Sequence[LakeTable]) -> None:
    """Print a lake's tables, then problems with reading them; or that there is none."""
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
            format_count(table.rows),
            format_size(table.bytes),
            format_count(table.files),
            "?" if table.last_change is None else format_time(table.last_change),
        )
        for table in found
    ]
    output.rows("", _TABLES, rows, _TABLES_SPARE)
    for table in found:
        if table.problem:
            output.say(f"  {format_value(table.name)}: {format_value(table.problem)}", hanging=2)


def _show_runs(output: Console, found: Sequence[LakeRun]) -> None:
    """Print runs as a table, then the errors of failed runs."""
    rows = [
        (
            format_time(run.started),
            run.run_id,
            format_count(run.rows),
            _count_loads(run) or ", ".join(run.streams) or "none",
            f"{run.seconds:.1f}",
            run.engine,
            run.result,
        )
        for run in found
    ]
    output.rows("", _RUNS, rows, _RUNS_SPARE)
    for run in found:
        if run.error:
            output.say(f"  {format_value(run.run_id)}: {format_value(run.error)}", hanging=2)


def _show_run(output: Console, run: LakeRun) -> None:
    """Print a run's report, then its streams or loads; leave out empty values."""
    report: dict[str, Any] = {**run.report, "result": run.result if run.ok else run.error}
    if engine := report.get("engine"):
        parts = str(EngineReport(**engine)), engine["application"]
        report["engine"] = ", ".join(filter(None, parts))
    loads = [load for load in report.pop("loads", ()) if load["outcome"] != "left out"]
    streams = report.pop("streams", ())
    left_out = ("report", "ok", "run_id", "error", *_FOR_PAGES)
    facts = {name: value for name, value in report.items() if name not in left_out}
    output.facts(f"run {run.run_id}", format_facts(_drop_empty(facts)))
    for stream in streams:
        facts = {k: v for k, v in stream.items() if k not in ("stream", "source_columns")}
        output.facts(str(stream["stream"]), format_facts(_drop_empty(facts)))
    if loads:
        output.rows("", _LOADS, [_load_cells(load) for load in loads], _LOADS_SPARE)
    for load in loads:
        if why := load["reason"] or (load["error"] or {}).get("message", ""):
            output.say(f"  {format_value(load['load'])}: {format_value(why)}", hanging=2)


def _load_cells(load: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one load of a `lakeport run`, the load's own run id last."""
    own = (load.get("report") or load)["run_id"] or "-"
    return load["load"], load["outcome"], format_count(load["rows"]), f"{load['seconds']:.1f}", own


def _count_loads(run: LakeRun) -> str:
    """Return a lake file's loads by outcome as text; empty if the run is a single load."""
    ends = ", ".join(f"{format_count(number)} {end}" for end, number in run.outcomes.items())
    return f"loads of {PurePath(run.file).name}: {ends}" if run.file else ""


def _drop_empty(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts without null, empty and zero values."""
    return {name: value for name, value in facts.items() if value not in (None, "", 0, [], {})}


table = make_group("Look at a table, as it is or as it was, and maintain it.")


@table.command(
    "show",
    **command_help(
        LOOK, "lakeport table show ./lake/flights", "lakeport table show ./lake/flights --version 3"
    ),
)
@table_command()
def show(command: Invocation, version: Version = None, timestamp: Timestamp = None) -> None:
    """Show a table's schema, partitions, size and version; for a lake, its tables."""
    as_of = _version_arguments(version, timestamp)
    is_newest = all(part is None for part in as_of.values())
    if several := command.table.tables() if is_newest else []:
        show_tables(command.output, command.name, several)
    else:
        command.facts(command.table.describe(**as_of).to_dict())


@table.command("history", **command_help(LOOK, "lakeport table history ./lake/flights --limit 5"))
@table_command()
def history(command: Invocation, limit: Limit = 20) -> None:
    """List a table's versions, newest first."""
    entries = [command.printable_facts(entry.to_dict()) for entry in command.table.history(limit)]
    columns = list(dict.fromkeys(key for entry in entries for key in entry))
    rows = [[entry.get(column) for column in columns] for entry in entries]
    command.output.rows("", columns, rows, _SPARE)


@table.command(
    "preview",
    **command_help(
        LOOK,
        "lakeport table preview ./lake/flights --limit 3",
        "lakeport table preview flights --to lake.yaml",
    ),
)
@table_command()
def preview(
    command: Invocation, version: Version = None, timestamp: Timestamp = None, limit: Limit = 10
) -> None:
    """Show some rows of a table."""
    _show_rows(command, command.table.preview(limit, **_version_arguments(version, timestamp)))


@table.command(
    "query",
    **command_help(
        LOOK,
        "lakeport table query ./lake/flights \\",
        '  "SELECT carrier, count(*) FROM t GROUP BY 1"',
    ),
)
@table_command()
def query(
    command: Invocation,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Spark SQL; the table is called `t`.")],
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = 1000,
    timeout: Timeout = 600,
) -> None:
    """Run Spark SQL on a table."""
    as_of = _version_arguments(version, timestamp)
    _show_rows(command, command.table.query(sql, limit=limit, timeout=timeout, **as_of))


def _version_arguments(version: int | None, timestamp: str | None) -> dict[str, Any]:
    """Return `version` and `timestamp` as keyword arguments; ConfigError if both are given."""
    if version is not None and timestamp is not None:
        raise ConfigError("`--version` and `--timestamp` both name a moment", "give one of them.")
    return {"version": version, "timestamp": timestamp}


def _show_rows(command: Invocation, rows: pa.Table) -> None:
    """Print the rows of an Arrow table."""
    from lakeport.lake.snapshots import list_values

    columns = [list_values(column) for column in rows.columns]
    command.output.rows("", rows.column_names, list(zip(*columns, strict=True)))


state = make_group("Show the Singer STATE that tables keep.")


@table.command(
    "optimize",
    **command_help(
        KEEP,
        "lakeport table optimize ./lake/flights",
        "lakeport table optimize ./lake/flights --zorder carrier",
    ),
)
@table_command(COMMITS)
def optimize(
    command: Invocation,
    zorder: Annotated[
        str | None,
        typer.Option("--zorder", metavar="A,B", help="Also sort rows by these columns (Z-order)."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Only partitions that meet this."),
    ] = None,
) -> None:
    """Merge a table's small files, and sort its rows with `--zorder`."""
    columns = [column.strip() for column in (zorder or "").split(",") if column.strip()]
    command.facts(command.table.optimize(zorder=columns, where=where).to_dict())


@table.command(
    "vacuum",
    **command_help(
        KEEP,
        "lakeport table vacuum ./lake/flights --dry-run",
        "lakeport table vacuum ./lake/flights --retain 30d",
    ),
)
@table_command(DELETES)
def vacuum(
    command: Invocation,
    retain: Annotated[
        str | None,
        typer.Option(
            "--retain",
            metavar="TIME",
            help="Keep files that were in use within this time: 168h, 7d; default: the table's "
            "own setting, a week at least.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files, and delete nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Allow less than 168 hours, at the risk of files that are in use."
        ),
    ] = False,
) -> None:
    """Delete files that no recent version of a table uses."""
    from lakeport.lake.maintenance import parse_hours

    kept = None if retain is None else parse_hours(retain)
    done = command.table.vacuum(retain_hours=kept, dry_run=dry_run, force=force)
    facts = done.to_dict()
    if dry_run and not command.json:
        for file in done.files:
            typer.echo(file)
        facts["files"] = len(done.files)
    command.facts(facts)


@table.command(
    "alter", **command_help(KEEP, "lakeport table alter ./lake/t --column a --type double")
)
@table_command(COMMITS)
def alter(
    command: Invocation,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="The column's name in the table.")
    ],
    type_: Annotated[
        str,
        typer.Option(
            "--type", metavar="TYPE", help="The new type, such as `double` or `decimal(10,2)`."
        ),
    ],
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Check every value, and change nothing.")
    ] = False,
) -> None:
    """Change a column's type, if every value survives the change."""
    done = command.table.alter(column, type_, dry_run=plan_only).to_dict()
    if not (command.json or done["dry_run"]):
        del done["dry_run"]
    command.facts(done)


@table.command("restore", **command_help(KEEP, "lakeport table restore ./lake/flights --version 3"))
@table_command(COMMITS)
def restore(
    command: Invocation,
    version: Annotated[
        int, typer.Option("--version", metavar="N", min=0, help="The version to restore.")
    ],
) -> None:
    """Add a version to a table with the contents of an older version."""
    done = command.table.restore(version).to_dict()
    command.output.facts(f"{command.name} is as in version {version}", done)


Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking, as scripts need.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop there.")]


@table.command(
    "undo",
    **command_help(
        KEEP,
        "lakeport table undo ./lake/flights",
        "lakeport table undo ./lake/flights RUN_ID --yes",
    ),
)
@table_command(COMMITS)
def undo(
    command: Invocation,
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN_ID", help="The run's id, or the name in its report; default: the last."
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Undo a table's last run, or RUN_ID; or bring back a table that was dropped."""
    done = command.table.undo(run_id or "", dry_run=True)
    if not dry_run:
        # A script that names the run knows what it undoes.
        plan = _describe_undo(command.name, done)
        command.confirm(plan, "table", "undo", yes=yes, unasked=run_id is not None)
        done = command.table.undo(done.run_id)
    facts = done.to_dict()
    if not command.json and done.version is None:
        facts = _drop_empty(facts)
    elif not command.json:
        del facts["deleted"]
        if not dry_run:
            del facts["dry_run"]
    title = command.name if dry_run else f"{command.name} is as before {done.run_id or 'its drop'}"
    command.output.facts(title, command.printable_facts(facts))


def _describe_undo(name: str, plan: UndoReport) -> str:
    """Return a sentence on what undoing a run does to a table, without its full stop."""
    if not plan.run_id:
        rows = "?" if plan.rows_after is None else pluralize(plan.rows_after, "row")
        dropped = "" if plan.committed is None else format_time(plan.committed)
        return f"this brings back {name}, which was dropped at {dropped}, with {rows}"
    if plan.version is None:
        when = "" if plan.committed is None else f" of {format_time(plan.committed)}"
        rows, files = pluralize(plan.rows_before, "row"), pluralize(plan.deleted, "file")
        return (
            f"this undoes run {plan.run_id}{when}: {name} has {rows}, and will have "
            f"{format_count(plan.rows_after)}; {files} will be deleted, and can't be brought back"
        )
    made = f"version {', '.join(map(format_count, plan.undone))}"
    when = "" if plan.committed is None else f" at {format_time(plan.committed)}"
    return (
        f"this undoes run {plan.run_id}, which made {made}{when}: {name} has "
        f"{pluralize(plan.rows_before, 'row')}, and will have the {format_count(plan.rows_after)} "
        f"of version {plan.restored}"
    )


@table.command(
    "drop",
    **command_help(
        KEEP, "lakeport table drop ./lake/flights", "lakeport table undo ./lake/flights"
    ),
)
@table_command(DROPS)
def drop(command: Invocation, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Drop a table. A local one can be brought back for a day, by `lakeport table undo`."""
    done = command.table.drop(dry_run=True)
    if not dry_run:
        command.confirm(_describe_drop(command, done), "table", "drop", yes=yes)
        done = command.table.drop()
    facts = done.to_dict()
    if not (command.json or dry_run):
        del facts["dry_run"]
    title = command.name if dry_run else f"{command.name} is dropped"
    command.output.facts(title, command.printable_facts(facts))


def _describe_drop(command: Invocation, plan: DropReport) -> str:
    """Return a sentence on what dropping a table does, without its full stop."""
    size = f"{pluralize(plan.rows, 'row')} in {pluralize(plan.files, 'file')}"
    what = f"this drops {command.name}, {size}, {format_size(plan.bytes)}"
    if plan.kept_until is None:
        return f"{what}, which can't be brought back: the store has no renaming"
    back = format_command("table", "undo", command.name)
    return f"{what}; until {format_time(plan.kept_until)}, {back} brings it back"


@table.command(
    "compact-report", **command_help(KEEP, "lakeport table compact-report ./lake/flights")
)
@table_command()
def compact_report(command: Invocation) -> None:
    """List partitions with small files, and what `optimize` would do."""
    found = command.table.compact_report().to_dict()
    found["partitions"] = [command.printable_facts(row) for row in found["partitions"]]
    command.facts(found)


@state.command("show", **command_help(LOOK, "lakeport state show ./lake/users > state.json"))
@table_command()
def show_state(command: Invocation) -> None:
    """Print the Singer STATE that belongs to a table's rows."""
    found = command.table.state()
    if found is None:
        raise SourceError(
            f"no commit in the log of {command.table.uri} carries a STATE",
            "only Singer loads leave one, and only as long as the log is kept.",
        )
    if command.json:
        command.facts(found.to_dict())
        return
    sys.stdout.buffer.write(found.state + b"\n")
