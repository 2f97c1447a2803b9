"""Parse texts of numbers and dates exactly, or say why a column can't hold them.

Nothing here builds a number longer than a column's, so an exponent of any size costs nothing.
"""

from __future__ import annotations

import re
from datetime import date

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
_ZONE = r"([Zz]|[+-]\d\d(?::?\d\d)?)?"
_TEXT = re.compile(rf"{_DATE}(?:[Tt ]{_TIME}{_ZONE})?", re.ASCII)
_FAR = re.compile(r"(?:[+-]\d{4,}|\d{5,})-\d\d-\d\d.*", re.ASCII | re.DOTALL)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_MICROSECONDS = 86_400_000_000
_FIRST = (1 - _EPOCH) * _DAY_MICROSECONDS
_END = (date.max.toordinal() + 1 - _EPOCH) * _DAY_MICROSECONDS
_MICRO_DIGITS = 6
_LAST_HOUR = 23
_LAST_MINUTE = 59


def parse_microseconds(text: str) -> int:
    """Parse a date-time into microseconds since 1970, in UTC; ValueError if it is invalid.

    Raises:
        ValueError: not a timestamp, out of range (years 1 to 9999 in UTC), or finer than
            microseconds; the message says which, without the text.

    >>> parse_microseconds("1970-01-01T01:00:00.000001+01:00")
    1
    """
    day, time, offset = _split_timestamp(text, "timestamp")
    instant = day * _DAY_MICROSECONDS + time - offset
    if not _FIRST <= instant < _END:
        raise ValueError("date out of range")
    return instant


def parse_days(text: str) -> int:
    """Parse a date, or a date-time at midnight UTC, into days since 1970; else ValueError.

    >>> parse_days("1970-01-02"), parse_days("1970-01-02T00:00:00Z")
    (1, 1)
    """
    day, time, offset = _split_timestamp(text, "date")
    if time or offset:
        raise ValueError("not a date")
    return day


def _split_timestamp(text: str, kind: str) -> tuple[int, int, int]:
    """Split a text into days since 1970, microseconds of the day, and offset in microseconds.

    Raises:
        ValueError: not a date or date-time (`kind` names it in the message), or out of range, or
            finer than microseconds.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError("date out of range" if _FAR.fullmatch(text) else f"not a {kind}")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    if year == "0000":
        raise ValueError("date out of range")
    try:
        ordinal = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise ValueError(f"not a {kind}") from None
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > _LAST_HOUR or m > _LAST_MINUTE or s > _LAST_MINUTE:
        raise ValueError(f"not a {kind}")
    offset = _parse_offset(zone, kind)
    digits = (fraction or "").ljust(_MICRO_DIGITS, "0")
    if digits[_MICRO_DIGITS:].strip("0"):
        raise ValueError("finer than microseconds")
    return ordinal, ((h * 60 + m) * 60 + s) * 1_000_000 + int(digits[:_MICRO_DIGITS]), offset


def _parse_offset(zone: str | None, kind: str) -> int:
    """Return a zone's UTC offset in microseconds; 0 for None and `Z`; ValueError above 23:59."""
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
    if hours > _LAST_HOUR or minutes > _LAST_MINUTE:
        raise ValueError(f"not a {kind}")
    return (hours * 60 + minutes) * (-60_000_000 if zone[0] == "-" else 60_000_000)


_EXACT = 2.0**53  # from here on not every integer is a double
_EXPONENT_DIGITS = 19  # more than any text has digits


def split_significand(literal: str) -> tuple[str, int]:
    """Split a number into its significant digits, without the sign, and a power of ten.

    Takes a JSON number, also with a plus sign, or without digits on one side of the point.

    >>> split_significand("-0.0120e5"), split_significand("0e9")
    (('12', 2), ('', 9))
    """
    digits, power = _split_digits(literal)
    significant = digits.rstrip("0")
    return significant, power + len(digits) - len(significant)


def parse_double(literal: str) -> float:
    """Parse a number into the nearest double; raise ValueError if an integer would change.

    Fractions are rounded, as JSON readers do it. What is refused: a number beyond the doubles,
    one so small that nothing but zero is left, and an integral one, however it is written, that
    the double does not give back in as many digits. (`1e23` is given back, although no double is
    a power of ten that large; so is any text that a program writes for a double.)

    >>> parse_double("9007199254740992.0"), parse_double("1e23"), parse_double("5e-324")
    (9007199254740992.0, 1e+23, 5e-324)
    >>> parse_double("9007199254740993.0")
    Traceback (most recent call last):
    ValueError: integer with more digits than a double holds \
(declare the column an integer, a decimal or a string)
    """
    number = float(literal)
    size = abs(number)
    if 0 < size < _EXACT:
        return number
    if size == float("inf"):
        raise ValueError("number too large for a double")
    digits, power = _split_digits(literal)
    if not size and digits:
        raise ValueError("number too small for a double, which would be zero")
    integral = power >= 0 or not digits[power:].strip("0")
    if size and integral:
        again = f"{size:.{len(digits) - 1}e}", repr(size)
        if (digits, power) not in map(_split_digits, again):
            raise ValueError(
                "integer with more digits than a double holds "
                "(declare the column an integer, a decimal or a string)"
            )
    return number


def _split_digits(literal: str) -> tuple[str, int]:
    """Split a number into digits without leading zeros, and the last digit's power of ten."""
    mantissa, _, exponent = literal.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    shift = int(exponent.lstrip("+-").lstrip("0")[:_EXPONENT_DIGITS] or 0)
    power = (-shift if exponent.startswith("-") else shift) - len(fraction)
    return (whole + fraction).lstrip("0"), power
