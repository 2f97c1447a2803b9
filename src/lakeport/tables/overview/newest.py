"""The newest value of a table's column of dates or times, by its log or footers, without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lakeport.errors import SourceError
from lakeport.tables.overview.columns import column_facts
from lakeport.tables.overview.delta import delta_history
from lakeport.tables.overview.footers import Footer, footer_columns, read_footer
from lakeport.tables.overview.leaves import leaves
from lakeport.tables.views import FilesView
from lakeport.writers.delta.log.reader import LogFiles

if TYPE_CHECKING:
    from lakeport.html.facts import ColumnFacts
    from lakeport.model import Storage, StoredObject

_THREADS: Final = 16
_TYPES: Final = ("date", "timestamp", "timestamp_ntz")

Told = tuple["ColumnFacts | None", int | None]
"""What is told of a column, and the number of rows; None for what is not."""


def newest_moment(storage: Storage, folder: str, column: str) -> datetime | None:
    """The newest value of a column, to the millisecond; a date is its first moment in UTC.

    Args:
        storage: where the table is.
        folder: its key.
        column: its name in the table; case does not matter.

    Returns:
        None where there is no table, or none of its rows has a value.

    Raises:
        SourceError: statistics don't tell it.
        DestinationError: the store refused.
    """
    log = LogFiles.of(storage, folder)
    if log.newest >= 0:
        facts, rows = _of_log(storage, folder, log, column)
    elif (files := FilesView.of(storage, folder)) is not None:
        facts, rows = _of_footers(files, column)
    else:
        return None
    if rows == 0 or (facts is not None and rows is not None and facts.nulls == rows):
        return None
    if facts is None or facts.maximum is None or facts.type not in _TYPES:
        raise SourceError(f"the files of {storage.uri(folder)} don't tell the newest {column!r}")
    found = datetime.fromisoformat(facts.maximum)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _of_log(storage: Storage, folder: str, log: LogFiles, column: str) -> Told:
    history = delta_history(storage, folder, log)
    if any(known.file.deletion_vector is not None for known in history.files):
        return None, None  # the row with the greatest value may be deleted
    known = [leaves(schema) for schema in history.schemas]
    newest = leaves(str(history.metadata["schemaString"]))
    wanted = [leaf for leaf in newest if leaf.name.lower() == column.lower()]
    paths = [frozenset(leaf.path for leaf in each) for each in known]
    by = tuple(history.metadata.get("partitionColumns") or ())
    rows = [file.rows for file in history.files]
    total = None if None in rows else sum(count or 0 for count in rows)
    return next(iter(column_facts(history.files, wanted, paths, by, ())), None), total


def _of_footers(view: FilesView, column: str) -> Told:
    if view.kind != "parquet":
        return None, None

    def read(item: StoredObject) -> Footer:
        with view.readable(item):
            return read_footer(view.storage, item.key)

    with ThreadPoolExecutor(_THREADS, "lakeport-look") as pool:
        footers = list(pool.map(read, view.files))
    found = (one for one in footer_columns(footers) if one.name.lower() == column.lower())
    return next(found, None), sum(footer.rows for footer in footers)
