"""Columns' readings -> their types and formats: what is not certain stays text.

A number such as `1,234` or `1.234` is of two readings. It is settled by what other columns of the
load can only be: `0,5` tells the decimal mark, `1.234,56` the thousands separator, too. The order
of day and month is settled by the column alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lakeport.sources.csv.formats.dates import DateFormat
from lakeport.sources.csv.formats.numbers import SPACED, NumberFormat
from lakeport.sources.csv.formats.readings import Format, Readings
from lakeport.sources.csv.values import (
    ANY_KIND,
    INTEGER,
    NUMBER,
    type_of_kinds,
)

_COMMA_GROUPS = NumberFormat(".", ",")
_DOT_GROUPS = NumberFormat(",", ".")


class Choice(NamedTuple):
    """What becomes of one column.

    Attributes:
        type: of its values.
        format: how its texts are written; None for plainly.
        doubt: the option that would settle what else the texts might be; empty where it is certain.
        empty: whether there is no text at all, of which any type could be.
    """

    type: pa.DataType
    format: Format | None = None
    doubt: str = ""
    empty: bool = False


_TEXT = Choice(pa.string())
_POINT = Choice(pa.float64())


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the columns of a load tell of each other's numbers.

    Attributes:
        marks: the decimal marks that columns certainly have.
        groups: the formats that columns with groups certainly are in.
        comma: whether a comma may be a decimal mark: not for certain, where it delimits fields.
    """

    marks: frozenset[str]
    groups: frozenset[Format]
    comma: bool

    @classmethod
    def of(cls, readings: Readings, columns: Iterable[int], *, comma: bool) -> Evidence:
        """Look at all columns' readings."""
        marks: set[str] = set()
        groups: set[Format] = set()
        for column in columns:
            left = _numbers(readings, column)
            if column & INTEGER or (not left and not column & NUMBER):
                continue
            found = {format_.decimal for format_ in left} | ({"."} if column & NUMBER else set())
            if len(found) == 1:
                marks |= found
            if not column & NUMBER and len(left) == 1:
                groups |= left.keys()
        return cls(frozenset(marks), frozenset(groups), comma)


def _numbers(readings: Readings, column: int) -> dict[NumberFormat, int]:
    return {f: kinds for f, kinds in readings.within(column) if isinstance(f, NumberFormat)}


def unseen(readings: Readings, column: int, evidence: Evidence) -> bool:
    """Whether a column's readings have to be looked for in all of its texts once more."""
    if column & readings.seen or not column & readings.foreign or column & INTEGER:
        return False
    return not column & ANY_KIND or "," in evidence.marks


def choose(readings: Readings, column: int, evidence: Evidence) -> Choice:
    """The type and the format that a column's readings leave, if they leave one."""
    if column == readings.any:
        return _TEXT._replace(empty=True)
    plain = column & ANY_KIND
    if plain and plain != NUMBER:
        return Choice(type_of_kinds(plain))
    left = _numbers(readings, column)
    if plain:
        return _with_point(left, evidence)
    if left:
        return _TEXT if readings.codes(column) else _number(readings, left, evidence)
    dates = {f: kinds for f, kinds in readings.within(column) if isinstance(f, DateFormat)}
    if len(dates) == 1:
        return _of(*dates.popitem())
    return _TEXT._replace(doubt="date_format") if dates else _TEXT


def _with_point(left: Mapping[NumberFormat, int], evidence: Evidence) -> Choice:
    """Plain numbers, unless all of their points may be groups', and other columns say so."""
    if _DOT_GROUPS in left and evidence.marks == {","}:
        if _DOT_GROUPS in evidence.groups:
            return _of(_DOT_GROUPS, left[_DOT_GROUPS])
        return _TEXT._replace(doubt="thousands")
    return _POINT


def _number(readings: Readings, left: Mapping[NumberFormat, int], evidence: Evidence) -> Choice:
    if SPACED in left:
        by_point = _with_point(left, evidence)
        whole = left[SPACED] & INTEGER  # whatever the mark
        return _of(SPACED, left[SPACED]) if whole or by_point == _POINT else by_point
    marks = {format_.decimal for format_ in left}
    if len(marks) == 2 and not _same(left):
        if marks & evidence.marks == {","} and "." not in evidence.marks:
            marks = {","}
        elif _COMMA_GROUPS in evidence.groups and "," not in evidence.marks:
            marks = {"."}
        else:
            return _TEXT._replace(doubt="decimal")
    if marks == {","} and not (evidence.comma or readings.forced):
        return _TEXT._replace(doubt="decimal")
    format_ = next(f for f in left if f.decimal in marks)
    return _of(format_, left[format_])


def _same(left: Mapping[NumberFormat, int]) -> bool:
    """Whether it does not matter which: whole numbers in the same groups."""
    return len({f.thousands for f in left}) == 1 and all(k & INTEGER for k in left.values())


def _of(format_: Format, kinds: int) -> Choice:
    return Choice(type_of_kinds(kinds), format_)
