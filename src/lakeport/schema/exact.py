"""Columns of one type as columns of another, value by value exactly, or not at all. Pure.

Numbers become other numbers where they stay the same number (an integer a double up to 2**53, a
double a decimal if that reads as the same double again), dates their midnight in UTC, a midnight
its date, everything the text of it, and a text what it spells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import InputError
from lakeport.schema.calendars import days, microseconds
from lakeport.schema.casting import TIMESTAMP, check_range, widened
from lakeport.schema.named import type_name
from lakeport.schema.numbers import double

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_LONG = range(-(2**63), 2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class InexactError(Exception):
    """A value that has no equal of the wanted type.

    Args:
        index: its place in the column.
        value: the value.
    """

    def __init__(self, index: int, value: object) -> None:
        super().__init__(index, value)
        self.index = index
        self.value = value


def convertible(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some values of a type have equals of the other.

    >>> convertible(pa.int64(), pa.date32()), convertible(pa.string(), pa.date32())
    (False, True)
    """
    if source == target or pa.types.is_null(source):
        return True
    if isinstance(source, pa.JsonType):
        source = pa.string()
    if pa.types.is_string(source):
        return pa.types.is_string(target) or _reader(target) is not None
    if pa.types.is_string(target):
        return _is_number(source) or _is_time(source) or pa.types.is_boolean(source)
    return narrows(source, target)


def narrows(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of a type may be the same numbers, or the same moments, of the other.

    >>> narrows(pa.float64(), pa.int64()), narrows(pa.int64(), pa.string())
    (True, False)
    """
    numbers = _is_number(source) and _is_number(target)
    return numbers or (_is_time(source) and _is_time(target))


def exactly(column: pa.Array, target: pa.DataType) -> pa.Array:
    """A column of another type, with the same values.

    Args:
        column: of a type that is `convertible`.
        target: the type.

    Raises:
        InexactError: the first value that has no equal there.
        TypeError: no value of the column's type has one.

    >>> exactly(pa.array([1, 2]), pa.decimal128(4, 1)).to_pylist()
    [Decimal('1.0'), Decimal('2.0')]
    """
    source = column.type
    if source == target:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), target)
    if not convertible(source, target):
        raise TypeError(f"{source} is never {target}")
    if pa.types.is_string(source):
        return _read(column, target)
    cast = _cast(column, target)
    if cast is None:
        refused = _refused(column, target)
        exactly(column[:refused], target)  # one before it may be rounded
        raise _at(column, refused)
    wrong = pc.fill_null(_differs(column, cast), False)
    if pc.any(wrong).as_py():
        raise _at(column, wrong.index(True).as_py())
    return cast


@contextmanager
def as_declared(name: str, source: pa.DataType, type_: pa.DataType) -> Iterator[None]:
    """Name the column, its type and the declared one where a conversion within fails.

    Raises:
        InputError: a value, or no value at all, has an equal there.
    """
    try:
        yield
    except InexactError as error:
        raise InputError(
            f"column {name!r} is declared as {type_name(type_)}, which {error.value!r} is not",
            "declare a type that holds every value, or correct the source.",
        ) from None
    except TypeError:
        raise InputError(
            f"column {name!r} is {type_name(source)} in the source, and declared as "
            f"{type_name(type_)}",
            "declare a type that its values can have, such as `json`, or leave it undeclared.",
        ) from None


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds)


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


def _at(column: pa.Array, index: int) -> InexactError:
    return InexactError(index, column[index].as_py())


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Arrow's cast, which rounds some; None where it refuses a value."""
    try:
        cast = widened(column, target).cast(target)
    except pa.ArrowInvalid:
        return None
    return cast if check_range(cast) else None


def _differs(before: pa.Array, after: pa.Array) -> pa.Array:
    """Where a value is not what it was, as it does not lead back."""
    try:
        back = widened(after, before.type).cast(before.type, safe=False)
    except pa.ArrowInvalid:  # a value that was rounded lies beyond the type that it came from
        if len(before) == 1:
            return pa.array([before.null_count == 0])
        half = len(before) // 2
        parts = (slice(None, half), slice(half, None))
        return pa.concat_arrays([_differs(before[part], after[part]) for part in parts])
    same = pc.equal(back, before)
    if pa.types.is_floating(before.type):
        if not pa.types.is_floating(after.type):  # of two zeros, only doubles tell the sign
            lost = pc.and_(pc.equal(before, 0.0), pc.less(pc.divide(1.0, before), 0.0))
            same = pc.and_(same, pc.invert(lost))
        same = pc.or_(same, pc.and_(pc.is_nan(back), pc.is_nan(before)))
    return pc.invert(same)


def _refused(column: pa.Array, target: pa.DataType) -> int:
    """The place of the first value that Arrow refuses: the half that holds it is halved again."""
    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        if _cast(column[start:middle], target) is None:
            end = middle
        else:
            start = middle
    return start


def _read(column: pa.Array, target: pa.DataType) -> pa.Array:
    read = _reader(target)
    if read is None:
        raise TypeError(f"no text is {target}")
    values: list[Any] = []
    for index, text in enumerate(column.to_pylist()):
        try:
            values.append(None if text is None else read(text))
        except (ValueError, ArithmeticError):
            raise InexactError(index, text) from None
    return pa.array(values, target)


def _reader(target: pa.DataType) -> Callable[[str], Any] | None:
    """Reads a text as a value of a type, raising `ValueError` where it is none."""
    if pa.types.is_decimal(target):
        return lambda text: _decimal(text, target)
    return _READERS.get(target)


def _decimal(text: str, target: pa.DataType) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    value = Decimal(text)
    _, digits, exponent = value.normalize().as_tuple()
    power = exponent if isinstance(exponent, int) else 0
    if -power > target.scale or len(digits) + power > target.precision - target.scale:
        raise ValueError(text)
    return value


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text) or int(text) not in _LONG:
        raise ValueError(text)
    return int(text)


def _double(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return double(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _day(text: str) -> date:
    return (_EPOCH + timedelta(days=days(text))).date()


def _moment(text: str) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds(text))


_READERS: dict[pa.DataType, Callable[[str], Any]] = {
    pa.int64(): _whole,
    pa.float64(): _double,
    pa.bool_(): _boolean,
    pa.date32(): _day,
    TIMESTAMP: _moment,
}
