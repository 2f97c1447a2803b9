"""Another type for a column of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.destinations import spark_session
from lakeport.schema.named import named_type, type_name
from lakeport.schema.types import arrow_field, declared_type
from lakeport.tables.records import AlterReport
from lakeport.writers.delta.alter import Alteration

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.tables.location import TableLocation


def alter(
    location: TableLocation, engine: Engine, column: str, type_: str, *, dry_run: bool
) -> AlterReport:
    """Give a column another type; see `Table.alter`.

    Args:
        location: where the Delta table is.
        engine: reads every value, and writes data files anew.
        column: the column.
        type_: the type's name.
        dry_run: change nothing.
    """
    wanted = declared_type(arrow_field(column, named_type(type_, column)))
    writer = Alteration(
        spark_session(location.config, location.storage, engine, writes=not dry_run),
        location.storage,
        location.folder,
        stream=location.uri.rstrip("/").rsplit("/", 1)[-1],
        by_log=engine.commits_by_log,
        column=column,
        type=wanted,
    )
    done = writer.alter(engine, dry_run=dry_run)
    return AlterReport(
        done.version,
        column,
        type_name(done.before),
        type_name(wanted),
        done.files,
        done.rows,
        done.bytes,
        dry_run,
    )
