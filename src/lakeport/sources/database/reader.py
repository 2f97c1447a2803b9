"""Read ranges of a database's rows in tasks, as record batches of the table's types.

Each task opens a connection, joins the load's snapshot, and yields rows as they arrive.
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
from lakeport.sources.database.access import DatabaseAccess, DatabaseSession
from lakeport.sources.database.dialects import (
    DatabaseColumn,
    SqlDialect,
    apply_column_types,
    quote_identifier,
    quote_literal,
    where_clause,
)
from lakeport.sources.splits import DeclaredReader

_SMALL: Final = 16 << 20
_LARGE: Final = 128 << 20
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class DatabaseReader(DeclaredReader):
    """Reads a table or a query in ranges; a split's `start` is the index of its range.

    Attributes:
        join_statements: statements that put a connection into the load's snapshot.
        ranges: conditions of which each row meets exactly one; all rows meet an empty one.
        sample: a row of constants to put before the rows and drop again, as
            `SqlDialect.sample_row` returns it; empty for none.
    """

    access: DatabaseAccess
    join_statements: tuple[str, ...]
    relation: str
    columns: tuple[DatabaseColumn, ...]
    where: str
    ranges: tuple[str, ...]
    sample: str = ""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Connect, join the load's snapshot, and yield the rows of the split's range."""
        with self.access.connect() as session:
            self._join_snapshot(session)
            yield from self.read_range(session, split.start)

    def read_range(self, session: DatabaseSession, range_index: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, through a connection that has already joined the snapshot."""
        sample_rows = 1 if self.sample else 0
        for fetched in session.fetch_batches(self._build_select(range_index)):
            batch = fetched.slice(sample_rows)
            if fetched.num_rows:
                sample_rows = 0
            if batch.num_rows:
                yield apply_column_types(batch, self.columns, self.schema)

    def scan(self, split: Split) -> Scan:
        """Have the database count the rows of the split's range."""
        with self.access.connect() as session:
            self._join_snapshot(session)
            count = session.fetch_value(f"SELECT count(*) {self._build_from(split.start)}")
            return Scan(int(count))

    def _build_select(self, range_index: int) -> str:
        """Return the SELECT for a range: its columns, followed by the results of their checks."""
        expressions = [
            f"{column.sql} AS {quote_identifier(column.name)}" for column in self.columns
        ]
        checks = [column.check for column in self.columns if column.check]
        expressions += [
            f"{check} AS {quote_identifier(f'check {i}')}" for i, check in enumerate(checks)
        ]
        before = f"SELECT {self.sample} UNION ALL " if self.sample else ""
        return f"{before}SELECT {', '.join(expressions)} {self._build_from(range_index)}"

    def _build_from(self, range_index: int) -> str:
        """Return the FROM and WHERE clauses of a range's query."""
        conditions = [f"({one})" for one in (self.where, self.ranges[range_index]) if one]
        return f"FROM {self.relation}{where_clause(' AND '.join(conditions))}"

    def _join_snapshot(self, session: DatabaseSession) -> None:
        """Run the statements by which a connection joins the load's snapshot."""
        for statement in self.join_statements:
            session.fetch_rows(statement)


def count_ranges(size_bytes: int, cores: int) -> int:
    """Return the number of ranges to read `size_bytes` in: 1 to 1000; `cores` if it is -1.

    >>> count_ranges(1 << 20, 4), count_ranges(1 << 30, 4), count_ranges(1 << 40, 4)
    (1, 16, 1000)
    """
    if size_bytes < 0:
        return cores
    return max(1, min(size_bytes // _SMALL, max(4 * cores, size_bytes // _LARGE), _MOST))


def find_column(name: str, columns: Sequence[DatabaseColumn], config_key: str) -> DatabaseColumn:
    """Return the column `name`; ConfigError naming the config key `config_key` if it is missing."""
    for column in columns:
        if column.name == name:
            return column
    names = [column.name for column in columns]
    raise ConfigError(
        f"`{config_key}` names the column {name!r}, which the source does not have",
        f"its columns are {quote_names(sort_by_similarity(name, names))}.",
    )


def split_ranges(
    dialect: SqlDialect,
    relation: str,
    where: str,
    column: DatabaseColumn,
    count: int,
) -> tuple[str, ...]:
    """Return SQL conditions for at most `count` equal ranges of a column; nulls are in the first.

    Raises:
        ConfigError: the column has another type than numbers, dates and timestamps, or an
            infinite value.
    """
    parse = _get_parser(column)
    name = quote_identifier(column.name)
    bounds_sql = ", ".join(dialect.text_expression(f"{which}({name})") for which in ("min", "max"))
    ((low, high),) = dialect.session.fetch_rows(
        f"SELECT {bounds_sql} FROM {relation}{where_clause(where)}"
    )
    if low is None or count < 2:
        return ("",)
    try:
        first, last = parse(low), parse(high)
        inner = {_interpolate(first, last, i, count) for i in range(1, count)}
    except (ValueError, InvalidOperation, OverflowError):
        raise ConfigError(
            f"`split_by` names the column {column.name!r}, whose values reach to infinity or "
            "beyond the years 1 to 9999",
            "name another column of numbers or times.",
        ) from None
    bounds = [sql_literal(str(one), column.type) for one in sorted(inner) if first < one <= last]
    if not bounds:
        return ("",)
    middle = [f"{name} >= {one} AND {name} < {other}" for one, other in pairwise(bounds)]
    return (f"{name} < {bounds[0]} OR {name} IS NULL", *middle, f"{name} >= {bounds[-1]}")


def sql_literal(text: str, type_: pa.DataType) -> str:
    """Return a value's text as an SQL literal: numbers as they are, other types in quotes.

    >>> sql_literal("7", pa.int64()), sql_literal("it's", pa.string())
    ('7', "'it''s'")
    """
    plain = pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_floating(type_)
    return text if plain else quote_literal(text)


def _get_parser(column: DatabaseColumn) -> Any:
    """Return a parser for a column's values as text; ConfigError if its type has no ranges."""
    if pa.types.is_integer(column.type):
        return int
    if pa.types.is_decimal(column.type) or pa.types.is_floating(column.type):
        return _parse_number
    if pa.types.is_date(column.type):
        return date.fromisoformat
    if column.type == TIMESTAMP:
        return _parse_time
    raise ConfigError(
        f"`split_by` names the column {column.name!r} of type {format_type(column.type)}",
        "name a column of numbers, dates or timestamps.",
    )


def _parse_number(text: str) -> Decimal:
    """Parse a decimal number; raise ValueError if it is not finite."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


def _parse_time(text: str) -> datetime:
    """Parse a timestamp; convert one with a zone to UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is None else time.astimezone(UTC)


def _interpolate(first: Any, last: Any, part: int, parts: int) -> Any:
    """Return the lower bound of part number `part`, from 0, of `parts` equal parts of a range."""
    step = last - first
    return first + (step * part // parts if isinstance(step, int) else step * part / parts)
