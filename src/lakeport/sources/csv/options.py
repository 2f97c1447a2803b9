"""How a CSV source is written: what its user says of delimiter, quotes, header and the like."""

from __future__ import annotations

import io
from dataclasses import dataclass

from lakeport.errors import ConfigError

__all__ = ["CsvOptions"]


@dataclass(frozen=True, slots=True)
class CsvOptions:
    r"""How a CSV source is written.

    Attributes:
        header: whether the first record names the columns; without it they are `column_1`, ...
        delimiter: one ASCII character; `\t` may be written out. None: comma, tab for `.tsv`.
        quote: one ASCII character, or empty for none. Inside quotes it is written twice.
        escape: one ASCII character that takes the next one literally, or empty for none.
        encoding: any that Python knows; a UTF-8 byte order mark is left out.
        null_values: unquoted fields that mean null. A quoted one is text in a text column; an
            empty field, quoted or not, is null in a column of any other type.
        skip_rows: lines before the header (or the first record) to leave out.
        infer_types: False makes every undeclared column text.
    """

    header: bool = True
    delimiter: str | None = None
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    null_values: tuple[str, ...] = ("", "NA")
    skip_rows: int = 0
    infer_types: bool = True

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: a value is none that CSV can be read with.
        """
        if self.delimiter == "\\t":
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None:
            _check_character("delimiter", self.delimiter)
        for name, value in (("quote", self.quote), ("escape", self.escape)):
            if value:
                _check_character(name, value)
        used = [c for c in (self.delimiter, self.quote, self.escape) if c]
        if len(set(used)) < len(used):
            raise ConfigError(
                "delimiter, quote and escape of a CSV source must differ",
                "set `quote` to '' if fields are not quoted.",
            )
        if self.skip_rows < 0:
            raise ConfigError(f"skip_rows is {self.skip_rows}", "it counts lines, from 0.")
        try:
            io.TextIOWrapper(io.BytesIO(), self.encoding)
        except LookupError:
            raise ConfigError(
                f"encoding {self.encoding!r} is unknown", "for example utf-8, latin-1, utf-16."
            ) from None


def _check_character(name: str, value: str) -> None:
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ConfigError(
            f"{name} {value!r} of a CSV source is not usable",
            "it has to be one ASCII character other than a line break.",
        )
