"""Dates and timestamps, in UTC."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.bound import NeedsSpark
from lakeport.loading.expressions.kernels.casts import naive, utc
from lakeport.loading.expressions.kernels.datum import any_true

__all__ = [
    "FORMATS",
    "PARTS",
    "UNITS",
    "days_between",
    "days_later",
    "formatted",
    "part",
    "truncated",
]

PARTS: Final = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "weekofyear": pc.iso_week,
    "day": pc.day,
    "dayofmonth": pc.day,
    "dayofyear": pc.day_of_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
"""Function of Spark's -> Arrow's. `dayofweek` has other numbers."""

UNITS: Final = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
"""Name of a unit in Spark -> in Arrow."""

FORMATS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
"""Letters of Spark's patterns -> of `strftime`; of four-digit years both tell the same."""

_FOUR_DIGITS: Final = (1000, 9999)


def part(values: Any, name: pa.Scalar) -> Any:
    """A part of a date or timestamp, as an integer of 32 bits."""
    plain, wanted = _plain(values), name.as_py()
    if wanted == "dayofweek":
        return pc.day_of_week(plain, count_from_zero=False, week_start=7).cast(pa.int32())
    return PARTS[wanted](plain).cast(pa.int32())


def truncated(values: Any, unit: pa.Scalar) -> Any:
    """The first moment of the unit that a date or timestamp lies in."""
    found = pc.floor_temporal(_plain(values), unit=unit.as_py())
    return utc(found) if pa.types.is_timestamp(values.type) else found


def formatted(values: Any, pattern: pa.Scalar) -> Any:
    """`date_format`, with a pattern of `strftime`."""
    seconds = pc.floor_temporal(naive(values), unit="second").cast(pa.timestamp("s"))
    years = pc.year(seconds)
    low, high = _FOUR_DIGITS
    if any_true(pc.or_(pc.less(years, low), pc.greater(years, high))):
        raise NeedsSpark("a year that has not four digits")
    return pc.strftime(seconds, format=pattern.as_py(), locale="C")


def days_between(end: Any, start: Any) -> Any:
    """`datediff` of dates."""
    return pc.subtract_checked(end.cast(pa.int32()), start.cast(pa.int32()))


def days_later(start: Any, days: Any) -> Any:
    """`date_add` to a date, of 32 bits."""
    return pc.add_checked(start.cast(pa.int32()), days).cast(pa.date32())


def _plain(values: Any) -> Any:
    return naive(values) if pa.types.is_timestamp(values.type) else values
