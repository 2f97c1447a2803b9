"""`lakeport table show|history|preview|query`: look at a table, now or as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.options import Debug, JsonOut, SetKeys
from lakeport.cli.output.formatting import readable
from lakeport.cli.output.help import LOOK, Commands, about, help_alone
from lakeport.cli.tables.lake import show_tables
from lakeport.cli.tables.opened import TableName, ToTarget, opened
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.cli.output.console import Output

table = typer.Typer(
    cls=Commands,
    callback=help_alone,
    help="Look at a table, now or as it was, and keep it in order.",
    invoke_without_command=True,
)

Version = Annotated[
    int | None, typer.Option("--version", metavar="N", min=0, help="As of this version.")
]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="TIME", help="As of this moment, ISO 8601.")
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
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many rows.")]


@table.command(
    "show",
    **about(
        LOOK, "lakeport table show ./lake/flights", "lakeport table show ./lake/flights --version 3"
    ),
)
def show(
    name: TableName,
    to: ToTarget = None,
    version: Version = None,
    timestamp: Timestamp = None,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Show a table's schema, partitions, size and version; of a lake its tables."""
    with opened(name, to, set_keys, json_out, debug) as (output, it):
        moment = _moment(version, timestamp)
        several = [] if any(part is not None for part in moment.values()) else it.tables()
        if several:
            show_tables(output, name, several)
        else:
            facts = it.describe(**moment).to_dict()
            output.facts(name, facts if json_out else readable(facts))


@table.command("history", **about(LOOK, "lakeport table history ./lake/flights --limit 5"))
def history(
    name: TableName,
    to: ToTarget = None,
    limit: Limit = 20,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """List a table's versions, the newest first."""
    with opened(name, to, set_keys, json_out, debug) as (output, it):
        entries = [entry.to_dict() for entry in it.history(limit)]
        told = entries if json_out else [readable(entry) for entry in entries]
        columns = list(dict.fromkeys(key for entry in told for key in entry))
        rows = [[entry.get(column) for column in columns] for entry in told]
        output.rows("", columns, rows, _SPARE)


@table.command(
    "preview",
    **about(
        LOOK,
        "lakeport table preview ./lake/flights --limit 3",
        "lakeport table preview flights --to lake.yaml",
    ),
)
def preview(
    name: TableName,
    to: ToTarget = None,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = 10,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Show some rows of a table."""
    with opened(name, to, set_keys, json_out, debug) as (output, it):
        _show(output, it.preview(limit, **_moment(version, timestamp)))


@table.command(
    "query",
    **about(
        LOOK,
        "lakeport table query ./lake/flights \\",
        '  "SELECT carrier, count(*) FROM t GROUP BY 1"',
    ),
)
def query(
    name: TableName,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Spark SQL; the table is called `t`.")],
    to: ToTarget = None,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = 1000,
    timeout: Annotated[
        int,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            help="Cancel the query after so many seconds, not counting Spark's start.",
        ),
    ] = 600,
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Run Spark SQL on a table."""
    with opened(name, to, set_keys, json_out, debug) as (output, it):
        _show(output, it.query(sql, limit=limit, timeout=timeout, **_moment(version, timestamp)))


def _moment(version: int | None, timestamp: str | None) -> dict[str, Any]:
    if version is not None and timestamp is not None:
        raise ConfigError("`--version` and `--timestamp` both name a moment", "give one of them.")
    return {"version": version, "timestamp": timestamp}


def _show(output: Output, rows: pa.Table) -> None:
    columns = [column.to_pylist() for column in rows.columns]
    output.rows("", rows.column_names, list(zip(*columns, strict=True)))
