"""Which readings of a column's texts are possible, and the type and format that they leave.

Sets of readings are whole numbers, as in `lakeport.sources.csv.values`, whose kinds are the lowest
bits. Above them, each format of numbers or dates has two: by it, all texts are of its narrow type
(integer, date); they are of its wide one (number, timestamp). A set shrinks with each block of
texts, so what is left has been seen to fit every value.

What is not certain stays text. A number such as `1,234` or `1.234` is of two readings. It is
settled by what other columns of the load can only be: `0,5` tells the decimal mark, `1.234,56` the
thousands separator, too. The order of day and month is settled by the column alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.sources.csv.formats import ISO, NUMBER_FORMATS, SPACED, DateFormat, NumberFormat
from lakeport.sources.csv.values import (
    ANY_KIND,
    DATE,
    INTEGER,
    NUMBER,
    convert,
    kinds_of,
    masked,
    type_of_kinds,
)

if TYPE_CHECKING:
    from lakeport.sources.csv.dialect import CsvOptions

Format = NumberFormat | DateFormat

_DATES = tuple(
    DateFormat(text)
    for text in ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d")
)  # with dots, no country writes the month first
_FEW = 8
_CODE = "^[0-9]{3}(?:[ .\u00a0\u2009\u202f][0-9]{3})+$"

_COMMA_GROUPS = NumberFormat(".", ",")
_DOT_GROUPS = NumberFormat(",", ".")


@dataclass(frozen=True, slots=True)
class Readings:
    """The formats that a column's texts are tried in. Picklable.

    Attributes:
        formats: in the order of their bits.
        plain: the plain kinds that are possible at all.
        forced: whether the user named the decimal mark or the thousands separator.
    """

    formats: tuple[Format, ...] = ()
    plain: int = ANY_KIND
    forced: bool = False

    def named(self, type_: pa.DataType | None) -> Format | None:
        """The format that the user's options name for columns declared to be of a type."""
        if type_ is None or type_ == pa.string() or type_ == pa.bool_():
            return None
        if pa.types.is_temporal(type_):
            dates = [f for f in self.formats if isinstance(f, DateFormat)]
            return dates[0] if len(dates) == 1 else None
        numbers = [f for f in self.formats if isinstance(f, NumberFormat) and f != SPACED]
        groups = ("", ".", ",") if self.forced else ()
        fit = [f for f in numbers if f.thousands in groups or len(numbers) == 1]
        return fit[-1] if fit else None

    @classmethod
    def of(cls, options: CsvOptions) -> Readings:
        """Those that a user's options leave open."""
        numbers = tuple(
            f
            for f in NUMBER_FORMATS
            if options.decimal in (None, f.decimal) and options.thousands in (None, f.thousands)
        )
        if (options.decimal, options.thousands) == (".", ""):
            numbers = ()
        forced = options.decimal is not None or options.thousands is not None
        dates = _DATES
        if options.date_format is not None:
            dates = () if options.date_format == ISO else (DateFormat(options.date_format),)
        comma = options.decimal == "," or options.thousands == "."
        return cls(numbers + dates, ANY_KIND & ~NUMBER if comma else ANY_KIND, forced)

    @property
    def any(self) -> int:
        """The set of all readings, which only a column without a value has."""
        if not self.formats:
            return self.plain
        return self.plain | (1 << (self._code + 2)) - (ANY_KIND + 1)

    @property
    def _code(self) -> int:
        """The place of the bit that says: all texts may be codes in groups, such as 612 345 678."""
        return ANY_KIND.bit_length() + 2 * len(self.formats)

    @property
    def seen(self) -> int:
        """The bit that says: whatever is left was seen to fit every value."""
        return 1 << (self._code + 1)

    @property
    def foreign(self) -> int:
        """The bits of all formats."""
        return (1 << self._code) - (ANY_KIND + 1)

    def codes(self, readings: int) -> bool:
        """Whether all texts may be codes in groups, such as `612 345 678`."""
        return bool(readings & (1 << self._code))

    def within(self, readings: int) -> Iterator[tuple[Format, int]]:
        """The formats that are left, each with the plain kinds of what its texts say."""
        for number, (format_, lowest) in enumerate(self._places()):
            kinds = (readings >> (ANY_KIND.bit_length() + 2 * number) & 3) * lowest
            if kinds:
                yield format_, kinds

    def of_texts(self, texts: pa.StringArray, readings: int) -> int:
        """Those of `readings` that all texts of a column fit; nulls and empty texts fit all."""
        plain = kinds_of(texts, readings & ANY_KIND) if readings & ANY_KIND else 0
        return plain | self.of_foreign(texts, readings)

    def matching(self, texts: Iterable[str], readings: int) -> int:
        """Return those of `readings` whose formats a few texts look like; some may not fit."""
        found = readings & ~(ANY_KIND | self.foreign)
        filled = [text.strip() for text in texts if text]
        for number, (format_, _) in enumerate(self._places()):
            if all(map(re.compile(format_.pattern).match, filled)):
                found |= readings & (3 << ANY_KIND.bit_length() + 2 * number)
        return found

    def of_foreign(self, texts: pa.StringArray, readings: int) -> int:
        """The same without the plain kinds."""
        rest = readings & ~ANY_KIND
        if not rest & self.foreign:
            return rest
        texts = texts.filter(pc.fill_null(pc.not_equal(texts, ""), False))
        texts = pc.utf8_trim_whitespace(texts)
        for part in (texts[:_FEW], texts):
            found = rest & ~self.foreign
            ungrouped: dict[str, int] = {}  # what fits without groups fits with any
            for number, (format_, lowest) in enumerate(self._places()):
                place = ANY_KIND.bit_length() + 2 * number
                left = (rest >> place & 3) * lowest
                mark = format_.decimal if isinstance(format_, NumberFormat) else ""
                fit = ungrouped.get(mark, 0) & left or _kinds_by(format_, part, left)
                if isinstance(format_, NumberFormat) and not format_.thousands:
                    ungrouped[mark] = fit
                found |= (fit // lowest & 3) << place
            if self.codes(found) and not _all_match(part, _CODE):
                found &= ~(1 << self._code)
            rest = found
        return rest

    def beside(self, plain: int, readings: int) -> int:
        """The bits above the plain kinds, once a block's texts are known to be of these alone.

        Whole numbers are the same in all formats. What is a plain number and no whole one may
        have groups; that is not looked at here, so the bit `seen` goes.
        """
        rest = readings & ~ANY_KIND
        if not rest & self.foreign or plain == readings & ANY_KIND & self.plain == self.plain:
            return rest
        if plain & INTEGER:
            return rest & ~(self._of(DateFormat) | 1 << self._code)
        if plain & NUMBER:
            return rest & ~(self._of(DateFormat) | self.seen)
        return rest & ~self.foreign

    def _of(self, type_: type[Format]) -> int:
        places = (ANY_KIND.bit_length() + 2 * n for n in range(len(self.formats)))
        pairs = zip(self.formats, places, strict=True)
        return sum(3 << place for format_, place in pairs if isinstance(format_, type_))

    def _places(self) -> Iterator[tuple[Format, int]]:
        """The formats, with the lower one of the two plain kinds that they lead to."""
        for format_ in self.formats:
            yield format_, INTEGER if isinstance(format_, NumberFormat) else DATE


def _all_match(texts: pa.StringArray, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def _kinds_by(format_: Format, texts: pa.StringArray, kinds: int) -> int:
    if not kinds or not _all_match(texts, format_.pattern):
        return 0
    return kinds_of(format_.plain(texts), kinds)


def convert_by(
    format_: Format | None, texts: pa.StringArray, type_: pa.DataType
) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Turn texts into values of `type_`, as `lakeport.sources.csv.values.convert` does.

    Args:
        format_: how all of them are written; None for plainly.

    >>> format_ = NumberFormat(",", ".")
    >>> convert_by(format_, pa.array(["1.234,56", "1.5"]), pa.float64())[0].to_pylist()
    [1234.56, None]
    """
    if format_ is None or type_ == pa.string():
        return convert(texts, type_)
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    fits = pc.match_substring_regex(texts, format_.pattern)
    values, _ = convert(format_.plain(pc.if_else(fits, texts, None)), type_)
    return values, masked(texts, values)


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


def is_partly_seen(readings: Readings, column: int, evidence: Evidence) -> bool:
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
