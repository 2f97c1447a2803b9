"""Cells of a sheet -> fields of CSV; and what type a column's cells allow.

Excel stores numbers as doubles, and dates and times as numbers with a format that says so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

from lakeport.schema.types import FieldType, Kind

_EXACT = 2**53
_LONG = range(-(2**63), 2**63)


class Cell(Enum):
    """What a cell holds."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "an integer that no double is"
    NUMBER = "number"
    DATE = "date"
    TIMESTAMP = "date and time"
    ERROR = "error"


_TYPES: tuple[tuple[AbstractSet[Cell], Kind], ...] = (
    ({Cell.BOOLEAN}, Kind.BOOLEAN),
    ({Cell.INTEGER, Cell.LONG}, Kind.INTEGER),
    ({Cell.INTEGER, Cell.NUMBER}, Kind.NUMBER),
    ({Cell.DATE}, Kind.DATE),
    ({Cell.DATE, Cell.TIMESTAMP}, Kind.TIMESTAMP),
)


def type_of(cells: AbstractSet[Cell]) -> FieldType | None:
    """The narrowest type of a column of such cells; None where it has none but errors.

    >>> type_of({Cell.INTEGER, Cell.NUMBER}).kind.value, type_of({Cell.DATE, Cell.TEXT}).kind.value
    ('number', 'string')
    """
    cells = cells - {Cell.ERROR}
    if not cells:
        return None
    kinds = (kind for allowed, kind in _TYPES if cells <= allowed)
    return FieldType(next(kinds, Kind.STRING))


def field_of(value: Any, stored: str) -> tuple[str, Cell] | None:
    """A cell as a field of CSV; None for an empty one.

    Args:
        value: as `openpyxl` gives it.
        stored: what it is stored as, in `openpyxl`'s letters: `s` text, `n` number, `d` date,
            `b` boolean, `e` error.

    >>> field_of(3.0, "n"), field_of(dt.datetime(2024, 1, 2), "d")
    (('3', <Cell.INTEGER: 'integer'>), ('2024-01-02', <Cell.DATE: 'date'>))
    >>> field_of("007", "s")
    ('"007"', <Cell.TEXT: 'text'>)
    """
    if value is None or value == "":
        return None
    if stored == "e":
        return "", Cell.ERROR
    if isinstance(value, bool):
        return ("TRUE" if value else "FALSE"), Cell.BOOLEAN
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, dt.datetime):
        return _moment(value)
    if isinstance(value, dt.date):
        return value.isoformat(), Cell.DATE
    if isinstance(value, dt.time):
        return value.isoformat(), Cell.TEXT
    if isinstance(value, dt.timedelta):
        return _duration(value), Cell.TEXT
    return quoted(str(value)), Cell.TEXT


def quoted(text: str) -> str:
    """A text as a field of CSV that is text, whatever it looks like."""
    return '"' + text.replace('"', '""') + '"'


def _number(value: float) -> tuple[str, Cell]:
    if isinstance(value, float):
        if not (value.is_integer() and abs(value) < _EXACT):
            return repr(value), Cell.NUMBER
        value = int(value)
    if value not in _LONG:
        return str(value), Cell.TEXT
    return str(value), Cell.INTEGER if int(float(value)) == value else Cell.LONG


def _moment(value: dt.datetime) -> tuple[str, Cell]:
    if value.time() == dt.time():
        return value.date().isoformat(), Cell.DATE
    whole = value.microsecond == 0
    return value.isoformat(" ", "seconds" if whole else "milliseconds"), Cell.TIMESTAMP


def _duration(value: dt.timedelta) -> str:
    """Hours, which may be more than 24, minutes and seconds."""
    sign = "-" if value < dt.timedelta() else ""
    seconds, rest = divmod(abs(value), dt.timedelta(seconds=1))
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
