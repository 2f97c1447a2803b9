"""Dialect of a CSV file, the options that set it, and formats of its numbers and dates."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_ENCODINGS = {"cp1252": "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}

_SPACES = dict.fromkeys("\u00a0\u202f\u2009", " ")
_THOUSANDS = {"", ".", ",", " ", "'"}


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The dialect of one CSV file: delimiter, quote, header, encoding; see also `CsvOptions`.

    Attributes:
        skip_rows: lines before the header, Excel's `sep=` line included.
        encoding: of the file as it is stored; lakeport reads a UTF-8 copy of other encodings.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    comment: str = ""
    null_values: tuple[str, ...] = ("", "NA")
    skip_rows: int = 0
    header: bool = True
    encoding: str = "utf-8"

    @classmethod
    def from_options(cls, options: CsvOptions) -> CsvDialect:
        """Return the dialect that options give without detection: defaults replace each None."""
        plain = options.with_defaults()
        return cls(**{field.name: getattr(plain, field.name) for field in fields(cls)})

    @property
    def is_native(self) -> bool:
        """Whether the compiled kernel can read this dialect: it has no escape and no comments."""
        return not (self.escape or self.comment)

    def describe_differences(self, expected: CsvDialect) -> tuple[str, ...]:
        """Return a phrase for each part of this dialect that differs from `expected`; () for none.

        Null values, escape and comment are not compared.

        >>> found = CsvDialect(delimiter=";", quote="", encoding="cp1252")
        >>> found.describe_differences(CsvDialect())
        ("delimiter ';'", 'no quotes', 'Windows-1252')
        """
        words = []
        if self.delimiter != expected.delimiter:
            words.append(f"delimiter {_format_character(self.delimiter)}")
        if self.quote != expected.quote:
            words.append(f"quote {_format_character(self.quote)}" if self.quote else "no quotes")
        name = codecs.lookup(self.encoding).name
        if name != codecs.lookup(expected.encoding).name:
            words.append(_ENCODINGS.get(name, name.upper()))
        if self.skip_rows != expected.skip_rows:
            lines = "line" if self.skip_rows == 1 else "lines"
            words.append(f"{self.skip_rows} {lines} skipped")
        if self.header != expected.header:
            words.append("header" if self.header else "no header")
        return tuple(words)

    def __str__(self) -> str:
        """Return the delimiter and the quote in words, for messages about a record."""
        quote = f"quote {_format_character(self.quote)}" if self.quote else "no quotes"
        return f"delimiter {_format_character(self.delimiter)}, {quote}"


def _format_character(character: str) -> str:
    """Return a character in quotes, and `tab` for a tab."""
    return {"\t": "tab"}.get(character, repr(character))


@dataclass(frozen=True, slots=True)
class CsvOptions:
    r"""Dialect and value formats of a CSV source; lakeport detects each None, file by file.

    Attributes:
        header: whether the first record names the columns; without it they are `column_1`, ...
        delimiter: ASCII character between fields; `\t` may be written out. Always a tab for `.tsv`.
        quote: ASCII character around fields, written twice inside them; empty for none.
        escape: ASCII character before a literal one, such as a quote; empty for none.
        encoding: encoding known to Python, such as latin-1; a byte order mark of UTF-8 is left out.
        null_values: unquoted text that means null. A quoted one is text in a text column; an empty
            field, quoted or not, is null in a column of any other type.
        skip_rows: lines before the header, or before the first record, to leave out.
        infer_types: False makes every undeclared column text.
        comment: ASCII character at the start of lines to leave out; empty for none.
        columns: column names in order, for a file without a header.
        decimal: decimal mark, `.` or `,`.
        thousands: mark between groups of digits: `.`, `,`, a space, `'`, or empty for none.
        currency: sign or code of the amounts in columns that are declared as numbers, such as `€`,
            `EUR` or `%`. The numbers land without it.
        date_format: format of dates, such as `%d/%m/%Y`, in the directives of `strptime` for
            numbers; a time of day may follow. ISO dates are read, too.
        detect: False takes the plain default for all that is None: comma, `"`, UTF-8, a header,
            no lines to skip, decimal point, ISO dates.
    """

    header: bool | None = None
    delimiter: str | None = None
    quote: str | None = None
    escape: str = ""
    encoding: str | None = None
    null_values: tuple[str, ...] = ("", "NA")
    skip_rows: int | None = None
    infer_types: bool = True
    comment: str = ""
    columns: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    currency: str | None = None
    date_format: str | None = None
    detect: bool = True

    def __post_init__(self) -> None:
        """Raise ConfigError for an invalid value; normalise `delimiter` and `thousands`."""
        if self.delimiter == "\\t":
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None:
            _check_character("delimiter", self.delimiter)
        quote = CsvDialect().quote if self.quote is None else self.quote
        marks = {"quote": quote, "escape": self.escape, "comment": self.comment}
        for name, value in marks.items():
            if value:
                _check_character(name, value)
        used = [c for c in (self.delimiter, *marks.values()) if c]
        if len(set(used)) < len(used):
            raise ConfigError(
                "delimiter, quote, escape and comment of a CSV source must differ",
                "set `quote` to '' if fields are not quoted.",
            )
        if self.skip_rows is not None and self.skip_rows < 0:
            raise ConfigError(f"skip_rows is {self.skip_rows}", "it counts lines, from 0.")
        self._check_columns()
        self._check_number_marks()
        if self.date_format is not None:
            check_date_format(self.date_format)
        try:
            io.TextIOWrapper(io.BytesIO(), self.encoding or "utf-8")
        except LookupError:
            raise ConfigError(
                f"encoding {self.encoding!r} is unknown", "for example utf-8, cp1252, utf-16."
            ) from None

    def _check_columns(self) -> None:
        """Raise ConfigError if `columns` has an empty or repeated name, or `header` is true."""
        if not self.columns:
            return
        if self.header:
            raise ConfigError(
                "`columns` names the columns of a file without a header, and `header` is true",
                "leave one of them out.",
            )
        names = [name.lower() for name in self.columns]
        if "" in names or len(set(names)) < len(names):
            raise ConfigError(
                "`columns` has a name that is empty, or the same one twice",
                "tables treat names that differ only in case as one.",
            )

    def _check_number_marks(self) -> None:
        """Raise ConfigError for bad marks or `currency`; replace typographic spaces."""
        currency = self.currency
        if currency is not None and (not currency.strip() or re.search(r"[\d(),+-]", currency)):
            raise ConfigError(
                f"currency {currency!r} is not usable", "it is a sign or a code, such as € or EUR."
            )
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"decimal mark {self.decimal!r} is not usable", "it is . or ,")
        if self.thousands is None:
            return
        plain = {**_SPACES, "\u2019": "'"}.get(self.thousands, self.thousands)
        object.__setattr__(self, "thousands", plain)
        if plain not in _THOUSANDS:
            raise ConfigError(
                f"thousands separator {self.thousands!r} is not usable",
                "it is . or , or a space or ' or empty for none.",
            )
        if plain and plain == self.decimal:
            raise ConfigError(
                f"decimal mark and thousands separator are both {plain!r}", "change one of them."
            )

    def with_defaults(self) -> CsvOptions:
        """Return these options with each None replaced by its default: nothing is detected."""
        plain = CsvDialect()
        return replace(
            self,
            header=self.header if self.header is not None else not self.columns,
            delimiter=self.delimiter or plain.delimiter,
            quote=plain.quote if self.quote is None else self.quote,
            encoding=self.encoding or plain.encoding,
            skip_rows=self.skip_rows or 0,
            decimal=self.decimal or ("," if self.thousands == "." else "."),
            thousands=self.thousands or "",
            date_format=self.date_format or ISO_DATE,
        )


def _check_character(option: str, value: str) -> None:
    """Raise ConfigError unless the value is one ASCII character other than a line break."""
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ConfigError(
            f"{option} {value!r} of a CSV source is not usable",
            "it has to be one ASCII character other than a line break.",
        )


_SEPARATOR_PATTERNS = {".": r"\.", ",": ",", " ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
_DECIMAL_MARKS = {".": "point", ",": "comma"}
_SEPARATORS = {" ": "a space", "'": "an apostrophe"}

ISO_DATE = "%Y-%m-%d"
"""The date format of ISO 8601, which readers accept in every column of dates."""

_DIRECTIVES = {
    "%Y": "[0-9]{4}",
    "%y": "[0-9]{2}",
    "%m": "[0-9]{1,2}",
    "%d": "[0-9]{1,2}",
    "%H": "[0-9]{1,2}",
    "%M": "[0-9]{2}",
    "%S": "[0-9]{2}",
    "%f": "[0-9]{1,6}",
}
_DATE_DIRECTIVES = ("%m", "%d")
_TIME_DIRECTIVES = ("%H", "%M", "%S", "%f")
_TIME_OF_DAY = r"[ T]([0-9]{1,2}):([0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?"


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Format of numbers: a decimal mark, and perhaps a separator between groups of three digits.

    Attributes:
        decimal: `.` or `,`.
        thousands: the separator of groups, or empty; a space stands for the unbreakable ones,
            an apostrophe for the typographic one, too.
    """

    decimal: str
    thousands: str

    def describe(self, *, is_whole: bool) -> tuple[str, ...]:
        """Name the decimal mark and separator in phrases for the report; empty for plain numbers.

        Whole numbers (`is_whole`) show no decimal mark.
        """
        plain = is_whole or self == PLAIN_NUMBER
        mark = () if plain else (f"decimal {_DECIMAL_MARKS[self.decimal]}",)
        groups = _SEPARATORS.get(self.thousands, repr(self.thousands))
        return (*mark, f"thousands {groups}") if self.thousands else mark

    @property
    def pattern(self) -> str:
        """A regular expression that all texts in this format match."""
        return f"^[+-]?{self.digits}(?:[eE][+-]?[0-9]+)?$"

    @property
    def digits(self) -> str:
        """A regular expression of numbers in this format, without sign and exponent."""
        grouped = ""
        if self.thousands:
            grouped = f"[0-9]{{1,3}}(?:{_SEPARATOR_PATTERNS[self.thousands]}[0-9]{{3}})+|"
        return f"(?:{grouped}[0-9]+)(?:{_SEPARATOR_PATTERNS[self.decimal]}[0-9]+)?"

    def normalize(self, texts: pa.StringArray) -> pa.StringArray:
        """Rewrite texts that match `pattern` with a decimal point and no thousands separators."""
        import pyarrow.compute as pc

        if self.thousands:
            texts = pc.replace_substring_regex(texts, _SEPARATOR_PATTERNS[self.thousands], "")
        return pc.replace_substring(texts, self.decimal, ".")


PLAIN_NUMBER = NumberFormat(".", "")
"""Plain numbers; as in every format, spaces around them are left out."""

NUMBER_FORMATS = (
    NumberFormat(",", ""),
    NumberFormat(",", "."),
    NumberFormat(",", " "),
    NumberFormat(",", "'"),
    PLAIN_NUMBER,
    NumberFormat(".", ","),
    NumberFormat(".", " "),
    NumberFormat(".", "'"),
)
"""All number formats that inference tries; the narrower before the wider ones."""


MINUS = "\u2212\u2013-"
"""Minus signs of amounts: two typographic ones, and the hyphen."""

_SPACE = "[ \u00a0\u2009\u202f]*"


@dataclass(frozen=True, slots=True)
class AmountFormat:
    """Format of amounts: numbers with a currency or `%`, in parentheses or with a minus behind.

    Attributes:
        unit: the sign or code that a text may have, such as `€`, `EUR` or `%`; may be empty.
        number: the format of the numbers themselves.
    """

    unit: str
    number: NumberFormat = PLAIN_NUMBER

    def describe(self, *, is_whole: bool) -> tuple[str, ...]:
        """Name the marks of the numbers; see `NumberFormat.describe`."""
        return self.number.describe(is_whole=is_whole)

    @property
    def pattern(self) -> str:
        """A regular expression that all texts in this format match."""
        unit, digits, space = f"(?:{re.escape(self.unit)})?", self.number.digits, _SPACE
        amount = f"(?:{unit}{space}{digits}|{digits}{space}{unit})"
        forms = (
            f"(?:[+{MINUS}]{space})?{amount}",
            f"{unit}{space}[+{MINUS}]{space}{digits}",
            f"{amount}{space}[{MINUS}]",
            f"{digits}{space}[{MINUS}]{space}{unit}",
            rf"\({space}{amount}{space}\)",
            rf"{unit}{space}\({space}{digits}{space}\){space}{unit}",
        )
        return f"^(?:{'|'.join(forms)})$"

    def normalize(self, texts: pa.StringArray) -> pa.StringArray:
        """Rewrite texts that match `pattern` as plain numbers; `5 %` becomes `5`."""
        return self.number.normalize(self.strip(texts))

    def strip(self, texts: pa.StringArray) -> pa.StringArray:
        """Leave out the unit, and put a minus in front where there are parentheses or a minus."""
        import pyarrow.compute as pc

        minus = pc.if_else(pc.match_substring_regex(texts, f"[({MINUS}]"), "-", "")
        if self.unit:
            texts = pc.replace_substring(texts, self.unit, "")
        texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, f"[()+{MINUS}]", ""))
        return pc.binary_join_element_wise(minus, texts, "")


@dataclass(frozen=True, slots=True)
class DateFormat:
    """Format of dates in `strptime` notation, such as `%d.%m.%Y`; a time of day may follow."""

    format: str

    def describe(self, *, is_whole: bool) -> tuple[str, ...]:
        """Return a phrase on the date format for the report; `is_whole` is ignored."""
        return (f"dates {self.format}",)

    @property
    def pattern(self) -> str:
        """A regular expression that all texts in this format match."""
        return f"^{_compile_date_format(self.format)[0]}(?:{_time_pattern(self.format)})?$"

    def normalize(self, texts: pa.StringArray) -> pa.StringArray:
        """Rewrite texts that match `pattern` as ISO 8601; years `69` to `99` mean 1969 to 1999."""
        import pyarrow.compute as pc

        pattern, iso, groups = _compile_date_format(self.format)
        plain = pc.replace_substring_regex(texts, f"^{pattern}$", iso)
        if time := _time_pattern(self.format):
            hour, minute, rest = (rf"\{groups + n}" for n in (1, 2, 3))
            stamp = f"{iso}T0{hour}:{minute}{rest}"
            plain = pc.replace_substring_regex(plain, f"^{pattern}{time}$", stamp)
        plain = pc.replace_substring_regex(plain, "([-T])0([0-9]{2})", r"\1\2")
        if "%y" in self.format:  # POSIX: 69 to 99 are of the 20th century
            plain = pc.replace_substring_regex(plain, "^20(69|[7-9][0-9])-", r"19\1-")
        return plain


Format = NumberFormat | AmountFormat | DateFormat
"""The format of the texts of a column of numbers or dates."""


def _time_pattern(format: str) -> str:  # noqa: A002
    """Return the regular expression of a time behind a date; empty if `format` has a time."""
    return "" if any(directive in format for directive in _TIME_DIRECTIVES) else _TIME_OF_DAY


@lru_cache
def _compile_date_format(format: str) -> tuple[str, str, int]:  # noqa: A002
    """Return a `strptime` format's regex, its matches' ISO 8601 replacement, and group count."""
    found = re.findall("%.", format)
    at = {part: rf"\{number}" for number, part in enumerate(found, start=1)}
    parts = re.split("(%.)", format)
    pattern = "".join(f"({_DIRECTIVES[p]})" if p in _DIRECTIVES else re.escape(p) for p in parts)
    year = at.get("%Y") or f"20{at['%y']}"
    iso = f"{year}-0{at['%m']}-0{at['%d']}"
    if "%H" in at:
        iso += f"T0{at['%H']}:{at.get('%M', '00')}:{at.get('%S', '00')}"
        iso += f".{at['%f']}" if "%f" in at else ""
    return pattern, iso, len(found)


def check_date_format(format: str) -> None:  # noqa: A002
    """Raise ConfigError unless a `strptime` format has a numeric year, month and day."""
    found = re.findall("%.?", format)
    years = [part for part in found if part in ("%Y", "%y")]
    is_whole_date = len(years) == 1 and all(part in found for part in _DATE_DIRECTIVES)
    times = [part for part in _TIME_DIRECTIVES if part in found]
    if (
        not is_whole_date
        or len(set(found)) < len(found)
        or any(part not in _DIRECTIVES for part in found)
        or times != [*_TIME_DIRECTIVES[: len(times)]]
    ):
        raise ConfigError(
            f"date format {format!r} is none that can be read",
            "such as %d/%m/%Y or %d.%m.%y %H:%M: year (%Y, or %y of two digits), month (%m) and "
            "day (%d), and perhaps hour, minute, second (%H %M %S) and fraction (%f).",
        )


def read_numbered_rows(text: str, dialect: CsvDialect) -> list[tuple[int, list[str]]]:
    r"""Parse CSV text; return pairs of line number, from 0, and record. Null values become empty.

    A blank line is a record without fields.

    >>> read_numbered_rows("a;b\n\nNA;1", CsvDialect(delimiter=";"))
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
