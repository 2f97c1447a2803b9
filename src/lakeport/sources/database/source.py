"""A table or a query of a database as a source: one flush with one batch.

```
connect ─▶ begin the snapshot ─▶ columns ─▶ ranges ─▶ tasks: join the snapshot, read a range
```
The driver's connection holds the snapshot until the load has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.config.inputs.database import DatabaseSource, scheme_of
from lakeport.errors import ConfigError
from lakeport.model import Batch, Flush, Memory, Mode, Remembered, Split
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column
from lakeport.sources.database.cursor import Window, bookmark_name, window
from lakeport.sources.database.dialects.base import Dialect
from lakeport.sources.database.dialects.duckdb import DuckDb
from lakeport.sources.database.dialects.postgres import Postgres
from lakeport.sources.database.dialects.sqlite import Sqlite
from lakeport.sources.database.ranges import column_named, number_of_ranges, ranges
from lakeport.sources.database.reader import DatabaseReader
from lakeport.sources.database.uri import access_of

__all__ = ["DatabaseFlushes"]

_OUTPUT_RATIO: Final = 0.4
_DIALECTS: Final[dict[str, type[Dialect]]] = {
    "postgresql": Postgres,
    "sqlite": Sqlite,
    "duckdb": DuckDb,
}


@dataclass
class DatabaseFlushes:
    """Iterates exactly one flush: with one batch, or with none where nothing is new.

    Args:
        source: what to read.
        stream: the stream's name.
        cores: how many tasks run at once.
        mode: what the load does with the rows that the table has.
        keys: columns that identify a row, where the database does not tell; as `merge_keys`.
        memory_of: what a stream's table remembers.
        digest: whether the batch is to be known again by what was asked for.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """

    source: DatabaseSource
    stream: str
    cores: int
    mode: Mode = Mode.APPEND
    keys: tuple[str, ...] = ()
    memory_of: Callable[[str], Memory] | None = None
    digest: bool = False

    def __post_init__(self) -> None:
        source = self.source
        if source.cursor and self.mode is Mode.OVERWRITE:
            raise ConfigError(
                f"with the cursor {source.cursor!r} only new rows are read, and `mode: overwrite` "
                "would replace all of the table by them",
                "append or merge them; or leave `cursor` out, to read all rows.",
            )
        if source.deletes == "compare":
            raise ConfigError(
                "`deletes: compare` is not there yet: rows that the source does not have any more "
                "stay",
                "read all rows with `mode: overwrite`, or take changes from a log-based tap.",
            )
        self._access = access_of(source)
        scheme = "" if source.driver else scheme_of(source.database.get_secret_value())
        self._dialect = _DIALECTS.get(scheme, Dialect)()
        self._open = ExitStack()

    def __iter__(self) -> Iterator[Flush]:
        """Begin the snapshot, and hand out what reads it."""
        session = self._open.enter_context(self._access.connected())
        batch = self._batch(session)
        yield Flush((batch,) if batch is not None else (), last=True)

    def close(self) -> None:
        """End the snapshot: the flush has landed, or never will."""
        self._open.close()

    def _batch(self, session: Session) -> Batch | None:
        source, dialect = self.source, self._dialect
        joining = dialect.begin(session)
        relation = dialect.relation(session, source.table, source.query)
        columns = dialect.columns(session, relation)
        keys = self._keys(session, columns)
        wanted = self._window(session, relation, columns, keys)
        if wanted.empty and not wanted.warnings:
            return None
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
            pa.schema([(column.name, column.type) for column in columns]),
            dialect.sample(columns),
        )
        return Batch(
            self.stream,
            0,
            reader=reader,
            splits=tuple(Split(self.stream, i, i + 1, first_line=0) for i in range(len(parts))),
            bytes=size,
            digest=self._digest(relation) if self.digest else "",
            key_properties=keys,
            output_ratio=_OUTPUT_RATIO,
            warnings=wanted.warnings,
            notes=(*notes, *wanted.notes),
            bookmark=wanted.bookmark,
        )

    def _keys(self, session: Session, columns: tuple[Column, ...]) -> tuple[str, ...]:
        """Columns that identify a row: the table's primary key, else what the load says."""
        if self.source.table and (key := self._dialect.primary_key(session, self.source.table)):
            return key
        names = {column.name for column in columns}
        return self.keys if names.issuperset(self.keys) else ()

    def _window(
        self, session: Session, relation: str, columns: tuple[Column, ...], keys: tuple[str, ...]
    ) -> Window:
        """Which rows are new; all of them without a cursor."""
        source = self.source
        if not source.cursor:
            return Window()
        remembered = Remembered()
        if self.memory_of is not None:
            remembered = self.memory_of(self.stream).bookmark(bookmark_name(source))
        return window(
            session,
            self._dialect,
            source,
            relation,
            columns,
            keys,
            remembered,
            merges=self.mode is Mode.MERGE,
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

    def _digest(self, relation: str) -> str:
        return hashlib.sha256(f"{self._access.place}\n{relation}".encode()).hexdigest()
