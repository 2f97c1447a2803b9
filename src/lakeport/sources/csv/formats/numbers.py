"""Numbers with another decimal mark, or with grouped digits -> plain ones, vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_CLASSES = {".": r"\.", ",": ",", " ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
_MARKS = {".": "point", ",": "comma"}
_GROUPS = {" ": "a space", "'": "an apostrophe"}


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Numbers with a decimal mark, whose digits may be in groups of three.

    Attributes:
        decimal: `.` or `,`.
        thousands: what stands between groups, or empty; a space stands for the unbreakable ones,
            an apostrophe for the typographic one, too.
    """

    decimal: str
    thousands: str

    def words(self, *, whole: bool) -> tuple[str, ...]:
        """What the report says of a column in this format.

        Args:
            whole: whether it has whole numbers alone, which tell no decimal mark.
        """
        mark = () if whole or self == SPACED else (f"decimal {_MARKS[self.decimal]}",)
        groups = _GROUPS.get(self.thousands, repr(self.thousands))
        return (*mark, f"thousands {groups}") if self.thousands else mark

    @property
    def pattern(self) -> str:
        """A regular expression that all texts in this format match."""
        grouped = ""
        if self.thousands:
            grouped = f"[0-9]{{1,3}}(?:{_CLASSES[self.thousands]}[0-9]{{3}})+|"
        mark = _CLASSES[self.decimal]
        return f"^[+-]?(?:{grouped}[0-9]+)(?:{mark}[0-9]+)?(?:[eE][+-]?[0-9]+)?$"

    def plain(self, texts: pa.StringArray) -> pa.StringArray:
        """Matching texts with a decimal point and without groups."""
        import pyarrow.compute as pc

        if self.thousands:
            texts = pc.replace_substring_regex(texts, _CLASSES[self.thousands], "")
        return pc.replace_substring(texts, self.decimal, ".")


SPACED = NumberFormat(".", "")
"""Plain numbers, but for the spaces around them, which are left out in every format."""

NUMBER_FORMATS = (
    NumberFormat(",", ""),
    NumberFormat(",", "."),
    NumberFormat(",", " "),
    NumberFormat(",", "'"),
    SPACED,
    NumberFormat(".", ","),
    NumberFormat(".", " "),
    NumberFormat(".", "'"),
)
"""All that are looked for; the narrower before the wider ones."""
