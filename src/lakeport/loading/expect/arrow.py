"""Check rows in the tasks that read them: count violations, hold back rows for the quarantine.

A null passes, and NaN is above any number. Arrow compares columns with values of their own type
only, and matches patterns that Java and RE2 read alike. Spark checks the rest: see `needs_spark`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.expectations import Expectation
from lakeport.errors import BadRecord
from lakeport.schema.casting import cast_batch
from lakeport.schema.text import to_json_text
from lakeport.schema.types import TIMESTAMP

_MOST_SAMPLES: Final = 5  # rows that each task keeps of those for which the load fails
_SPARK_KINDS: Final = frozenset({"check", "references", "unique"})
_COMPARABLE: Final[tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...]] = (
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_signed_integer, (int,)),
    ({pa.float32(), pa.float64()}.__contains__, (int, float)),
    (pa.types.is_decimal128, (int, Decimal)),
    (pa.types.is_string, (str,)),
    (pa.types.is_date32, (date,)),
    (TIMESTAMP.__eq__, (datetime,)),
)
"""Pairs of a test of a column's type and the Python types that such a column compares with."""
_EXACT_INTEGERS: Final = 2**53  # doubles hold each whole number below it

_SIGNS: Final = "@:;,/ '\"=<>~!%#_"
_ESCAPED: Final = r"\\[.+*?()|{}\[\]/d-]"
_IN_CLASS: Final = rf"[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9{_SIGNS}.+*?(){{}}|]|{_ESCAPED}"
_ATOM: Final = rf"[A-Za-z0-9{_SIGNS}-]|{_ESCAPED}|\[\^?(?:{_IN_CLASS})+-?\]|\)"
_REPEATED: Final = r"[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\}"
_PORTABLE: Final = re.compile(rf"(?:\((?:\?:)?|\||(?:{_ATOM})(?:{_REPEATED})?(?![*+?{{]))*")
"""Patterns that Java and RE2 read alike.

They have no dot (its line ends differ), no named class but digits, no flag, reference or
lookaround, and no lazy or possessive repetition.
"""

RowMasker = Callable[[pa.RecordBatch], tuple[pa.RecordBatch, pa.Array | None]]
"""Splits a batch into its rows and their violation masks; None in their place: no row violates."""


def needs_spark(expectation: Expectation, schema: pa.Schema | None = None) -> bool:
    """Whether Arrow can't check an expectation, only Spark; `schema` None ignores column types.

    >>> limits = Expectation(between={"n": [1, 9]})
    >>> needs_spark(limits), needs_spark(limits, pa.schema([("n", pa.string())]))
    (False, True)
    """
    portable = all(map(is_portable, expectation.matches.values()))
    if expectation.kind in _SPARK_KINDS or not portable:
        return True
    types = {} if schema is None else {field.name.lower(): field.type for field in schema}
    for name in expectation.columns:
        type_ = types.get(name.lower())
        if type_ is None or expectation.kind in ("fresh", "not_null"):
            continue  # `check_columns` refuses a column that is not there
        values = expectation.one_of.get(name) or expectation.between.get(name) or ("",)
        if not all(value is None or _is_comparable(value, type_) for value in values):
            return True
    return False


def is_portable(pattern: str) -> bool:
    """Whether Arrow's regular expressions match a pattern exactly as Java's do."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return pattern.isascii() and _PORTABLE.fullmatch(pattern) is not None


def _is_comparable(value: Any, type_: pa.DataType) -> bool:
    """Whether Arrow can compare columns of a type with a value, without rounding the value."""
    if not any(test(type_) and type(value) in kinds for test, kinds in _COMPARABLE):
        return False
    if pa.types.is_floating(type_):
        return bool(abs(value) < _EXACT_INTEGERS)
    try:
        _to_scalar(value, _comparison_type(type_))
    except (pa.ArrowException, OverflowError):
        return False
    return True


def _comparison_type(type_: pa.DataType) -> pa.DataType:
    """Return the type to compare in: int64 for integers, float64 for floats, else the same."""
    if pa.types.is_signed_integer(type_):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(type_) else type_


def _to_scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    """Convert an expectation's value to a column's type; times without a zone are UTC."""
    if pa.types.is_decimal(type_):
        value = Decimal(value)
    elif isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return pa.scalar(value, type_)


def mask_violations(
    expected: Sequence[Expectation], batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return the batch, and a bit mask of violated expectations per row or None if all pass.

    Bit 0 is the first expectation's, and so on. None of them needs Spark.
    """
    masks = None
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    for number, expectation in enumerate(expected):
        if not expectation.is_row_wise:
            continue
        columns = {name: batch.column(places[name.lower()]) for name in expectation.columns}
        each = [_violates(expectation, name, column) for name, column in columns.items()]
        violates = pc.fill_null(reduce(pc.or_kleene, each), False)
        if pc.any(violates, min_count=0).as_py():
            bits = pc.if_else(violates, 1 << number, 0).cast(pa.int64())
            masks = bits if masks is None else pc.bit_wise_or(masks, bits)
    return batch, masks


def _violates(expectation: Expectation, name: str, column: pa.Array) -> pa.Array:
    """Return a boolean per value: true for a violation; null for null, but for `not_null`."""
    if expectation.not_null:
        return pc.is_null(column)
    if expectation.matches:
        pattern = rf"\A(?:{expectation.matches[name]})\z"
        return pc.invert(pc.match_substring_regex(column, pattern))
    type_ = _comparison_type(column.type)
    column = column.cast(type_)
    if expectation.one_of:
        allowed = pa.array([_to_scalar(value, type_) for value in expectation.one_of[name]], type_)
        if pa.types.is_floating(type_):  # -0.0 becomes 0.0, which it equals
            column, allowed = pc.add(column, 0.0), pc.add(allowed, 0.0)
        return pc.if_else(pc.is_valid(column), pc.invert(pc.is_in(column, allowed)), None)
    low, high = expectation.between[name]
    ends = [] if low is None else [pc.less(column, _to_scalar(low, type_))]
    # Not `greater`: NaN is above any number.
    ends += [] if high is None else [pc.invert(pc.less_equal(column, _to_scalar(high, type_)))]
    return reduce(pc.or_, ends)


def split_mask(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Split a batch into its rows and its last column of violation masks, None if all are 0."""
    masks = batch.column(batch.num_columns - 1)
    columns = batch.schema.names[:-1]
    rows = batch.select(columns) if columns else batch
    return rows, masks if pc.any(pc.not_equal(masks, 0), min_count=0).as_py() else None


@dataclass
class CheckCounts:
    """Counts of checked, passed and violating rows; also rejected rows and newest column values.

    Attributes:
        rows: number of rows that were checked.
        passed: number of rows that are landed.
        violations: number of an expectation -> rows that violate it.
        samples: some of the rows for which the load fails.
        newest: number of an expectation -> newest value of its column, in seconds since 1970.
    """

    rows: int = 0
    passed: int = 0
    violations: dict[int, int] = field(default_factory=dict)
    rejected: list[BadRecord] = field(default_factory=list)
    samples: list[BadRecord] = field(default_factory=list)
    newest: dict[int, float] = field(default_factory=dict)

    def add(self, other: CheckCounts) -> None:
        """Add another task's counts and rows."""
        self.rows += other.rows
        self.passed += other.passed
        for number, count in other.violations.items():
            self.violations[number] = self.violations.get(number, 0) + count
        self.rejected += other.rejected
        self.samples += other.samples
        for number, newest in other.newest.items():
            self.newest[number] = max(newest, self.newest.get(number, newest))


@dataclass(frozen=True)
class RowChecker:
    """Counts rows that violate expectations, and filters out rows for the quarantine.

    Attributes:
        mask: splits a batch into rows and violation masks.
    """

    stream: str
    expected: tuple[Expectation, ...]
    mask: RowMasker

    def __call__(
        self, batches: Iterator[pa.RecordBatch], counts: CheckCounts, source: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that land; add counts, and rows that violate expectations, to `counts`.

        `source` are the rows' columns, with their marks of JSON.
        """
        for batch in batches:
            rows, masks = self.mask(batch)
            counts.rows += rows.num_rows
            if masks is not None:
                rows = self._filter_rows(rows, masks, counts, source)
            counts.passed += rows.num_rows
            self._update_newest(rows, counts)
            yield rows

    def _filter_rows(
        self, rows: pa.RecordBatch, masks: pa.Array, counts: CheckCounts, source: pa.Schema
    ) -> pa.RecordBatch:
        """Add violations, and violating rows as JSON, to `counts`; return the rows that land."""
        held: list[tuple[pa.Array, Expectation]] = []
        for number, expectation in enumerate(self.expected):
            violates = pc.not_equal(pc.bit_wise_and(masks, 1 << number), 0)
            count = violates.true_count
            if not count:
                continue
            counts.violations[number] = counts.violations.get(number, 0) + count
            if expectation.otherwise == "quarantine":
                held.append((violates, expectation))
            elif expectation.otherwise == "fail" and len(counts.samples) < _MOST_SAMPLES:
                some = rows.filter(violates).slice(0, _MOST_SAMPLES - len(counts.samples))
                counts.samples += self._to_records(cast_batch(some, source), expectation)
        passing = None
        for violates, expectation in held:  # a row is rejected once, for the first reason
            own = violates if passing is None else pc.and_(violates, passing)
            rejected = cast_batch(rows.filter(own), source)
            counts.rejected += self._to_records(rejected, expectation)
            passing = pc.invert(violates) if passing is None else pc.and_not(passing, violates)
        return rows if passing is None else rows.filter(passing)

    def _to_records(self, rows: pa.RecordBatch, expectation: Expectation) -> list[BadRecord]:
        """Convert rows to bad records: JSON, with the expectation's title as the reason."""
        column = expectation.columns[0] if len(expectation.columns) == 1 else ""
        texts = to_json_text(rows.to_struct_array()).to_pylist()
        return [BadRecord(self.stream, 0, column, expectation.title, t.encode()) for t in texts]

    def _update_newest(self, rows: pa.RecordBatch, counts: CheckCounts) -> None:
        """Update `counts` with the newest value of each `fresh` column, in seconds since 1970."""
        for number, expectation in enumerate(self.expected):
            if expectation.kind == "fresh" and rows.num_rows:
                places = {name.lower(): i for i, name in enumerate(rows.schema.names)}
                column = rows.column(places[expectation.columns[0].lower()])
                newest = pc.max(column).as_py()
                if newest is not None:
                    seconds = seconds_since_epoch(newest)
                    counts.newest[number] = max(seconds, counts.newest.get(number, seconds))


def seconds_since_epoch(value: date) -> float:
    """Convert a datetime, or a date's midnight, to seconds since 1970; UTC without a zone.

    >>> seconds_since_epoch(date(1970, 1, 2))
    86400.0
    """
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return value.timestamp()
