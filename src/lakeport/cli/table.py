"""`lakeport table show|history|preview|query`: look at a table, now or as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.cli.console import Console, Json, Output
from lakeport.cli.guard import Guard
from lakeport.cli.options import Debug, JsonOut
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.tables import Table

__all__ = ["table"]

table = typer.Typer(help="Look at a table, now or as it was.")

TablePath = Annotated[str, typer.Argument(metavar="TABLE", help="The table's folder or URI.")]
Version = Annotated[
    int | None, typer.Option("--version", metavar="N", min=0, help="As of this version.")
]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="TIME", help="As of this moment, ISO 8601.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many rows.")]


@table.command("show")
def show(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Show a table's schema, partitions, size and version."""
    with _opened(path, json_out, debug) as (output, opened):
        output.facts(path, opened.describe(**_moment(version, timestamp)))


@table.command("history")
def history(
    path: TablePath, limit: Limit = 20, json_out: JsonOut = False, debug: Debug = False
) -> None:
    """List a table's versions, the newest first."""
    with _opened(path, json_out, debug) as (output, opened):
        entries = opened.history(limit)
        columns = list(dict.fromkeys(key for entry in entries for key in entry))
        rows = [[entry.get(column) for column in columns] for entry in entries]
        output.rows("", columns, rows)


@table.command("preview")
def preview(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = 10,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Show some rows of a table."""
    with _opened(path, json_out, debug) as (output, opened):
        _show(output, opened.preview(limit, **_moment(version, timestamp)))


@table.command("query")
def query(
    path: TablePath,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Spark SQL; the table is called `t`.")],
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = 1000,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Run Spark SQL on a table."""
    with _opened(path, json_out, debug) as (output, opened):
        _show(output, opened.query(sql, limit=limit, **_moment(version, timestamp)))


@contextmanager
def _opened(path: str, json_out: bool, debug: bool) -> Iterator[tuple[Output, Table]]:
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        from lakeport.tables import Table

        yield output, Table(path)


def _moment(version: int | None, timestamp: str | None) -> dict[str, Any]:
    if version is not None and timestamp is not None:
        raise ConfigError("`--version` and `--timestamp` both name a moment", "give one of them.")
    return {"version": version, "timestamp": timestamp}


def _show(output: Output, rows: pa.Table) -> None:
    columns = [column.to_pylist() for column in rows.columns]
    output.rows("", rows.column_names, list(zip(*columns, strict=True)))
