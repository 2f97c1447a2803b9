"""Format the cells of a sheet as fields of CSV, and infer the type of a column's cells.

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


class CellKind(Enum):
    """Kind of a cell's value; the enum's value is its name in words."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "an integer that no double is"
    NUMBER = "number"
    DATE = "date"
    TIMESTAMP = "date and time"
    ERROR = "error"


_TYPES: tuple[tuple[AbstractSet[CellKind], Kind], ...] = (
    ({CellKind.BOOLEAN}, Kind.BOOLEAN),
    ({CellKind.INTEGER, CellKind.LONG}, Kind.INTEGER),
    ({CellKind.INTEGER, CellKind.NUMBER}, Kind.NUMBER),
    ({CellKind.DATE}, Kind.DATE),
    ({CellKind.DATE, CellKind.TIMESTAMP}, Kind.TIMESTAMP),
)


def infer_field_type(cell_kinds: AbstractSet[CellKind]) -> FieldType | None:
    """Return the narrowest type for cells of these kinds, else string; None if all are errors.

    >>> infer_field_type({CellKind.INTEGER, CellKind.NUMBER}).kind.value
    'number'
    >>> infer_field_type({CellKind.DATE, CellKind.TEXT}).kind.value
    'string'
    """
    cell_kinds = cell_kinds - {CellKind.ERROR}
    if not cell_kinds:
        return None
    kinds = (kind for allowed, kind in _TYPES if cell_kinds <= allowed)
    return FieldType(next(kinds, Kind.STRING))


def format_cell(value: Any, stored_type: str) -> tuple[str, CellKind] | None:
    """Format a cell as a CSV field; return field and kind, or None for an empty cell.

    Args:
        value: as `openpyxl` reads it.
        stored_type: its stored type, in `openpyxl`'s letters: `s` text, `n` number, `d` date,
            `b` boolean, `e` error.

    >>> format_cell(3.0, "n"), format_cell(dt.datetime(2024, 1, 2), "d")
    (('3', <CellKind.INTEGER: 'integer'>), ('2024-01-02', <CellKind.DATE: 'date'>))
    >>> format_cell("007", "s")
    ('"007"', <CellKind.TEXT: 'text'>)
    """
    if value is None or value == "":
        return None
    if stored_type == "e":
        return "", CellKind.ERROR
    if isinstance(value, bool):
        return ("TRUE" if value else "FALSE"), CellKind.BOOLEAN
    if isinstance(value, (int, float)):
        return _format_number(value)
    if isinstance(value, dt.datetime):
        return _format_timestamp(value)
    if isinstance(value, dt.date):
        return value.isoformat(), CellKind.DATE
    if isinstance(value, dt.time):
        return value.isoformat(), CellKind.TEXT
    if isinstance(value, dt.timedelta):
        return _format_duration(value), CellKind.TEXT
    return quote(str(value)), CellKind.TEXT


def quote(text: str) -> str:
    """Return a text as a quoted field of CSV, so that readers don't infer another type."""
    return '"' + text.replace('"', '""') + '"'


def _format_number(value: float) -> tuple[str, CellKind]:
    """Format a number as a CSV field, with its kind; an integer beyond 64 bits becomes text."""
    if isinstance(value, float):
        if not (value.is_integer() and abs(value) < _EXACT):
            return repr(value), CellKind.NUMBER
        value = int(value)
    if value not in _LONG:
        return str(value), CellKind.TEXT
    return str(value), CellKind.INTEGER if int(float(value)) == value else CellKind.LONG


def _format_timestamp(value: dt.datetime) -> tuple[str, CellKind]:
    """Format a timestamp as a CSV field, with its kind; midnight becomes a date."""
    if value.time() == dt.time():
        return value.date().isoformat(), CellKind.DATE
    whole = value.microsecond == 0
    return value.isoformat(" ", "seconds" if whole else "milliseconds"), CellKind.TIMESTAMP


def _format_duration(value: dt.timedelta) -> str:
    """Format a duration as `27:05:00`: hours, which may exceed 24, minutes and seconds."""
    sign = "-" if value < dt.timedelta() else ""
    seconds, rest = divmod(abs(value), dt.timedelta(seconds=1))
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
