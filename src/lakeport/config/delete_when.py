"""`delete_when`: a condition on one column that says which records of a merge are deletes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

_LITERAL = r"'(?:[^']|'')*'|-?[0-9]+(?:\.[0-9]+)?|true|false"
_CONDITION = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\W\d]\w*))\s*"
    rf"(?:==?\s*(?P<value>{_LITERAL})"
    rf"|IN\s*\(\s*(?P<values>(?:{_LITERAL})(?:\s*,\s*(?:{_LITERAL}))*)\s*\)"
    r"|IS\s+(?P<any>NOT\s+NULL))\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DeleteCondition:
    """A parsed condition.

    Attributes:
        column: the column that it looks at.
        values: those that mean a delete; empty if each one does.
    """

    column: str
    values: tuple[str | int | Decimal | bool, ...] = ()

    @classmethod
    def parse(cls, text: str) -> DeleteCondition:
        """Read a condition as SQL writes it.

        Raises:
            ValueError: it is none of the three forms.

        Example:
            >>> DeleteCondition.parse("Op IN ('D', 'X')")
            DeleteCondition(column='Op', values=('D', 'X'))
        """
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ValueError(
                "is not of the form `Op = 'D'`, `Op IN ('D', 'X')` or `Op IS NOT NULL`"
            )
        name = found["name"] or found["quoted"].replace("``", "`")
        literals = re.findall(_LITERAL, found["value"] or found["values"] or "", re.IGNORECASE)
        return cls(name, tuple(map(_value, literals)))

    def sql(self, column: str) -> str:
        """The condition in Spark's SQL, on a column as it is called there."""
        if not self.values:
            return f"{column} IS NOT NULL"
        return f"coalesce({column} IN ({_listed(self.values)}), false)"


def checked_condition(text: str) -> str:
    """Return the text of a condition.

    Raises:
        ValueError: it is no condition.
    """
    DeleteCondition.parse(text)
    return text


def _value(literal: str) -> str | int | Decimal | bool:
    if literal.startswith("'"):
        return literal[1:-1].replace("''", "'")
    if literal.lower() in ("true", "false"):
        return literal.lower() == "true"
    return Decimal(literal) if "." in literal else int(literal)


def _listed(values: Sequence[str | int | Decimal | bool]) -> str:
    texts = (
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, str)
        else str(value).lower()
        for value in values
    )
    return ", ".join(texts)
