"""Which readings of a column's texts are possible: plain ones, and those of other countries.

Sets of readings are whole numbers, as in `lakeport.sources.csv.values`, whose kinds are the lowest
bits. Above them, each format of numbers or dates has two: by it, all texts are of its narrow type
(integer, date); they are of its wide one (number, timestamp). A set shrinks with each block of
texts, so what is left has been seen to fit every value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.sources.csv.formats.dates import ISO, DateFormat
from lakeport.sources.csv.formats.numbers import NUMBER_FORMATS, SPACED, NumberFormat
from lakeport.sources.csv.values import (
    ANY_KIND,
    DATE,
    INTEGER,
    NUMBER,
    convert,
    kinds_of,
    masked,
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
        """Those formats in `readings` that a few texts look like; some may not fit in the end."""
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
