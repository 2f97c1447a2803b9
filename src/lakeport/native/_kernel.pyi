"""The compiled module."""

from collections.abc import Sequence
from typing import Any, Literal, final

from typing_extensions import Buffer

Spec = tuple[str, str, Any]
"""A column, the items of a list, or a member of an object: name, kind, detail.

| kind | detail |
|---|---|
| `integer`, `number`, `boolean`, `string`, `timestamp`, `date`, `binary` | None |
| `null`, `small` | None: nothing but nulls, or integers below 2^53; the values are not kept |
| `decimal` | precision and scale |
| `json` | the brackets with which a text may begin that is stored as the JSON in it; empty: any |
| `mixed` | None: texts as they are, anything else as its JSON |
| `list` | the items' Spec |
| `struct` | the members' Specs |
"""

Parts = tuple[int, int, Sequence[Buffer | None], Sequence["Parts"]]
"""A column: rows, nulls, its Arrow buffers, and its children's parts."""

SOURCES: str
"""SHA-256 of the sources that this was built from."""

@final
class Parser:
    """Parser of blocks of JSON lines of one layout.

    Args:
        columns: the columns to read.
        required: places of the columns without which a record is bad.
        envelope: whether the lines are Singer messages, with the record as the member `record`.
        message_keys: keys of messages, and the places of the columns that their values go into.
        unknown: what to do with undeclared fields: `refuse` stops at the line; `drop` skips them;
            `tell` reports those of records, and stops at those inside an object column.
        nameless: whether `tell` reports an undeclared field with an empty name, too.
        plain: whether values count as written: no texts that hold a list or an object, no integers
            with a point, and none from 2^53 on among numbers, no dates with a time.
    """

    def __new__(
        cls,
        columns: Sequence[Spec],
        required: Sequence[int] = (),
        envelope: bool = False,
        message_keys: Sequence[tuple[str, int]] = (),
        unknown: Literal["refuse", "drop", "tell"] = "refuse",
        nameless: bool = False,
        plain: bool = False,
    ) -> Parser: ...
    def parse(
        self, data: bytes, start: int
    ) -> tuple[int, int, Sequence[Parts], tuple[int, str] | None, Sequence[tuple[str, str, int]]]:
        """Read lines up to the first that may not be as declared; release the GIL meanwhile.

        Args:
            data: whole lines; the last newline may be missing.
            start: where the first line begins.

        Returns:
            The number of rows; the number of lines, blank ones among them; the columns; offset of
            the line that stopped it, and why (None if all were read); undeclared fields, each with
            the kind of its values and the number of records.
        """

@final
class CsvParser:
    """Parser of blocks of CSV records of one layout.

    Args:
        delimiter: the byte between fields.
        quote: the byte around fields; None for none.
        nulls: unquoted fields that mean null. An empty field that is not among them is null in any
            column but one of texts.
        fields: for each field of a record its column, which is not nested, and whether a value is
            required there; None leaves the field out.
    """

    def __new__(
        cls,
        delimiter: int,
        quote: int | None,
        nulls: Sequence[str],
        fields: Sequence[tuple[Spec, bool] | None],
    ) -> CsvParser: ...
    def parse(self, data: bytes) -> tuple[int, Sequence[Parts]] | None:
        """Read whole records; release the GIL meanwhile.

        Returns:
            The number of rows, and the columns of the fields that are not left out; None if any
            record may be bad.
        """

    def kinds(self, data: bytes, kinds: Sequence[int]) -> bytes | None:
        """Return those kinds that all texts of a field fit; release the GIL meanwhile.

        Args:
            data: whole records.
            kinds: for each field the kinds to test (see `lakeport.sources.csv.conversion`).

        Returns:
            A byte for each field, the set of its kinds; None if that is not sure.
        """

def csv_end(data: bytes, delimiter: int, quote: int | None) -> tuple[int, bool, bool, int]:
    """Find the last record that ends in `data`, which begins with a record.

    Returns:
        The offset behind its newline (0 if no record ends), whether the bytes end inside quotes,
        whether text stands between a closing quote and the end of its field, and the number of
        newlines before the offset.
    """

def run(data: bytes | bytearray, start: int, end: int, head: bytes) -> tuple[int, int]:
    """Find the end of a run of lines that all begin with `head`; release the GIL in a long one.

    Args:
        data: a buffer that nobody writes to meanwhile.
        start: where the first line begins.
        end: one past the last newline.
        head: how the lines begin.

    Returns:
        The offset behind the last line's newline, and the number of lines.
    """
