"""A table or a query of a database as a source: one flush with one batch.

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

from lakeport.config.inputs.database import DatabaseSource
from lakeport.model import Batch, Flush, Split
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column
from lakeport.sources.database.dialects.base import Dialect
from lakeport.sources.database.dialects.postgres import Postgres
from lakeport.sources.database.ranges import column_named, number_of_ranges, ranges
from lakeport.sources.database.reader import DatabaseReader
from lakeport.sources.database.uri import access_of, scheme_of

__all__ = ["DatabaseFlushes"]

_OUTPUT_RATIO: Final = 0.4
_DIALECTS: Final[dict[str, type[Dialect]]] = {"postgresql": Postgres}


@dataclass
class DatabaseFlushes:
    """Iterates exactly one flush with one batch.

    Args:
        source: what to read.
        stream: the stream's name.
        cores: how many tasks run at once.
        digest: whether the batch is to be known again by what was asked for.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """

    source: DatabaseSource
    stream: str
    cores: int
    digest: bool = False

    def __post_init__(self) -> None:
        self._access = access_of(self.source)
        self._dialect = _DIALECTS.get(scheme_of(self.source.database.get_secret_value()), Dialect)()
        self._open = ExitStack()

    def __iter__(self) -> Iterator[Flush]:
        """Begin the snapshot, and hand out what reads it."""
        session = self._open.enter_context(self._access.connected())
        yield Flush((self._batch(session),), last=True)

    def close(self) -> None:
        """End the snapshot: the flush has landed, or never will."""
        self._open.close()

    def _batch(self, session: Session) -> Batch:
        source, dialect = self.source, self._dialect
        joining = dialect.begin(session)
        relation = dialect.relation(session, source.table, source.query)
        columns = dialect.columns(session, relation)
        columns, notes = dialect.settled(session, relation, "", columns)
        size = dialect.size(session, relation, "")
        parts = self._parts(session, relation, columns, size)
        schema = pa.schema([(column.name, column.type) for column in columns])
        return Batch(
            self.stream,
            0,
            reader=DatabaseReader(self._access, joining, relation, columns, (), parts, schema),
            splits=tuple(
                Split(self.stream, start, start + 1, first_line=0) for start in range(len(parts))
            ),
            bytes=size,
            digest=self._digest(relation) if self.digest else "",
            key_properties=dialect.primary_key(session, source.table) if source.table else (),
            output_ratio=_OUTPUT_RATIO,
            notes=notes,
        )

    def _parts(
        self, session: Session, relation: str, columns: tuple[Column, ...], size: int
    ) -> tuple[str, ...]:
        """The conditions of the ranges that tasks read."""
        source, dialect = self.source, self._dialect
        by = column_named(source.split_by, columns, "split_by") if source.split_by else None
        if not dialect.shares:
            return ("",)
        count = source.splits or number_of_ranges(size, self.cores)
        if by is not None:
            return ranges(session, dialect, relation, "", by, count)
        return dialect.blocks(session, relation, count) or ("",)

    def _digest(self, relation: str) -> str:
        return hashlib.sha256(f"{self._access.place}\n{relation}".encode()).hexdigest()
