"""What a CSV file's beginning tells of how it is written.

Whoever is not sure takes the first record for the header.

They change nothing, and hold no value of a record but for words that programs write for null.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from lakeport.sources.csv.dialect import CsvDialect, CsvOptions
from lakeport.sources.csv.reader import record_end

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

SAMPLE_BYTES = 1 << 16
"""How much of a file is looked at."""

_DELIMITERS = (",", ";", "\t", "|")
_RARE = ("~", "^", "\x01", "\x1f")  # hardly ever in texts; only where all records have as many
_SEPARATOR = re.compile(r'\A"?sep=(.)"?[ ,;\t]*(?:\r?\n|\Z)', re.IGNORECASE)
_BODY = 0.8  # of the records from the first to the last regular one are regular,
_BELOW_HEADER = 0.5  # or so many, where the very first one is
_TYPED_ROWS = 100
_LONE = 3  # so many quotes that are never closed are none

_DOUBTED_DELIMITERS = ";,\t|:#!*/ "
_WORDS = 2  # in each record are a habit of names
_FIRST = 20  # values tell whether there is any doubt
_LEAST = 2  # other values beside which one is odd
_ODD = 0.05
_DOUBTED_CODE = re.compile(r"\+|-?0[0-9]|-?[0-9]{16,}|[0-9]{3}(?:[ .\u00a0\u2009\u202f][0-9]{3})+$")
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_SHORT_DATE = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2[0-9]{2}(?: .*)?")
_MONTHS = 12
_NULLS = {"null", "none", "nil", "nan", "n/a", "#n/a", "n.a.", "k.a.", "n.v.", "s/o", "nd"}

_SIGNED = re.compile(
    r"(?P<space>\s*)(?P<open>\()?(?P<minus>[-\u2212]\s?)?(?P<before>[€$£¥]|[A-Z]{3}\s)?\s?-?"
    r"(?P<number>[0-9][0-9.,'\u2019 \u00a0\u2009\u202f]*[0-9]|[0-9])"
    r"\s?(?P<after>[€$£¥%‰]|[A-Z]{3})?(?P<behind>-)?(?(open)\))(?P<end>\s*)"
)


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
        dialect = CsvDialect(delimiter, quote, self.options.escape, null_values=())
        for line, row in numbered_rows(self.text, dialect):
            if row and not self._comment(row[0]):
                rows.append(row)
                lines.append(line)
        if not self.ended and rows:
            del rows[-1], lines[-1]
        return _Cut(delimiter, quote, rows, lines, not quote or self._closed(delimiter, quote))

    def _comment(self, cell: str) -> bool:
        return bool(self.options.comment) and cell.startswith(self.options.comment)

    def _closed(self, delimiter: str, quote: str) -> bool:
        dialect = CsvDialect(delimiter=delimiter, quote=quote, escape=self.options.escape)
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
) -> CsvDialect:
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
        marks = (CsvDialect.of(options).quote, options.escape, options.comment, "\r", "\0")
        fits = line[1].isascii() and line[1] not in marks
        delimiter = delimiter or (line[1] if fits else None)
    rest = "".join(text.split("\n", skipped)[skipped:])
    content = _Text(rest, ended, options)
    found = _cut(content, delimiter)
    if delimiter is None and found.width == 1:
        found = _rarely(content, found)
    dialect = replace(CsvDialect.of(options), delimiter=found.delimiter, quote=found.quote)
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
    return best


def _rarely(text: _Text, usual: _Cut) -> _Cut:
    """A cut by a delimiter that few programs write, where there is one."""
    taken = {usual.quote, text.options.escape, text.options.comment}
    cuts = [text.cut(d, usual.quote) for d in _RARE if d in text.text and d not in taken]
    fit = [cut for cut in cuts if cut.clean and len(cut.rows) > 1]
    return max(fit, key=lambda cut: cut.width, default=usual)


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


_NULLS |= {"(null)", "#null!", "missing", "\\n", "-", "--", "---", ".", "?", "*"}


def other_delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """Return what may delimit the fields of a file of one column, and how many these would be.

    The delimiter is empty, and the number 1, if there is none.

    >>> other_delimiter(["id:name", "1:Ada"]), other_delimiter(["name", "Ada"])
    ((':', 2), ('', 1))
    """
    widths = {
        delimiter: len(parts[0])
        for delimiter in _DOUBTED_DELIMITERS
        if len(parts := [line.split(delimiter) for line in lines]) > 1
        and len({len(fields) for fields in parts}) == 1
    }
    if widths.get(" ", 0) <= _WORDS:
        widths.pop(" ", None)
    best = max(widths, key=widths.__getitem__, default="")
    return (best, widths[best]) if widths.get(best, 1) > 1 else ("", 1)


def may_be_grouped(cells: Sequence[str]) -> bool:
    """Whether the points in numbers may all stand between groups of digits.

    >>> may_be_grouped(["1.234", "12.500"]), may_be_grouped(["1.234", "0.500"])
    (True, False)
    """
    return bool(cells) and all(map(_GROUPED.fullmatch, cells))


def why_text(name: str, cells: Sequence[tuple[int, str]], options: CsvOptions) -> str:
    """Why a column is text, and what would change that; empty if it simply is.

    Args:
        name: the column's.
        cells: its first fields that are not empty, each with its line.
        options: what the user has given.

    >>> from lakeport.sources.csv.dialect import CsvOptions
    >>> why_text("n", [(2, "1"), (3, "NULL"), (4, "2")], CsvOptions())
    "has numbers, and 'NULL': `--null-value '' --null-value NULL` makes that null"
    """
    first = [cell for _, cell in cells[:_FIRST]]
    words = {cell for cell in first if _kind(cell) == "text" and not _SIGNED.fullmatch(cell)}
    if not cells or 2 * len(words) > len(first):
        return ""
    if hint := _short_dates([cell for _, cell in cells]) or _signs([cell for _, cell in cells]):
        return hint
    kinds = [_kind(cell) for _, cell in cells]
    codes = sum(kind_of(cell) == "code" for _, cell in cells)
    if codes and codes + kinds.count("number") == len(cells):
        option = shlex.quote(f"{name}=number")
        values = "a value" if codes == 1 else f"{codes} values"
        return f"has {values} like 1E5, which may be codes: `--column {option}` makes numbers of it"
    found = {*kinds} - {"text"}
    if len(found) != 1 or "code" in found:
        return ""
    what = f"{found.pop()}s"
    odd = [cell for cell, kind in zip(cells, kinds, strict=True) if kind == "text"]
    if not odd:
        given = _given(what, options)
        return f"looks like {what}, but not all of its values can be read as such in one way{given}"
    words = {cell.strip() for _, cell in odd}
    if len(words) == 1 and (word := words.pop()).lower() in _NULLS:
        ways = f"--null-value '' --null-value {shlex.quote(word)}"
        return f"has {what}, and {word!r}: `{ways}` makes that null"
    if len(odd) > max(1, _ODD * len(cells)) or len(cells) - len(odd) < _LEAST:
        return ""
    return f"has {what}, but for line {odd[0][0]}"


def _given(what: str, options: CsvOptions) -> str:
    if what == "dates" and options.date_format is not None:
        return " by `--date-format`"
    if what == "numbers" and (options.decimal is not None or options.thousands is not None):
        return " by `--decimal` and `--thousands`"
    return ""


def _kind(cell: str) -> str:
    kind = kind_of(cell)
    if kind in ("integer", "number"):
        return "code" if _DOUBTED_CODE.match(cell) else "number"
    return kind or "text"


def _short_dates(cells: Sequence[str]) -> str:
    """Return which formats read dates with two digits for the year; empty if one is no such."""
    found = [_SHORT_DATE.fullmatch(cell) for cell in cells]
    dates = [(int(date[1]), date[2], int(date[3])) for date in found if date]
    if len(dates) < len(cells) or len({mark for _, mark, _ in dates}) > 1:
        return ""
    mark = dates[0][1]
    orders = [f"%d{mark}%m{mark}%y"] * all(month <= _MONTHS for _, _, month in dates)
    if mark != ".":
        orders += [f"%m{mark}%d{mark}%y"] * all(month <= _MONTHS for month, _, _ in dates)
    if not orders:
        return ""
    ways = " or ".join(f"`--date-format {order}`" for order in orders)
    return f"has dates with two digits for the year: {ways} reads them"


def _signs(cells: Sequence[str]) -> str:
    """Return what stands around numbers; empty if nothing does, or if one is no number."""
    signs: dict[str, None] = {}
    for cell in cells:
        parts = _SIGNED.fullmatch(cell)
        if parts is None or _DOUBTED_CODE.match(parts["number"]):
            return ""
        signs |= dict.fromkeys(
            repr(sign.strip()) for sign in (parts["before"], parts["after"]) if sign
        )
        signs |= dict.fromkeys(["parentheses"] * bool(parts["open"]))
        signs |= dict.fromkeys(["a minus behind"] * bool(parts["behind"]))
        signs |= dict.fromkeys(["a typographic minus"] * ("\u2212" in (parts["minus"] or "")))
        signs |= dict.fromkeys(["spaces around them"] * bool(parts["space"] or parts["end"]))
    return f"has numbers with {', '.join(signs)}" if signs else ""


def numbered_rows(text: str, dialect: CsvDialect) -> list[tuple[int, list[str]]]:
    r"""The records, each with the line that it begins in, from 0; blank lines have no field.

    Null values are empty fields.

    >>> numbered_rows("a;b\n\nNA;1", CsvDialect(delimiter=";"))
    [(0, ['a', 'b']), (1, []), (2, ['', '1'])]
    """
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
    )
    found, line = [], 0
    for row in reader:
        found.append((line, ["" if cell in dialect.null_values else cell for cell in row]))
        line = reader.line_num
    return found
