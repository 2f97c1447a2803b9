"""The words, numbers, texts and signs of a text of Spark SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Beyond", "Token", "tokens"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:\s+|--[^\n]*(?:\n|\Z))+)
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<word>[A-Za-z_][A-Za-z_0-9]*(?!\w))
    |`(?P<quoted>(?:[^`]|``)+)`
    |'(?P<text>[^']*)'(?!\s*')
    |(?P<sign><=>|<>|!=|<=|>=|==|\|\||::|[-+*/%=<>(),.;!])
    """,
    re.VERBOSE | re.ASCII,
)
_OTHER_SPACE: Final = re.compile(r"[^\S \t\r\n]")


class Beyond(Exception):  # no error: Spark does it
    """Arrow has no rule that gives exactly what Spark gives."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: `word`, `quoted`, `number`, `text`, `sign` or `end`.
        text: what it says; of words, as written.
    """

    kind: str
    text: str

    @property
    def word(self) -> str:
        """A word in lower case, or a sign; empty for everything else."""
        return self.text.lower() if self.kind in ("word", "sign") else ""


def tokens(sql: str) -> list[Token]:
    """The tokens of a text, and an `end`.

    Escapes, hints, comments in stars, and what else has rules of its own are beyond it.

    Raises:
        Beyond: the text has something else.
    """
    if "\\" in sql or "/*" in sql or _OTHER_SPACE.search(sql):
        raise Beyond
    found, at = list[Token](), 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None or match.lastgroup is None:
            raise Beyond
        text = match[match.lastgroup]
        if match.lastgroup == "quoted":
            text = text.replace("``", "`")
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, text))
        at = match.end()
    return [*found, Token("end", "")]
