"""Source kernel of databases: a range of the rows -> typed record batches.

Each task connects by itself, joins the snapshot of the load, and passes rows on as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from lakeport.errors import ConfigError
from lakeport.model import Scan, Split
from lakeport.schema.hints import quote_names, sort_by_similarity
from lakeport.schema.types import TIMESTAMP, format_type
from lakeport.sources.database.access import Access, DatabaseSession
from lakeport.sources.database.dialects import DatabaseColumn, SqlDialect, quoted, typed
from lakeport.sources.splits import DeclaredReader

_SMALL: Final = 16 << 20
_LARGE: Final = 128 << 20
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class DatabaseReader(DeclaredReader):
    """Reads ranges of a table or a query; implements `lakeport.model.Reader`.

    A split's `start` is the number of its range.

    Attributes:
        access: how to reach the database.
        joining: statements that put a connection into the load's snapshot.
        relation: what stands behind FROM.
        columns: what is read.
        where: a condition that all rows meet, beside the range's; empty for none.
        ranges: conditions, of which each row meets exactly one; an empty one is met by all.
        sample: constants for a row before the others, which is not one of them; see `SqlDialect`.
    """

    access: Access
    joining: tuple[str, ...]
    relation: str
    columns: tuple[DatabaseColumn, ...]
    where: str
    ranges: tuple[str, ...]
    sample: str = ""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        with self.access.connected() as session:
            self._join(session)
            yield from self.rows(session, split.start)

    def rows(self, session: DatabaseSession, number: int) -> Iterator[pa.RecordBatch]:
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

    def _join(self, session: DatabaseSession) -> None:
        for statement in self.joining:
            session.rows(statement)


def number_of_ranges(size: int, cores: int) -> int:
    """Into how many parts to share rows out: none too small, and several for each core.

    Args:
        size: bytes of all rows; -1 if unknown.
        cores: how many tasks run at once.

    >>> number_of_ranges(1 << 20, 4), number_of_ranges(1 << 30, 4), number_of_ranges(1 << 40, 4)
    (1, 16, 1000)
    """
    if size < 0:
        return cores
    return max(1, min(size // _SMALL, max(4 * cores, size // _LARGE), _MOST))


def column_named(name: str, columns: Sequence[DatabaseColumn], key: str) -> DatabaseColumn:
    """The column that a key of the source names.

    Raises:
        ConfigError: there is none.
    """
    for column in columns:
        if column.name == name:
            return column
    names = [column.name for column in columns]
    raise ConfigError(
        f"`{key}` names the column {name!r}, which the source does not have",
        f"its columns are {quote_names(sort_by_similarity(name, names))}.",
    )


def ranges(
    session: DatabaseSession,
    dialect: SqlDialect,
    relation: str,
    where: str,
    column: DatabaseColumn,
    count: int,
) -> tuple[str, ...]:
    """Conditions on a column of which each row meets exactly one; nulls are with the first.

    Args:
        session: a connection, in the load's snapshot.
        dialect: how the database is asked.
        relation: what stands behind FROM.
        where: a condition that the rows meet; empty for all of them.
        column: the column.
        count: how many to make; there are fewer where the values are few.

    Raises:
        ConfigError: the column's values can't be divided.
    """
    of = _kind(column)
    name = quoted(column.name)
    asked = ", ".join(dialect.text(f"{which}({name})") for which in ("min", "max"))
    ((low, high),) = session.rows(
        f"SELECT {asked} FROM {relation}{f' WHERE {where}' * bool(where)}"
    )
    if low is None or count < 2:
        return ("",)
    try:
        first, last = of(low), of(high)
        inner = {_between(first, last, i, count) for i in range(1, count)}
    except (ValueError, InvalidOperation, OverflowError):
        raise ConfigError(
            f"`split_by` names the column {column.name!r}, whose values reach to infinity or "
            "beyond the years 1 to 9999",
            "name another column of numbers or times.",
        ) from None
    bounds = [literal(str(one), column.type) for one in sorted(inner) if first < one <= last]
    if not bounds:
        return ("",)
    middle = [f"{name} >= {one} AND {name} < {other}" for one, other in pairwise(bounds)]
    return (f"{name} < {bounds[0]} OR {name} IS NULL", *middle, f"{name} >= {bounds[-1]}")


def literal(text: str, type_: pa.DataType) -> str:
    """A value as SQL has it: digits as they are, all else in quotes.

    >>> literal("7", pa.int64()), literal("it's", pa.string())
    ('7', "'it''s'")
    """
    plain = pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_floating(type_)
    return text if plain else "'" + text.replace("'", "''") + "'"


def _kind(column: DatabaseColumn) -> Any:
    """What reads the column's values from their texts."""
    if pa.types.is_integer(column.type):
        return int
    if pa.types.is_decimal(column.type) or pa.types.is_floating(column.type):
        return _number
    if pa.types.is_date(column.type):
        return date.fromisoformat
    if column.type == TIMESTAMP:
        return _moment
    raise ConfigError(
        f"`split_by` names the column {column.name!r} of type {format_type(column.type)}",
        "name a column of numbers, dates or timestamps.",
    )


def _number(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def _between(first: Any, last: Any, part: int, parts: int) -> Any:
    step = last - first
    return first + (step * part // parts if isinstance(step, int) else step * part / parts)
