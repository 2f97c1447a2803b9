"""Values of statistics and partitions: how they are read, compared and spelled. Pure.

The log holds numbers as numbers and all else as texts, so `"10"` of a text column is less than
`"9"`, and `10` of a whole number is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

UNREADABLE = (ValueError, TypeError, ArithmeticError)
"""What readers raise."""

_CUT = 32
_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")
_WHOLE = frozenset({"byte", "short", "integer", "long"})
_FLOATING = frozenset({"float", "double"})
_TEXTS = "long texts are cut in the statistics"
_TIMES = "the statistics keep times to the millisecond"


def reader(type_: Any) -> Callable[[Any], Any] | None:
    """What reads a column's values, and raises one of `UNREADABLE` for what is none.

    Args:
        type_: a type of Delta's JSON.

    Returns:
        None for types without order.

    >>> reader("integer")("10"), reader("decimal(9,2)")("1.50"), reader("binary")
    (10, Decimal('1.50'), None)
    """
    if isinstance(type_, Mapping):
        return None
    starts = (read for start, read in _STARTS.items() if str(type_).startswith(start))
    return _READERS.get(type_) or next(starts, None)


def bounds(low: Collection[Any], high: Collection[Any]) -> tuple[Any, Any]:
    """The least and the greatest value; NaN is greater than all numbers, as for Spark.

    Args:
        low: the least values of some parts, at least one.
        high: the greatest ones.

    >>> bounds([1.0, math.nan], [math.nan, math.inf])
    (1.0, nan)
    """
    floats = all(isinstance(value, float) for value in (*islice(low, 1), *islice(high, 1)))
    key = _order if floats and math.isnan(sum(low) + sum(high)) else None
    return min(low, key=key), max(high, key=key)


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def spelled(value: Any, type_: Any = "string") -> str:
    """A value as text, a decimal with all digits of its type.

    >>> spelled(True), spelled(datetime(2024, 5, 1, 10, tzinfo=UTC))
    ('true', '2024-05-01T10:00:00Z')
    >>> spelled(Decimal("1E+2"), "decimal(9,2)")
    '100.00'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        scale = _SCALE.search(str(type_))
        return format(value, f".{scale[1]}f" if scale else "f")
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat()
        text = text.rstrip("0") if "." in text else text
        return f"{text}Z" if value.tzinfo else text
    return str(value)


def cut_reason(value: Any) -> str:
    """Why a bound may be wider than the values; empty where it is not."""
    if isinstance(value, str):
        # Java counts a letter beyond 16 bits as two.
        return _TEXTS if len(value.encode("utf-16-le", "surrogatepass")) >= 2 * _CUT else ""
    if isinstance(value, datetime):
        return "" if value.microsecond % 1000 else _TIMES
    return ""


def _whole(value: Any) -> int:
    number = int(value)
    if not isinstance(value, str) and number != value:
        raise ValueError(value)
    return number


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise ValueError(value)
    return str(value).lower() == "true"


def _date(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


def _moment(value: Any) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if found.tzinfo is UTC:
        return found
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _local_moment(value: Any) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found.replace(tzinfo=None)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_WHOLE, _whole),
    **dict.fromkeys(_FLOATING, float),
    "string": str,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _moment,
    "timestamp_ntz": _local_moment,
}
_STARTS: Mapping[str, Callable[[Any], Any]] = {
    "decimal": _decimal,
    "varchar": str,
    "char": str,
}
