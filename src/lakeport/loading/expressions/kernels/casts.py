"""`CAST`, where Arrow reads and writes values as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.bound import NeedsSpark
from lakeport.loading.expressions.kernels.datum import any_true
from lakeport.schema.types import TIMESTAMP

__all__ = ["CASTS", "WHOLE", "naive", "read", "utc"]

_NAIVE: Final = pa.timestamp("us")
_INTEGER: Final = r"\A-?[0-9]{1,18}\z"
_FLOAT: Final = r"\A-?[0-9]{1,300}(\.[0-9]{1,300})?\z"
_DATE: Final = r"\A[12][0-9]{3}-[0-9]{2}-[0-9]{2}\z"
_MOMENT: Final = r"\A[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"


def naive(moments: Any) -> Any:
    """Timestamps without their zone, which is UTC: Arrow would look it up on the machine."""
    return moments.cast(_NAIVE)


def utc(moments: Any) -> Any:
    """Timestamps with the zone that tables have."""
    return moments.cast(TIMESTAMP)


class _Cast:
    """A cast that fails where a value would change."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_

    def __call__(self, values: Any) -> Any:
        return values.cast(self._type)


class _Read:
    """Reads texts that are written in one way; whatever Spark makes of others, it does."""

    def __init__(self, pattern: str, type_: pa.DataType) -> None:
        self._pattern = pattern
        self._type = type_

    def __call__(self, texts: Any) -> Any:
        if self._type == TIMESTAMP:
            return utc(read(texts, self._pattern, _NAIVE))
        return read(texts, self._pattern, self._type)


def read(texts: Any, pattern: str, type_: pa.DataType) -> Any:
    """Values of texts that are all written in one way.

    Raises:
        NeedsSpark: one is written in another.
    """
    if any_true(pc.invert(pc.match_substring_regex(texts, pattern))):
        raise NeedsSpark("a text that is not written as most are")
    return texts.cast(type_)


class _Truncated:
    """The integer of a double, towards zero."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_

    def __call__(self, values: Any) -> Any:
        return pc.trunc(values).cast(self._type)


def _float(values: Any) -> Any:
    return values.cast(pa.float64(), safe=False)  # the nearest, as Java's


def _is_not_zero(values: Any) -> Any:
    return pc.not_equal(values, pa.scalar(0, values.type))


def _date_of_moment(moments: Any) -> Any:
    return naive(moments).cast(pa.date32(), safe=False)


def _moment_of_date(days: Any) -> Any:
    return utc(days.cast(_NAIVE))


WHOLE: Final = {digits: _Cast(pa.decimal128(digits, 0)) for digits in (3, 5, 10, 20)}
"""Digits -> the kernel that makes decimals of integers."""

CASTS: Final[Mapping[tuple[pa.DataType, pa.DataType], Callable[[Any], Any]]] = {
    **{(pa.int64(), t): _Cast(t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    (pa.int64(), pa.float64()): _float,
    (pa.int64(), pa.string()): _Cast(pa.string()),
    (pa.int64(), pa.bool_()): _is_not_zero,
    **{(pa.float64(), t): _Truncated(t) for t in (pa.int32(), pa.int64())},
    (pa.bool_(), pa.string()): _Cast(pa.string()),
    **{(pa.bool_(), t): _Cast(t) for t in (pa.int32(), pa.int64())},
    **{(pa.string(), t): _Read(_INTEGER, t) for t in (pa.int32(), pa.int64())},
    (pa.string(), pa.float64()): _Read(_FLOAT, pa.float64()),
    (pa.string(), pa.date32()): _Read(_DATE, pa.date32()),
    (pa.string(), TIMESTAMP): _Read(_MOMENT, TIMESTAMP),
    (pa.date32(), pa.string()): _Cast(pa.string()),
    (pa.date32(), TIMESTAMP): _moment_of_date,
    (TIMESTAMP, pa.date32()): _date_of_moment,
}
"""Type, type wanted -> the kernel. Integers narrower than 64 bits have the rules of those."""
