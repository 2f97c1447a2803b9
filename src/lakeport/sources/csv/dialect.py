"""How one CSV file is written: given by its user, or found out."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass, replace

from lakeport.errors import ConfigError
from lakeport.sources.csv.formats import check_date_format

_ENCODINGS = {"cp1252": "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}

_SPACES = dict.fromkeys("\u00a0\u202f\u2009", " ")
_THOUSANDS = {"", ".", ",", " ", "'"}


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How one CSV file is written; `CsvOptions` describes the parts.

    Attributes:
        skip_rows: lines before the header, Excel's `sep=` line included.
        encoding: of the file as it is stored; it is read as UTF-8.
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
    def of(cls, options: CsvOptions) -> CsvDialect:
        """The dialect of a file of which nothing was found out."""
        plain = options.settled()
        return cls(
            delimiter=plain.delimiter or ",",
            quote=plain.quote or "",
            escape=plain.escape,
            comment=plain.comment,
            null_values=plain.null_values,
            skip_rows=plain.skip_rows or 0,
            header=bool(plain.header),
            encoding=plain.encoding or "utf-8",
        )

    @property
    def native(self) -> bool:
        """Whether the kernel reads it."""
        return not (self.escape or self.comment)

    def differences(self, plain: CsvDialect) -> tuple[str, ...]:
        """In words, what another dialect, the expected one, has otherwise.

        >>> CsvDialect(delimiter=";", quote="", encoding="cp1252").differences(CsvDialect())
        ("delimiter ';'", 'no quotes', 'Windows-1252')
        """
        words = []
        if self.delimiter != plain.delimiter:
            words.append(f"delimiter {_named(self.delimiter)}")
        if self.quote != plain.quote:
            words.append(f"quote {_named(self.quote)}" if self.quote else "no quotes")
        name = codecs.lookup(self.encoding).name
        if name != codecs.lookup(plain.encoding).name:
            words.append(_ENCODINGS.get(name, name.upper()))
        if self.skip_rows != plain.skip_rows:
            lines = "line" if self.skip_rows == 1 else "lines"
            words.append(f"{self.skip_rows} {lines} skipped")
        if self.header != plain.header:
            words.append("header" if self.header else "no header")
        return tuple(words)

    def __str__(self) -> str:
        """In words, what a message about a record has to say."""
        quote = f"quote {_named(self.quote)}" if self.quote else "no quotes"
        return f"delimiter {_named(self.delimiter)}, {quote}"


def _named(character: str) -> str:
    return {"\t": "tab"}.get(character, repr(character))


@dataclass(frozen=True, slots=True)
class CsvOptions:
    r"""How a CSV source is written. What is None is found out by looking at each file.

    Attributes:
        header: whether the first record names the columns; without it they are `column_1`, ...
        delimiter: one ASCII character; `\t` may be written out. Always a tab for `.tsv`.
        quote: one ASCII character, or empty for none. Inside quotes it is written twice.
        escape: one ASCII character that takes the next one literally, or empty for none.
        encoding: any that Python knows; a UTF-8 byte order mark is left out.
        null_values: unquoted fields that mean null. A quoted one is text in a text column; an
            empty field, quoted or not, is null in a column of any other type.
        skip_rows: lines before the header (or the first record) to leave out.
        infer_types: False makes every undeclared column text.
        comment: one ASCII character; lines that begin with it are left out. Empty for none.
        columns: names for a file without a header, in order.
        decimal: the decimal mark, `.` or `,`.
        thousands: what groups digits: `.`, `,`, a space, `'`, or empty for nothing.
        date_format: how dates are written, in the directives of `strptime` for numbers, such as
            `%d/%m/%Y`; a time of day may follow. ISO dates are read besides.
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
    date_format: str | None = None
    detect: bool = True

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: a value is none that CSV can be read with.
        """
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
        self._check_numbers()
        if self.date_format is not None:
            check_date_format(self.date_format)
        try:
            io.TextIOWrapper(io.BytesIO(), self.encoding or "utf-8")
        except LookupError:
            raise ConfigError(
                f"encoding {self.encoding!r} is unknown", "for example utf-8, cp1252, utf-16."
            ) from None

    def _check_columns(self) -> None:
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

    def _check_numbers(self) -> None:
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

    def settled(self) -> CsvOptions:
        """The same options with the plain default for all that is None: nothing is found out."""
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
            date_format=self.date_format or "%Y-%m-%d",
        )


def _check_character(name: str, value: str) -> None:
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ConfigError(
            f"{name} {value!r} of a CSV source is not usable",
            "it has to be one ASCII character other than a line break.",
        )
