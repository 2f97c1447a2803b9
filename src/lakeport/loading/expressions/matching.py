"""Regular expressions that mean the same in Java and in Arrow, which has RE2's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Final

import pyarrow as pa

from lakeport.loading.expressions.binding import Binder
from lakeport.loading.expressions.bound import Bound, Call, Constant
from lakeport.loading.expressions.kernels import logic, texts
from lakeport.loading.expressions.select import Condition
from lakeport.loading.expressions.tokens import Beyond
from lakeport.loading.expressions.typing import need

__all__ = ["is_portable", "matching"]

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


def matching(patterns: Mapping[str, str], schema: pa.Schema) -> Condition | None:
    """Whether texts match as a whole, each column its pattern; None where Spark is to tell."""
    binder = Binder(schema)
    try:
        found = [_matched(binder, *one) for one in patterns.items()]
    except Beyond:
        return None
    return Condition(reduce(lambda a, b: Call(logic.both, (a, b), pa.bool_()), found))


def _matched(binder: Binder, column: str, pattern: str) -> Bound:
    if not is_portable(pattern):
        raise Beyond
    text = need(binder.column(column), pa.string())
    return Call(texts.matches, (text, Constant(pattern, pa.string())), pa.bool_())
