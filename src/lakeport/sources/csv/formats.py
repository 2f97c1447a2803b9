"""Numbers and dates as countries write them -> plain ones, vectorised; unknown dates stay out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_CLASSES = {".": r"\.", ",": ",", " ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
_MARKS = {".": "point", ",": "comma"}
_GROUPS = {" ": "a space", "'": "an apostrophe"}

ISO = "%Y-%m-%d"
"""The format that needs no other: dates are read so wherever they occur."""

_PARTS = {
    "%Y": "[0-9]{4}",
    "%y": "[0-9]{2}",
    "%m": "[0-9]{1,2}",
    "%d": "[0-9]{1,2}",
    "%H": "[0-9]{1,2}",
    "%M": "[0-9]{2}",
    "%S": "[0-9]{2}",
    "%f": "[0-9]{1,6}",
}
_DATE = ("%m", "%d")
_TIME = ("%H", "%M", "%S", "%f")
_CLOCK = r"[ T]([0-9]{1,2}):([0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?"


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


@dataclass(frozen=True, slots=True)
class DateFormat:
    """Dates as a format of `strptime` describes them, with or without a time of day behind.

    Attributes:
        format: such as `%d.%m.%Y`.
    """

    format: str

    def words(self, *, whole: bool) -> tuple[str, ...]:
        """What the report says of a column in this format."""
        return (f"dates {self.format}",)

    @property
    def pattern(self) -> str:
        """A regular expression that all texts in this format match."""
        return f"^{_rules(self.format)[0]}(?:{_clock(self.format)})?$"

    def plain(self, texts: pa.StringArray) -> pa.StringArray:
        """Matching texts as ISO 8601 writes them."""
        import pyarrow.compute as pc

        pattern, iso, groups = _rules(self.format)
        plain = pc.replace_substring_regex(texts, f"^{pattern}$", iso)
        if clock := _clock(self.format):
            hour, minute, rest = (rf"\{groups + n}" for n in (1, 2, 3))
            stamp = f"{iso}T0{hour}:{minute}{rest}"
            plain = pc.replace_substring_regex(plain, f"^{pattern}{clock}$", stamp)
        plain = pc.replace_substring_regex(plain, "([-T])0([0-9]{2})", r"\1\2")
        if "%y" in self.format:  # POSIX: 69 to 99 are of the 20th century
            plain = pc.replace_substring_regex(plain, "^20(69|[7-9][0-9])-", r"19\1-")
        return plain


def _clock(format: str) -> str:  # noqa: A002
    return "" if any(part in format for part in _TIME) else _CLOCK


@lru_cache
def _rules(format: str) -> tuple[str, str, int]:  # noqa: A002
    """A pattern, what it is replaced by, and the number of its groups."""
    found = re.findall("%.", format)
    at = {part: rf"\{number}" for number, part in enumerate(found, start=1)}
    parts = re.split("(%.)", format)
    pattern = "".join(f"({_PARTS[p]})" if p in _PARTS else re.escape(p) for p in parts)
    year = at.get("%Y") or f"20{at['%y']}"
    iso = f"{year}-0{at['%m']}-0{at['%d']}"
    if "%H" in at:
        iso += f"T0{at['%H']}:{at.get('%M', '00')}:{at.get('%S', '00')}"
        iso += f".{at['%f']}" if "%f" in at else ""
    return pattern, iso, len(found)


def check_date_format(format: str) -> None:  # noqa: A002
    """Check that a format describes a whole date.

    Raises:
        ConfigError: it does not.
    """
    found = re.findall("%.?", format)
    years = [part for part in found if part in ("%Y", "%y")]
    whole = len(years) == 1 and all(part in found for part in _DATE)
    times = [part for part in _TIME if part in found]
    if (
        not whole
        or len(set(found)) < len(found)
        or any(part not in _PARTS for part in found)
        or times != [*_TIME[: len(times)]]
    ):
        raise ConfigError(
            f"date format {format!r} is none that can be read",
            "such as %d/%m/%Y or %d.%m.%y %H:%M: year (%Y, or %y of two digits), month (%m) and "
            "day (%d), and perhaps hour, minute, second (%H %M %S) and fraction (%f).",
        )
