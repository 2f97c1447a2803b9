"""Regular expressions that mean the same in Java and in Arrow, which has RE2's."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_portable"]

_SIGNS: Final = "@:;,/ '\"=<>~!%#_"
_ESCAPED: Final = r"\\[.+*?()|{}\[\]/d-]"
_IN_CLASS: Final = rf"[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9{_SIGNS}.+*?(){{}}|]|{_ESCAPED}"
_ATOM: Final = rf"[A-Za-z0-9{_SIGNS}-]|{_ESCAPED}|\[\^?(?:{_IN_CLASS})+-?\]|\)"
_REPEATED: Final = r"[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\}"
_PORTABLE: Final = re.compile(rf"(?:\((?:\?:)?|\||(?:{_ATOM})(?:{_REPEATED})?(?![*+?{{]))*")


def is_portable(pattern: str) -> bool:
    """Whether a pattern has nothing that the two read differently.

    Not portable: a dot, which leaves out other ends of lines; classes by name, but for digits;
    looking around, references, flags, and what is lazy or possessive.

    >>> is_portable("[A-Z]{2}[0-9]+"), is_portable("a.c"), is_portable("(?i)a")
    (True, False, False)
    """
    return pattern.isascii() and _PORTABLE.fullmatch(pattern) is not None
