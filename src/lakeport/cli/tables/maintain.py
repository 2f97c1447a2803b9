"""`lakeport table optimize|vacuum|alter|restore|undo|compact-report`, and `lakeport state show`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakeport.cli.options import Debug, JsonOut, SetKeys
from lakeport.cli.output.formatting import readable
from lakeport.cli.output.help import KEEP, LOOK, Commands, about, help_alone
from lakeport.cli.tables.opened import COMMITS, DELETES, TableName, ToTarget, opened
from lakeport.cli.tables.table import table
from lakeport.errors import SourceError

state = typer.Typer(
    cls=Commands,
    callback=help_alone,
    help="The Singer STATE that tables keep.",
    invoke_without_command=True,
)


@table.command(
    "optimize",
    **about(
        KEEP,
        "lakeport table optimize ./lake/flights",
        "lakeport table optimize ./lake/flights --zorder carrier",
    ),
)
def optimize(
    name: TableName,
    to: ToTarget = None,
    zorder: Annotated[
        str | None, typer.Option("--zorder", metavar="A,B", help="Columns to sort the rows by.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Only partitions for which this holds."),
    ] = None,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Merge a table's small files, and sort its rows if asked to."""
    with opened(name, to, set_keys, json_out, debug, COMMITS) as (output, it):
        columns = [column.strip() for column in (zorder or "").split(",") if column.strip()]
        done = it.optimize(zorder=columns, where=where)
        facts = done.to_dict()
        output.facts(name, facts if json_out else readable(facts))


@table.command(
    "vacuum",
    **about(
        KEEP,
        "lakeport table vacuum ./lake/flights --dry-run",
        "lakeport table vacuum ./lake/flights --retain 30d",
    ),
)
def vacuum(
    name: TableName,
    to: ToTarget = None,
    retain: Annotated[
        str | None,
        typer.Option(
            "--retain",
            metavar="TIME",
            help="Keep what was in use within this time: 168h, 7d; default: the table's own, a "
            "week at least.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would go, and delete nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Allow less than 168 hours: what readers and writers use may go."
        ),
    ] = False,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Delete files that no recent version of a table uses."""
    with opened(name, to, set_keys, json_out, debug, DELETES) as (output, it):
        from lakeport.tables.maintenance import hours

        kept = None if retain is None else hours(retain)
        done = it.vacuum(retain_hours=kept, dry_run=dry_run, force=force)
        facts = done.to_dict()
        if dry_run and not json_out:
            for file in done.files:
                typer.echo(file)
            facts["files"] = len(done.files)
        output.facts(name, facts if json_out else readable(facts))


@table.command("alter", **about(KEEP, "lakeport table alter ./lake/t --column a --type double"))
def alter(
    name: TableName,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="The column, as the table has it.")
    ],
    type_: Annotated[
        str,
        typer.Option("--type", metavar="TYPE", help="Such as `double` or `decimal(10,2)`."),
    ],
    to: ToTarget = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Look at every value, and change nothing.")
    ] = False,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Give a column another type, where every value stays what it is."""
    with opened(name, to, set_keys, json_out, debug, COMMITS) as (output, it):
        done = it.alter(column, type_, dry_run=plan_only).to_dict()
        if not (json_out or done["dry_run"]):
            del done["dry_run"]
        output.facts(name, done if json_out else readable(done))


@table.command("restore", **about(KEEP, "lakeport table restore ./lake/flights --version 3"))
def restore(
    name: TableName,
    version: Annotated[
        int, typer.Option("--version", metavar="N", min=0, help="The version to bring back.")
    ],
    to: ToTarget = None,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Make a new version of a table with the contents of an older one."""
    with opened(name, to, set_keys, json_out, debug, COMMITS) as (output, it):
        output.facts(f"{name} is as in version {version}", it.restore(version).to_dict())


@table.command(
    "undo", **about(KEEP, "lakeport runs ./lake", "lakeport table undo ./lake/flights RUN_ID")
)
def undo(
    name: TableName,
    run_id: Annotated[
        str, typer.Argument(metavar="RUN_ID", help="The run's id, or the name in its report.")
    ],
    to: ToTarget = None,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Put a table back to what it was before a run, if nothing else has changed it since."""
    with opened(name, to, set_keys, json_out, debug, COMMITS) as (output, it):
        done = it.undo(run_id).to_dict()
        output.facts(f"{name} is as before {run_id}", done)


@table.command("compact-report", **about(KEEP, "lakeport table compact-report ./lake/flights"))
def compact_report(
    name: TableName,
    to: ToTarget = None,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Show which partitions have small files, and what `optimize` would do."""
    with opened(name, to, set_keys, json_out, debug) as (output, it):
        found = it.compact_report().to_dict()
        if not json_out:
            found["partitions"] = [readable(row) for row in found["partitions"]]
        output.facts(name, found if json_out else readable(found))


@state.command("show", **about(LOOK, "lakeport state show ./lake/users > state.json"))
def show(
    name: TableName,
    to: ToTarget = None,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Print the Singer STATE that belongs to a table's rows."""
    with opened(name, to, set_keys, json_out, debug) as (output, it):
        found = it.state()
        if found is None:
            raise SourceError(
                f"no commit in the log of {it.uri} carries a STATE",
                "only Singer loads leave one, and only as long as the log is kept.",
            )
        if json_out:
            output.facts(name, found.to_dict())
            return
        sys.stdout.buffer.write(found.state + b"\n")
