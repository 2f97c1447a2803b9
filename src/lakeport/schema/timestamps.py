"""ISO 8601 text -> microseconds and days since 1970, exactly or not at all."""

from __future__ import annotations

import re
from datetime import date

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
_ZONE = r"([Zz]|[+-]\d\d(?::?\d\d)?)?"
_TEXT = re.compile(rf"{_DATE}(?:[Tt ]{_TIME}{_ZONE})?", re.ASCII)
_FAR = re.compile(r"(?:[+-]\d{4,}|\d{5,})-\d\d-\d\d.*", re.ASCII | re.DOTALL)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_FIRST = (1 - _EPOCH) * _DAY
_END = (date.max.toordinal() + 1 - _EPOCH) * _DAY
_MICRO_DIGITS = 6
_LAST_HOUR, _LAST_MINUTE = 23, 59


def microseconds(text: str) -> int:
    """Read a date-time; one without an offset is UTC, and a date alone is its midnight.

    Raises:
        ValueError: not a timestamp, out of range (years 1 to 9999 in UTC), or finer than
            microseconds; the message says which, without the text.

    Example:
        >>> microseconds("1970-01-01T01:00:00.000001+01:00")
        1
    """
    day, time, offset = _parts(text, "timestamp")
    instant = day * _DAY + time - offset
    if not _FIRST <= instant < _END:
        raise ValueError("date out of range")
    return instant


def days(text: str) -> int:
    """Read a date; a date-time counts if it is midnight and has no offset but UTC's.

    Raises:
        ValueError: not a date, or out of range (years 1 to 9999).

    Example:
        >>> days("1970-01-02"), days("1970-01-02T00:00:00Z")
        (1, 1)
    """
    day, time, offset = _parts(text, "date")
    if time or offset:
        raise ValueError("not a date")
    return day


def _parts(text: str, what: str) -> tuple[int, int, int]:
    """Day since 1970, microseconds of the day, and the offset in microseconds."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError("date out of range" if _FAR.fullmatch(text) else f"not a {what}")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    if year == "0000":
        raise ValueError("date out of range")
    try:
        ordinal = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise ValueError(f"not a {what}") from None
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > _LAST_HOUR or m > _LAST_MINUTE or s > _LAST_MINUTE:
        raise ValueError(f"not a {what}")
    offset = _offset(zone, what)
    digits = (fraction or "").ljust(_MICRO_DIGITS, "0")
    if digits[_MICRO_DIGITS:].strip("0"):
        raise ValueError("finer than microseconds")
    return ordinal, ((h * 60 + m) * 60 + s) * 1_000_000 + int(digits[:_MICRO_DIGITS]), offset


def _offset(zone: str | None, what: str) -> int:
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > _LAST_HOUR or minutes > _LAST_MINUTE:
        raise ValueError(f"not a {what}")
    return (hours * 60 + minutes) * (-60_000_000 if zone[0] == "-" else 60_000_000)
