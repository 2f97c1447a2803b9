"""Source kernel of databases: a range of the rows -> typed record batches.

Each task connects by itself, joins the snapshot of the load, and passes rows on as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeport.model import Scan, Split
from lakeport.sources.database.access import Access, Session
from lakeport.sources.database.columns import Column, quoted, typed


@dataclass(frozen=True, slots=True)
class DatabaseReader:
    """Reads ranges of a table or a query; implements `lakeport.model.Reader`.

    A split's `start` is the number of its range.

    Attributes:
        access: how to reach the database.
        joining: statements that put a connection into the load's snapshot.
        relation: what stands behind FROM.
        columns: what is read.
        where: a condition that all rows meet, beside the range's; empty for none.
        ranges: conditions, of which each row meets exactly one; an empty one is met by all.
        schema: the columns to yield.
        sample: constants for a row before the others, which is not one of them; see `Dialect`.
        skip_bad: without effect: typed input has no bad records.
    """

    access: Access
    joining: tuple[str, ...]
    relation: str
    columns: tuple[Column, ...]
    where: str
    ranges: tuple[str, ...]
    schema: pa.Schema
    sample: str = ""
    skip_bad: bool = False

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        with self.access.connected() as session:
            self._join(session)
            yield from self.rows(session, split.start)

    def rows(self, session: Session, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range, by a connection that is in the snapshot."""
        apart = 1 if self.sample else 0
        for found in session.batches(self._query(number)):
            batch = found.slice(apart)
            if found.num_rows:
                apart = 0
            if batch.num_rows:
                yield typed(batch, self.columns, self.schema)

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`; the database counts."""
        with self.access.connected() as session:
            self._join(session)
            return Scan(int(session.value(f"SELECT count(*) {self._rest(split.start)}")))

    def tolerant(self) -> DatabaseReader:
        """See `lakeport.model.Reader.tolerant`."""
        return self

    def extended(self, unknown: Mapping[str, pa.DataType]) -> DatabaseReader:
        """See `lakeport.model.Reader.extended`; a database declares all that it holds."""
        extra = [pa.field(name, type_) for name, type_ in unknown.items()]
        return replace(self, schema=pa.schema([*self.schema, *extra]))

    def _query(self, number: int) -> str:
        wanted = [f"{column.sql} AS {quoted(column.name)}" for column in self.columns]
        checks = [column.check for column in self.columns if column.check]
        wanted += [f"{check} AS {quoted(f'check {i}')}" for i, check in enumerate(checks)]
        before = f"SELECT {self.sample} UNION ALL " if self.sample else ""
        return f"{before}SELECT {', '.join(wanted)} {self._rest(number)}"

    def _rest(self, number: int) -> str:
        conditions = [f"({one})" for one in (self.where, self.ranges[number]) if one]
        return f"FROM {self.relation}" + (
            f" WHERE {' AND '.join(conditions)}" if conditions else ""
        )

    def _join(self, session: Session) -> None:
        for statement in self.joining:
            session.run(statement)
