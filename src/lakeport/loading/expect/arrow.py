"""Expectations in the tasks: rows that fail are counted and held back, by Arrow where it can tell.

A null passes, and NaN is above any number. Columns are compared with values of their own type only;
patterns are matched where Java and RE2 read them alike. The rest is Spark's: see `needs_spark`.
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

_SAMPLES: Final = 5  # of the rows that fail a load, from each task
_BY_SPARK: Final = frozenset({"check", "references", "unique"})
_VALUES: Final[tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...]] = (
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_signed_integer, (int,)),
    ({pa.float32(), pa.float64()}.__contains__, (int, float)),
    (pa.types.is_decimal128, (int, Decimal)),
    (pa.types.is_string, (str,)),
    (pa.types.is_date32, (date,)),
    (TIMESTAMP.__eq__, (datetime,)),
)
"""Whether a column is of a type -> Python types of the values that it is compared with."""
_EXACT: Final = 2**53  # whole numbers below it are doubles

_SIGNS: Final = "@:;,/ '\"=<>~!%#_"
_ESCAPED: Final = r"\\[.+*?()|{}\[\]/d-]"
_IN_CLASS: Final = rf"[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9{_SIGNS}.+*?(){{}}|]|{_ESCAPED}"
_ATOM: Final = rf"[A-Za-z0-9{_SIGNS}-]|{_ESCAPED}|\[\^?(?:{_IN_CLASS})+-?\]|\)"
_REPEATED: Final = r"[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\}"
_PORTABLE: Final = re.compile(rf"(?:\((?:\?:)?|\||(?:{_ATOM})(?:{_REPEATED})?(?![*+?{{]))*")
"""Patterns that Java and RE2 read alike: no dot, which leaves out other ends of lines; no class by
name but for digits; no flag, reference or lookaround; nothing lazy or possessive.
"""

Mask = Callable[[pa.RecordBatch], tuple[pa.RecordBatch, pa.Array | None]]


def needs_spark(one: Expectation, schema: pa.Schema | None = None) -> bool:
    """Return whether only Spark can check an expectation.

    Args:
        one: the expectation.
        schema: the columns of the rows; None: ask whether Spark is needed whatever they are.

    Example:
        >>> limits = Expectation(between={"n": [1, 9]})
        >>> needs_spark(limits), needs_spark(limits, pa.schema([("n", pa.string())]))
        (False, True)
    """
    if one.kind in _BY_SPARK or not all(map(_is_portable, one.matches.values())):
        return True
    types = {} if schema is None else {field.name.lower(): field.type for field in schema}
    for name in one.columns:
        type_ = types.get(name.lower())
        if type_ is None or one.kind in ("fresh", "not_null"):
            continue  # `check_columns` refuses a column that is not there
        values = one.one_of.get(name) or one.between.get(name) or ("",)
        if not all(value is None or _is_comparable(value, type_) for value in values):
            return True
    return False


def _is_portable(pattern: str) -> bool:
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return pattern.isascii() and _PORTABLE.fullmatch(pattern) is not None


def _is_comparable(value: Any, type_: pa.DataType) -> bool:
    if not any(test(type_) and type(value) in kinds for test, kinds in _VALUES):
        return False
    if pa.types.is_floating(type_):
        return bool(abs(value) < _EXACT)
    try:
        _scalar(value, _wide(type_))
    except (pa.ArrowException, OverflowError):
        return False
    return True


def _wide(type_: pa.DataType) -> pa.DataType:
    """Return the type that values of a column are compared in."""
    if pa.types.is_signed_integer(type_):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(type_) else type_


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(type_):
        value = Decimal(value)
    elif isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return pa.scalar(value, type_)


def mask_failures(
    expected: Sequence[Expectation], batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return the batch and a bit mask per row of the expectations that the row fails.

    Args:
        expected: expectations that don't need Spark; bit 0 is the first one's, and so on.
        batch: rows with the columns that they name.

    Returns:
        The same batch; None in place of the masks where no row fails.
    """
    bits = None
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    for number, one in enumerate(expected):
        if not one.is_row_wise:
            continue
        columns = {name: batch.column(places[name.lower()]) for name in one.columns}
        each = [_failing(one, name, column) for name, column in columns.items()]
        failing = pc.fill_null(reduce(pc.or_kleene, each), False)
        if pc.any(failing, min_count=0).as_py():
            mine = pc.if_else(failing, 1 << number, 0).cast(pa.int64())
            bits = mine if bits is None else pc.bit_wise_or(bits, mine)
    return batch, bits


def _failing(one: Expectation, name: str, column: pa.Array) -> pa.Array:
    """Return whether each value of a column fails; null where the value is null."""
    if one.not_null:
        return pc.is_null(column)
    if one.matches:
        return pc.invert(pc.match_substring_regex(column, rf"\A(?:{one.matches[name]})\z"))
    type_ = _wide(column.type)
    column = column.cast(type_)
    if one.one_of:
        known = pa.array([_scalar(value, type_) for value in one.one_of[name]], type_)
        if pa.types.is_floating(type_):  # -0.0 becomes 0.0, which it equals
            column, known = pc.add(column, 0.0), pc.add(known, 0.0)
        return pc.if_else(pc.is_valid(column), pc.invert(pc.is_in(column, known)), None)
    low, high = one.between[name]
    ends = [] if low is None else [pc.less(column, _scalar(low, type_))]
    # Not `greater`: NaN is above any number.
    ends += [] if high is None else [pc.invert(pc.less_equal(column, _scalar(high, type_)))]
    return reduce(pc.or_, ends)


def split_mask(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """A batch, and the bits that are its last column."""
    bits = batch.column(batch.num_columns - 1)
    columns = batch.schema.names[:-1]
    rest = batch.select(columns) if columns else batch
    return rest, bits if pc.any(pc.not_equal(bits, 0), min_count=0).as_py() else None


@dataclass
class Findings:
    """What the rows of one task, or of a batch, came to.

    Attributes:
        rows: how many there were.
        passed: how many are landed.
        failed: number of an expectation -> rows that fail it.
        set_aside: the rows that are set aside.
        samples: some of those for which the load fails.
        newest: number of an expectation -> newest value of its column, in seconds since 1970.
    """

    rows: int = 0
    passed: int = 0
    failed: dict[int, int] = field(default_factory=dict)
    set_aside: list[BadRecord] = field(default_factory=list)
    samples: list[BadRecord] = field(default_factory=list)
    newest: dict[int, float] = field(default_factory=dict)

    def add(self, other: Findings) -> None:
        """Add another task's."""
        self.rows += other.rows
        self.passed += other.passed
        for number, count in other.failed.items():
            self.failed[number] = self.failed.get(number, 0) + count
        self.set_aside += other.set_aside
        self.samples += other.samples
        for number, moment in other.newest.items():
            self.newest[number] = max(moment, self.newest.get(number, moment))


@dataclass(frozen=True)
class Sieve:
    """Holds back the rows that are to be set aside, and counts what fails.

    Attributes:
        stream: the stream's name.
        expected: what is expected of its rows.
        mask: takes a batch apart into rows and their bits.
    """

    stream: str
    expected: tuple[Expectation, ...]
    mask: Mask

    def __call__(
        self, batches: Iterator[pa.RecordBatch], found: Findings, source: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass, lazily.

        Args:
            batches: the rows.
            found: gets the counts, and the rows that fail.
            source: the rows' columns, which say what in them is JSON.
        """
        for batch in batches:
            rows, bits = self.mask(batch)
            found.rows += rows.num_rows
            if bits is not None:
                rows = self._held_back(rows, bits, found, source)
            found.passed += rows.num_rows
            self._age(rows, found)
            yield rows

    def _held_back(
        self, rows: pa.RecordBatch, bits: pa.Array, found: Findings, source: pa.Schema
    ) -> pa.RecordBatch:
        held: list[tuple[pa.Array, Expectation]] = []
        for number, one in enumerate(self.expected):
            failing = pc.not_equal(pc.bit_wise_and(bits, 1 << number), 0)
            count = failing.true_count
            if not count:
                continue
            found.failed[number] = found.failed.get(number, 0) + count
            if one.otherwise == "quarantine":
                held.append((failing, one))
            elif one.otherwise == "fail" and len(found.samples) < _SAMPLES:
                some = rows.filter(failing).slice(0, _SAMPLES - len(found.samples))
                found.samples += self._records(cast_batch(some, source), one)
        passing = None
        for failing, one in held:  # a row is set aside once, for the first reason
            mine = failing if passing is None else pc.and_(failing, passing)
            found.set_aside += self._records(cast_batch(rows.filter(mine), source), one)
            passing = pc.invert(failing) if passing is None else pc.and_not(passing, failing)
        return rows if passing is None else rows.filter(passing)

    def _records(self, rows: pa.RecordBatch, one: Expectation) -> list[BadRecord]:
        column = one.columns[0] if len(one.columns) == 1 else ""
        texts = to_json_text(rows.to_struct_array()).to_pylist()
        return [BadRecord(self.stream, 0, column, one.title, text.encode()) for text in texts]

    def _age(self, rows: pa.RecordBatch, found: Findings) -> None:
        for number, one in enumerate(self.expected):
            if one.kind == "fresh" and rows.num_rows:
                at = {name.lower(): i for i, name in enumerate(rows.schema.names)}
                newest = pc.max(rows.column(at[one.columns[0].lower()])).as_py()
                if newest is not None:
                    moment = seconds_of(newest)
                    found.newest[number] = max(moment, found.newest.get(number, moment))


def seconds_of(value: date) -> float:
    """Seconds since 1970 of a time, or of a date's first moment, in UTC where it has no zone.

    >>> seconds_of(date(1970, 1, 2))
    86400.0
    """
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return value.timestamp()
