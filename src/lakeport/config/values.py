"""Parsers and checks of config values as users write them: text, numbers, lists and mappings.

Each raises `ValueError` with a sentence that continues the key's name, such as "has to be ...".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import SecretStr

from lakeport.scrub import is_secret_name

_MODES = {"append-only": "append", "upsert": "merge"}
_DURATION = re.compile(
    r"(?i)\s*(\d+(?:\.\d+)?)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)?\s*"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_LITERAL = r"'(?:[^']|'')*'|-?[0-9]+(?:\.[0-9]+)?|true|false"
_CONDITION = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\W\d]\w*))\s*"
    rf"(?:==?\s*(?P<value>{_LITERAL})"
    rf"|IN\s*\(\s*(?P<values>(?:{_LITERAL})(?:\s*,\s*(?:{_LITERAL}))*)\s*\)"
    r"|IS\s+(?P<any>NOT\s+NULL))\s*",
    re.IGNORECASE,
)


def parse_names(value: object) -> object:
    """Convert a list, comma-separated text or JSON list to unique names; else ValueError.

    >>> parse_names("a, b,a"), parse_names('["x,y", " "]')
    (('a', 'b'), ('x,y', ' '))
    """
    if isinstance(value, str):
        value = _split_names(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError("has to be a list of names, or names with commas between them")
    return tuple(dict.fromkeys(name for name in value if name))


def parse_mode(value: object) -> object:
    """Translate a Meltano SDK load method to lakeport's `mode`; return other values unchanged."""
    return _MODES.get(value, value) if isinstance(value, str) else value


def parse_settings(value: object) -> object:
    """Convert a mapping to scalars, or its JSON text, to texts by name; else ValueError."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise ValueError("has to be a mapping of names to values")
    settings = {}
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, (str, int, float, SecretStr)):
            raise ValueError("has to map names to text, numbers, true or false")
        settings[name] = _setting_text(item)
    return settings


def check_table_properties(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return table properties unchanged; ValueError for secrets: the Delta log shows them."""
    wrong = sorted(name for name in settings if name.startswith("fs.") or is_secret_name(name))
    if wrong:
        raise ValueError(f"can't hold {', '.join(wrong)}: table properties are stored in the open")
    return settings


def parse_count_or_share(value: object) -> object:
    """Parse a count (10) to int, a share (`1%`, 0.01) to a float of 0 to 1; else ValueError.

    >>> parse_count_or_share("10"), parse_count_or_share("1%")
    (10, 0.01)
    """
    wrong = ValueError("has to be a count such as 10, or a share such as 0.01 or 1%")
    if isinstance(value, str):
        text = value.strip()
        try:
            if text.endswith("%"):
                value = float(text[:-1]) / 100
            else:
                value = int(text) if text.isdecimal() else float(text)
        except ValueError:
            raise wrong from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong
    if not (value >= 0 if isinstance(value, int) else 0 <= value <= 1):
        raise wrong
    return value


def parse_seconds(value: object) -> Any:
    """Convert text such as `90` or `2 min` to seconds, or raise ValueError; keep other values.

    >>> parse_seconds("2 min"), parse_seconds(90), parse_seconds("2 days")
    (120.0, 90, 172800.0)
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError("has to be a number of seconds, or a time such as 90s, 2m or 1h")
    return float(match[1]) * _UNITS[(match[2] or "s")[0].lower()]


def check_printable(value: str) -> str:
    """Return a text unchanged; raise ValueError for control characters."""
    if _CONTROL.search(value):
        raise ValueError("can't hold control characters")
    return value


def _split_names(text: str) -> object:
    """Parse a JSON list, or split a text at its commas; return None for invalid JSON."""
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [name.strip() for name in text.split(",")]
    except ValueError:
        return None


def _setting_text(value: str | float | SecretStr) -> str:
    """Convert a scalar to the text that Spark and stores expect; bool to `true` or `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


@dataclass(frozen=True, slots=True)
class DeleteCondition:
    """A parsed `delete_when`: a column, and the values in it that mark a row as deleted.

    Attributes:
        column: the column's name.
        values: the values that mark a delete; empty: every value but null does.
    """

    column: str
    values: tuple[str | int | Decimal | bool, ...] = ()

    @classmethod
    def parse(cls, text: str) -> DeleteCondition:
        """Parse `column = value`, `column IN (values)` or `column IS NOT NULL`; else ValueError.

        Raises:
            ValueError: the text has none of these three forms.

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
        return cls(name, tuple(map(_parse_literal, literals)))

    def to_sql(self, column: str) -> str:
        """Return the condition as Spark SQL; `column` is quoted already. It is false for nulls."""
        if not self.values:
            return f"{column} IS NOT NULL"
        return f"coalesce({column} IN ({_sql_list(self.values)}), false)"


def _parse_literal(literal: str) -> str | int | Decimal | bool:
    """Convert a SQL literal (quoted text, `true`, `false`, number) to a Python value."""
    if literal.startswith("'"):
        return literal[1:-1].replace("''", "'")
    if literal.lower() in ("true", "false"):
        return literal.lower() == "true"
    return Decimal(literal) if "." in literal else int(literal)


def _sql_list(values: Sequence[str | int | Decimal | bool]) -> str:
    """Format values as Spark SQL literals, joined by commas."""
    texts = (
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, str)
        else str(value).lower()
        for value in values
    )
    return ", ".join(texts)
