"""How one CSV file is written: given by its user, or found out."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeport.sources.csv.options import CsvOptions

_ENCODINGS = {"cp1252": "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}


@dataclass(frozen=True, slots=True)
class Dialect:
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
    def of(cls, options: CsvOptions) -> Dialect:
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

    def differences(self, plain: Dialect) -> tuple[str, ...]:
        """In words, what another dialect, the expected one, has otherwise.

        >>> Dialect(delimiter=";", quote="", encoding="cp1252").differences(Dialect())
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
