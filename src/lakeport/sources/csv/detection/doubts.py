"""What may be meant otherwise than it is read, by a file's first records: hints for the user.

They change nothing, and hold no value of a record but for words that programs write for null.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeport.sources.csv.detection.heading import kind_of

if TYPE_CHECKING:
    from lakeport.sources.csv.options import CsvOptions

_DELIMITERS = ";,\t|:#!*/ "
_WORDS = 2  # in each record are a habit of names
_FIRST = 20  # values tell whether there is any doubt
_LEAST = 2  # other values beside which one is odd
_ODD = 0.05
_CODE = re.compile(r"\+|-?0[0-9]|-?[0-9]{16,}|[0-9]{3}(?:[ .\u00a0\u2009\u202f][0-9]{3})+$")
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_SHORT_DATE = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2[0-9]{2}(?: .*)?")
_MONTHS = 12
_NULLS = {"null", "none", "nil", "nan", "n/a", "#n/a", "n.a.", "k.a.", "n.v.", "s/o", "nd"}
_NULLS |= {"(null)", "#null!", "missing", "\\n", "-", "--", "---", ".", "?", "*"}
_SIGNED = re.compile(
    r"(?P<space>\s*)(?P<open>\()?(?P<minus>[-\u2212]\s?)?(?P<before>[€$£¥]|[A-Z]{3}\s)?\s?-?"
    r"(?P<number>[0-9][0-9.,'\u2019 \u00a0\u2009\u202f]*[0-9]|[0-9])"
    r"\s?(?P<after>[€$£¥%‰]|[A-Z]{3})?(?P<behind>-)?(?(open)\))(?P<end>\s*)"
)


def other_delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """What may delimit fields in a file that was read as one column, and how many these were.

    >>> other_delimiter(["id:name", "1:Ada"]), other_delimiter(["name", "Ada"])
    ((':', 2), ('', 1))
    """
    widths = {
        delimiter: len(parts[0])
        for delimiter in _DELIMITERS
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

    >>> from lakeport.sources.csv.options import CsvOptions
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
        return "code" if _CODE.match(cell) else "number"
    return kind or "text"


def _short_dates(cells: Sequence[str]) -> str:
    """Of dates with two digits for the year, the format that reads them."""
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
    """Of numbers with something around them, what that is."""
    signs: dict[str, None] = {}
    for cell in cells:
        parts = _SIGNED.fullmatch(cell)
        if parts is None or _CODE.match(parts["number"]):
            return ""
        signs |= dict.fromkeys(
            repr(sign.strip()) for sign in (parts["before"], parts["after"]) if sign
        )
        signs |= dict.fromkeys(["parentheses"] * bool(parts["open"]))
        signs |= dict.fromkeys(["a minus behind"] * bool(parts["behind"]))
        signs |= dict.fromkeys(["a typographic minus"] * ("\u2212" in (parts["minus"] or "")))
        signs |= dict.fromkeys(["spaces around them"] * bool(parts["space"] or parts["end"]))
    return f"has numbers with {', '.join(signs)}" if signs else ""
