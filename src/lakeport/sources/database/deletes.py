"""Rows that the source does not have any more: keys of the table that the snapshot lacks.

The keys of both sides are held in memory while they are compared, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from lakeport.config.base import DestinationConfig
from lakeport.errors import ConfigError
from lakeport.model import Mode, Scan, Split
from lakeport.schema.casting import TIMESTAMP, cast_batch, normalise
from lakeport.schema.marks import DELETED_AT
from lakeport.schema.types import storable
from lakeport.sources.database.access import Session
from lakeport.sources.database.dialects.base import Dialect
from lakeport.sources.database.reader import DatabaseReader


@dataclass(frozen=True, slots=True)
class AbsentReader:
    """Gives the keys of rows that are gone, marked as deleted; implements `lakeport.model.Reader`.

    Attributes:
        rows: the keys, and the mark.
        skip_bad: without effect: typed input has no bad records.
    """

    rows: pa.Table
    skip_bad: bool = False

    @property
    def schema(self) -> pa.Schema:
        """See `lakeport.model.Reader.schema`."""
        return self.rows.schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        yield from self.rows.to_batches()

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`."""
        return Scan(self.rows.num_rows)

    def tolerant(self) -> AbsentReader:
        """See `lakeport.model.Reader.tolerant`."""
        return self

    def extended(self, unknown: Mapping[str, pa.DataType]) -> AbsentReader:
        """See `lakeport.model.Reader.extended`; there is no more to them."""
        return self


def mark_of(config: DestinationConfig) -> str:
    """The column that marks a row of the table as deleted."""
    return (config.hard_delete and config.delete_column) or DELETED_AT


def check_compared(config: DestinationConfig, keys: Sequence[str]) -> None:
    """See that rows can be told apart and taken away.

    Args:
        config: the target's.
        keys: columns that identify a row.

    Raises:
        ConfigError: they can't.
    """
    wrong = ""
    if config.mode is not Mode.MERGE or config.file_type != "delta":
        wrong = "needs `mode: merge` and a Delta table"
    elif not keys:
        wrong = "needs a primary key in the source, or `merge_keys` that are its columns"
    elif config.merge_keys and set(config.merge_keys) != set(keys):
        wrong = f"compares the primary key {', '.join(keys)}, and `merge_keys` are others"
    elif set(config.rename) & set(keys) or set(config.drop) & set(keys):
        wrong = "can't find keys that `rename` or `drop` change"
    elif config.column_header_format is not None:
        wrong = "can't find keys whose names `column_header_format` changes"
    if wrong:
        raise ConfigError(f"`deletes: compare` {wrong}", "or leave it out: deleted rows stay then.")


def gone(
    session: Session,
    dialect: Dialect,
    reader: DatabaseReader,
    keys: Sequence[str],
    table: pa.Table,
    mark: str,
) -> AbsentReader | None:
    """The keys of the table that the source has not; None if it has all of them.

    Args:
        session: a connection, in the load's snapshot.
        dialect: how the database is asked.
        reader: reads the source.
        keys: columns that identify a row.
        table: the table's keys.
        mark: the column that marks a row as deleted.
    """
    wanted = normalise(table.schema)
    columns = tuple(column for key in keys for column in reader.columns if column.name == key)
    schema = pa.schema([storable(column.name, column.type) for column in columns])
    sample = dialect.sample(columns)
    alone = replace(reader, columns=columns, where="", ranges=("",), schema=schema, sample=sample)
    there = [cast_batch(batch, wanted) for batch in alone.rows(session, 0)]
    known = pa.Table.from_batches(
        [cast_batch(batch, wanted) for batch in table.to_batches()], wanted
    )
    absent = known.join(pa.Table.from_batches(there, wanted), list(keys), join_type="left anti")
    if not absent.num_rows:
        return None
    now = pa.array([datetime.now(UTC)] * absent.num_rows, TIMESTAMP)
    return AbsentReader(absent.append_column(pa.field(mark, TIMESTAMP), now))
