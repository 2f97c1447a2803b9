"""The dialect of a CSV file, from its beginning: delimiter, quote, what precedes the header.

A delimiter is one by which all records are cut into the same number of fields. Where several do
that, the one that leaves more numbers and dates behind; the comma where nothing tells them apart.
What is not certain stays the plain default, so that the file is refused by what is odd in it.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lakeport.sources.csv.detection.heading import first_place, has_header, is_typed
from lakeport.sources.csv.dialect import Dialect
from lakeport.sources.csv.options import CsvOptions
from lakeport.sources.csv.records import record_end

SAMPLE_BYTES = 1 << 16
"""How much of a file is looked at."""

_DELIMITERS = (",", ";", "\t", "|")
_RARE = ("~", "^", "\x01", "\x1f")  # hardly ever in texts; only where all records have as many
_SEPARATOR = re.compile(r'\A"?sep=(.)"?[ ,;\t]*(?:\r?\n|\Z)', re.IGNORECASE)
_BODY = 0.8  # of the records from the first to the last regular one are regular,
_BELOW_HEADER = 0.5  # or so many, where the very first one is
_TYPED_ROWS = 100
_LONE = 3  # so many quotes that are never closed are none
_FEW = 2  # so many fields in apostrophes are a habit


class _Cut(NamedTuple):
    """A file's records as a dialect cuts them.

    Attributes:
        delimiter: of that dialect.
        quote: of that dialect.
        rows: the records with any content, as fields.
        lines: the line that each begins in, from 0.
        whole: whether no text stands behind a closing quote, and no quote is left open.
    """

    delimiter: str
    quote: str
    rows: list[list[str]]
    lines: list[int]
    whole: bool

    @property
    def width(self) -> int:
        """The number of fields that most of the content has; 1 if no record has more."""
        counts = Counter(len(row) for row in self.rows)
        cells = {width: count * (width - 1) for width, count in counts.items()}
        return max(cells, key=lambda width: (cells[width], width), default=1)

    @property
    def clean(self) -> bool:
        """Whether all records have the same number of fields, of at least two."""
        return self.whole and self.width > 1 and len({len(row) for row in self.rows}) == 1

    @property
    def regular(self) -> int:
        """How many cells the regular records have, if nearly all between them are; else 0."""
        width = self.width
        places = [n for n, row in enumerate(self.rows) if len(row) == width]
        if width == 1:
            return 0
        least = _BODY if places[0] else _BELOW_HEADER
        if len(places) < least * (places[-1] - places[0] + 1):
            return 0
        return len(places) * (width - 1) if len(places) > 1 else 0

    @property
    def typed(self) -> float:
        """The share of numbers and dates in all fields that are not empty."""
        cells = [cell for row in self.rows[:_TYPED_ROWS] for cell in row if cell]
        return sum(map(is_typed, cells)) / max(1, len(cells))


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of a sample, and what of its dialect is known."""

    text: str
    ended: bool
    options: CsvOptions

    def cut(self, delimiter: str, quote: str) -> _Cut:
        """The sample's records by a delimiter and a quote."""
        rows, lines = [], []
        reader = csv.reader(
            io.StringIO(self.text, newline=""),
            delimiter=delimiter,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            escapechar=self.options.escape or None,
        )
        at = 0
        for row in reader:
            if row and not self._comment(row[0]):
                rows.append(row)
                lines.append(at)
            at = reader.line_num
        if not self.ended and rows:
            del rows[-1], lines[-1]
        return _Cut(delimiter, quote, rows, lines, not quote or self._closed(delimiter, quote))

    def _comment(self, cell: str) -> bool:
        return bool(self.options.comment) and cell.startswith(self.options.comment)

    def _closed(self, delimiter: str, quote: str) -> bool:
        dialect = Dialect(delimiter=delimiter, quote=quote, escape=self.options.escape)
        end = record_end(self.text.encode(), dialect)
        return not end.stray and not (end.torn and self.ended)

    def opening(self, delimiter: str, quote: str) -> int:
        """How many fields begin with a quote."""
        start = rf"(?:^|{re.escape(delimiter)}){quote}"
        return len(re.findall(start, self.text, re.MULTILINE))

    def closing(self, delimiter: str, quote: str) -> bool:
        """Whether any field is quoted within one line."""
        between = re.escape(delimiter)
        field = rf"(?:^|{between}){quote}[^{quote}\n]*{quote}(?:{between}|\r?$)"
        return re.search(field, self.text, re.MULTILINE) is not None


def sniffed(
    sample: bytes, options: CsvOptions, *, ended: bool, declared: Collection[str] = ()
) -> Dialect:
    """The dialect of a plain UTF-8 file: what is given, and what its beginning tells of the rest.

    Args:
        sample: the file's beginning.
        options: what is given.
        ended: whether that is all of the file.
        declared: columns that the user has declared.
    """
    text = sample.decode("utf-8", "replace").lstrip("\ufeff")
    if not ended:
        text = text[: text.rfind("\n") + 1] or text
    delimiter, skipped = options.delimiter, options.skip_rows or 0
    if options.skip_rows is None and (line := _SEPARATOR.match(text)):
        skipped = 1
        marks = (Dialect.of(options).quote, options.escape, options.comment, "\r", "\0")
        fits = line[1].isascii() and line[1] not in marks
        delimiter = delimiter or (line[1] if fits else None)
    rest = "".join(text.split("\n", skipped)[skipped:])
    content = _Text(rest, ended, options)
    found = _cut(content, delimiter)
    if delimiter is None and found.width == 1:
        found = _rarely(content, found)
    dialect = replace(Dialect.of(options), delimiter=found.delimiter, quote=found.quote)
    place = 0
    if options.skip_rows is None and found.width > 1 and not re.search(r"\r(?!\n)", rest):
        place = first_place(found.rows, found.lines, found.width)
        skipped += found.lines[place] if place else 0
    header = dialect.header
    if options.header is None and not options.columns:
        header = _has_header(found, place, declared)
    return replace(dialect, skip_rows=skipped, header=header)


def _has_header(found: _Cut, place: int, declared: Collection[str]) -> bool:
    rows = found.rows[place:]
    width = len(rows[0]) if rows else 0
    if found.width > 1 and width != found.width:
        return True
    return has_header([row for row in rows if len(row) == width], declared)


def _cut(text: _Text, delimiter: str | None) -> _Cut:
    options = text.options
    taken = {options.quote, options.escape, options.comment}
    delimiters = [d for d in _DELIMITERS if d not in taken and d in text.text]
    if "," not in delimiters and "," not in taken:
        delimiters.insert(0, ",")
    delimiters = [delimiter] if delimiter else delimiters
    quote = '"' if options.quote is None else options.quote
    if quote in delimiters and options.quote is None:
        quote = ""
    best = _best([text.cut(d, quote) for d in delimiters])
    if options.quote is not None or not quote:
        return best
    if text.opening(best.delimiter, quote):
        bare = _best([text.cut(d, "") for d in delimiters])
        lone = not best.whole and not text.closing(bare.delimiter, quote)
        return (
            bare if lone and bare.clean and text.opening(bare.delimiter, quote) >= _LONE else best
        )
    if "'" in delimiters or "'" in taken or text.opening(best.delimiter, "'") < _FEW:
        return best
    single = _best([text.cut(d, "'") for d in delimiters])
    return single if single.whole and _single_quoted(single, best) else best


def _rarely(text: _Text, usual: _Cut) -> _Cut:
    """A cut by a delimiter that few programs write, where there is one."""
    taken = {usual.quote, text.options.escape, text.options.comment}
    cuts = [text.cut(d, usual.quote) for d in _RARE if d in text.text and d not in taken]
    fit = [cut for cut in cuts if cut.clean and len(cut.rows) > 1]
    return max(fit, key=lambda cut: cut.width, default=usual)


def _single_quoted(single: _Cut, best: _Cut) -> bool:
    """Whether apostrophes are quotes: only so all records are regular, or a column has them all."""
    if single.clean and not best.clean:
        return True
    cells = [cell for row in best.rows for cell in row if cell.startswith("'")]
    if single.delimiter != best.delimiter or not all(map(_in_apostrophes, cells)):
        return False
    width = best.width
    columns = zip(*(row for row in best.rows[1:] if len(row) == width), strict=True)
    full = [[cell for cell in column if cell] for column in columns]
    return any(len(column) >= _FEW and all(map(_in_apostrophes, column)) for column in full)


def _in_apostrophes(cell: str) -> bool:
    return len(cell) > 1 and cell.startswith("'") and cell.endswith("'")


def _best(cuts: Sequence[_Cut]) -> _Cut:
    """The cut by which most is regular; the first one of several."""
    if clean := [cut for cut in cuts if cut.clean]:
        return max(clean, key=lambda cut: cut.typed)
    usual = cuts[0]
    one_column = all(len(row) == 1 for row in usual.rows) or usual.delimiter != ","
    fit = [
        cut
        for cut in cuts
        if cut.regular and (cut is usual or not one_column or cut.width > 2 or cut.typed)
    ]
    return max(fit, key=lambda cut: cut.regular, default=usual)
