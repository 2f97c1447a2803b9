"""Where a table begins below titles and comments, and whether its first record names columns.

Whoever is not sure takes the first record for the header.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

_SPACE = "[ \u00a0\u2009\u202f]"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    rf"[+-]?(?=[.,]?[0-9])(?:[0-9]{{1,3}}(?:(?:[.,'\u2019]|{_SPACE})[0-9]{{3}})*|[0-9]+)?(?:[.,][0-9]+)?"
    r"(?:[eE][+-]?[0-9]+)?"
)
_CODE = re.compile("-?[0-9]+[eE][0-9]+")
_DATE = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2[0-9]{2}(?:[0-9]{2})?)"
    r"(?:[T ][0-9]{1,2}:[0-9]{2}.*)?"
)
_YEARS = range(1900, 2101)
_ROWS = 200
_STEPS = 3
_PAIR = 2  # fields, of which one may well be empty

Row = Sequence[str]


def is_typed(cell: str) -> bool:
    """Whether a field is a number or a date, in whatever country."""
    return kind_of(cell) not in ("", "text")


def kind_of(cell: str) -> str:
    """`integer`, `number`, `date`, `code` (`12E12`) or `text`; empty for nothing but spaces."""
    cell = cell.strip()
    if not cell:
        return ""
    if _INTEGER.fullmatch(cell):
        return "integer"
    if _DATE.fullmatch(cell):
        return "date"
    if _CODE.fullmatch(cell):
        return "code"
    return "number" if _NUMBER.fullmatch(cell) else "text"


def has_header(rows: Sequence[Row], declared: Collection[str] = ()) -> bool:
    """Whether the first of some records of one width names the columns.

    It does not where it has a number or a date in each column of numbers or dates, unless these
    could be names: years, or whole numbers that go on by one, beside a column of text.

    Args:
        rows: all records.
        declared: columns that the user has declared.

    >>> has_header([["id", "name"], ["1", "Ada"]]), has_header([["1", "Ada"], ["2", "Grace"]])
    (True, False)
    >>> has_header([["land", "2019", "2020"], ["DE", "5", "7"]])
    True
    """
    if len(rows) < 2 or set(rows[0]) & set(declared):
        return True
    first, body = rows[0], rows[1:_ROWS]
    kinds = [_column([row[n] for row in body]) for n in range(len(first))]
    typed = [(kind_of(cell), kind, cell) for cell, kind in zip(first, kinds, strict=True) if kind]
    if not typed or any(not _goes_with(own, kind) for own, kind, _ in typed):
        return True
    if any(own != "integer" for own, _, _ in typed):
        return False
    numbers = [int(cell) for _, _, cell in typed]
    if all(number in _YEARS for number in numbers):
        return True
    steps = {after - before for before, after in pairwise(numbers)}
    return len(first) > len(typed) >= _STEPS and steps == {1}


def _column(cells: Row) -> str:
    """The kind of all fields that are not empty; empty if that is text, or if there are none."""
    found = {kind for cell in cells if (kind := kind_of(cell))}
    if found == {"integer", "number"}:
        return "number"
    return found.pop() if len(found) == 1 and found != {"text"} else ""


def _goes_with(own: str, kind: str) -> bool:
    return own == kind or {own, kind} == {"integer", "number"}


def first_place(rows: Sequence[Row], lines: Sequence[int], width: int) -> int:
    """The place of the header, or of the first record without one, behind titles and comments.

    Args:
        rows: all records with content.
        lines: the line that each begins in, from 0.
        width: the number of fields that the table's records have.

    >>> first_place([["Sales 2024"], ["id", "name"], ["1", "Ada"]], [0, 2, 3], 2)
    1
    """
    place = next((n for n, row in enumerate(rows) if len(row) == width and not _title(row)), 0)
    while place < len(rows) and rows[place][0].startswith("#") and contrast(rows, place + 1):
        place += 1
    lead = rows[:place]
    if not lead or place + 1 >= len(rows) or len(rows[place + 1]) != width:
        return 0
    if all(row[0].startswith("#") for row in lead):
        return place
    apart = lines[place] - lines[place - 1] > 1 + sum(c.count("\n") for c in rows[place - 1])
    titles = all(len(row) == 1 or _title(row) for row in lead)
    if titles or apart:  # names that are there twice are refused as such
        return place if _names(rows[place], least=0.5) else 0
    return place if contrast(rows, place) else 0


def _title(row: Row) -> bool:
    """Whether a record has one text at most, and delimiters behind it, as Excel writes titles."""
    return len(row) > _PAIR and sum(map(bool, row)) <= 1


def _names(row: Row, least: float = 1) -> bool:
    """Whether a record looks like a header: texts, few of them empty, such a share different."""
    names = [cell for cell in row if cell]
    return (
        2 * len(names) > len(row)
        and len(set(names)) >= least * len(names)
        and not any(map(is_typed, names))
    )


def contrast(rows: Sequence[Row], place: int) -> bool:
    """Whether names stand above at least one column of numbers or dates."""
    if place >= len(rows) or not _names(rows[place]):
        return False
    width = len(rows[place])
    body = [row for row in rows[place + 1 : place + _ROWS] if len(row) == width]
    return any(_column([row[n] for row in body]) for n in range(width))
