"""A table or a query of a database as a source: one flush, with what is new and what is gone.

```
connect ─▶ begin the snapshot ─▶ columns ─▶ ranges ─▶ tasks: join the snapshot, read a range
```
The driver's connection holds the snapshot until the load has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.config.base import DestinationConfig
from lakeport.config.inputs import DatabaseSource, scheme_of
from lakeport.errors import ConfigError
from lakeport.model import Batch, Flush, Mode, Split
from lakeport.schema.casting import TIMESTAMP
from lakeport.schema.types import storable
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column
from lakeport.sources.database.cursor import Window, window
from lakeport.sources.database.deletes import (
    AbsentReader,
    check_compared,
    gone,
    mark_of,
)
from lakeport.sources.database.dialects.base import Dialect
from lakeport.sources.database.dialects.duckdb import DuckDb
from lakeport.sources.database.dialects.postgres import Postgres
from lakeport.sources.database.dialects.sqlite import Sqlite
from lakeport.sources.database.ranges import column_named, number_of_ranges, ranges
from lakeport.sources.database.reader import DatabaseReader
from lakeport.sources.database.uri import access_of
from lakeport.sources.target import TargetTables

_OUTPUT_RATIO: Final = 0.4
_DIALECTS: Final[dict[str, type[Dialect]]] = {
    "postgresql": Postgres,
    "sqlite": Sqlite,
    "duckdb": DuckDb,
}


@dataclass
class DatabaseFlushes:
    """Iterates exactly one flush: with no batch where nothing is new, and nothing gone.

    Args:
        source: what to read.
        stream: the stream's name.
        cores: how many tasks run at once.
        config: what the load does with the rows that the table has.
        tables: what the stream's table remembers, and which keys it has.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """

    source: DatabaseSource
    stream: str
    cores: int
    config: DestinationConfig
    tables: TargetTables

    def __post_init__(self) -> None:
        source = self.source
        if source.cursor and self.config.mode is Mode.OVERWRITE:
            raise ConfigError(
                f"with the cursor {source.cursor!r} only new rows are read, and `mode: overwrite` "
                "would replace all of the table by them",
                "append or merge them; or leave `cursor` out, to read all rows.",
            )
        self._access, self._dialect = access_of(source), _dialect(source)
        self._open = ExitStack()
        self._notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Flush]:
        """Begin the snapshot, and hand out what reads it."""
        session = self._open.enter_context(self._access.connected())
        batches = tuple(self._batches(session))
        if any(batch.sequence == 0 for batch in batches):
            yield Flush(batches, last=True)
            return
        note = f"nothing new: no row has another {self.source.cursor!r} than those that have landed"
        told = "; ".join((note, *self._notes))
        yield Flush(batches, last=True, notes={self.stream: told}, quiet=(self.stream,))

    def close(self) -> None:
        """End the snapshot: the flush has landed, or never will."""
        self._open.close()

    def _batches(self, session: Session) -> Iterator[Batch]:
        source, dialect = self.source, self._dialect
        joining = dialect.begin(session)
        relation = dialect.relation(session, source.table, source.query)
        columns = dialect.columns(session, relation)
        keys = self._keys(session, columns)
        if source.deletes == "compare":
            check_compared(self.config, keys)
        wanted = self._window(session, relation, columns, keys)
        self._notes = wanted.notes
        where = "1 = 0" if wanted.empty else wanted.where
        columns, notes = dialect.settled(session, relation, where, columns)
        size = dialect.size(session, relation, where)
        parts = self._parts(session, relation, where, columns, size)
        reader = DatabaseReader(
            self._access,
            joining,
            relation,
            columns,
            where,
            parts,
            self._schema(columns),
            dialect.sample(columns),
        )
        if not wanted.empty or wanted.warnings:
            yield self._new(relation, reader, keys, wanted, size, notes)
        if (absent := self._absent(session, reader, keys)) is not None:
            yield Batch(
                self.stream,
                1,
                reader=absent,
                splits=(Split(self.stream, first_line=0),),
                records=absent.rows.num_rows,
                bytes=absent.rows.nbytes,
                digest=self._digest(relation),
                key_properties=keys,
                gone=True,
            )

    def _new(
        self,
        relation: str,
        reader: DatabaseReader,
        keys: tuple[str, ...],
        wanted: Window,
        size: int,
        notes: tuple[str, ...],
    ) -> Batch:
        parts = range(len(reader.ranges))
        return Batch(
            self.stream,
            0,
            reader=reader,
            splits=tuple(Split(self.stream, i, i + 1, first_line=0) for i in parts),
            bytes=size,
            digest=self._digest(relation),
            key_properties=keys,
            output_ratio=_OUTPUT_RATIO,
            warnings=wanted.warnings,
            notes=(*notes, *wanted.notes),
            untyped={c.name: c.untyped for c in reader.columns if c.untyped is not None},
            bookmark=wanted.bookmark,
            before_commit=wanted.before_commit,
        )

    def _keys(self, session: Session, columns: tuple[Column, ...]) -> tuple[str, ...]:
        """Columns that identify a row: the table's primary key, else what the load says."""
        if self.source.table and (key := self._dialect.primary_key(session, self.source.table)):
            return key
        names = {column.name for column in columns}
        said = self.config.merge_keys
        return said if names.issuperset(said) else ()

    def _window(
        self, session: Session, relation: str, columns: tuple[Column, ...], keys: tuple[str, ...]
    ) -> Window:
        """Which rows are new; all of them without a cursor."""
        source = self.source
        if not source.cursor:
            return Window()
        return window(
            session,
            self._dialect,
            source,
            relation,
            columns,
            keys,
            self.tables.memory(self.stream),
            merges=self.config.mode is Mode.MERGE,
        )

    def _parts(
        self, session: Session, relation: str, where: str, columns: tuple[Column, ...], size: int
    ) -> tuple[str, ...]:
        """The conditions of the ranges that tasks read."""
        source, dialect = self.source, self._dialect
        by = column_named(source.split_by, columns, "split_by") if source.split_by else None
        if not dialect.shares:
            return ("",)
        count = source.splits or number_of_ranges(size, self.cores)
        if by is not None:
            return ranges(session, dialect, relation, where, by, count)
        return dialect.blocks(session, relation, count) or ("",)

    def _schema(self, columns: tuple[Column, ...]) -> pa.Schema:
        """The columns; a row that was marked as deleted and is back loses its mark."""
        fields = [storable(column.name, column.type) for column in columns]
        marks = self.source.deletes == "compare" and not self.config.hard_delete
        if marks and mark_of(self.config) not in {field.name for field in fields}:
            fields.append(pa.field(mark_of(self.config), TIMESTAMP))
        return pa.schema(fields)

    def _absent(
        self, session: Session, reader: DatabaseReader, keys: tuple[str, ...]
    ) -> AbsentReader | None:
        """The rows of the table that are gone in the source, where they are asked for."""
        if self.source.deletes == "none":
            return None
        table = self.tables.keys(self.stream, keys, mark_of(self.config))
        if table is None:
            return None
        return gone(session, self._dialect, reader, keys, table, mark_of(self.config))

    def _digest(self, relation: str) -> str:
        """Tells what was asked for, where a run is to know it again."""
        if self.config.run_id is None:
            return ""
        return hashlib.sha256(f"{self._access.place}\n{relation}".encode()).hexdigest()


def described(source: DatabaseSource) -> pa.Schema:
    """The columns of a table or a query as its database describes them; no row is read.

    A type that values alone tell is text here, such as that of a column without one in SQLite.

    Args:
        source: not one that Spark reads, by JDBC.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """
    dialect = _dialect(source)
    with access_of(source).connected() as session:
        relation = dialect.relation(session, source.table, source.query)
        columns = dialect.columns(session, relation)
    types = (pa.string() if pa.types.is_null(column.type) else column.type for column in columns)
    return pa.schema([storable(c.name, type_) for c, type_ in zip(columns, types, strict=True)])


def _dialect(source: DatabaseSource) -> Dialect:
    scheme = "" if source.driver else scheme_of(source.database.get_secret_value())
    return _DIALECTS.get(scheme, Dialect)()
