"""What a key's value may be written as: from text, lists and mappings to the value that is meant.

Each raises `ValueError` with a sentence that goes on from the key's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import SecretStr

from lakeport.scrub import is_secret_name

_MODES = {"append-only": "append", "upsert": "merge"}
_DURATION = re.compile(
    r"(?i)\s*(\d+(?:\.\d+)?)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)?\s*"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def names(value: object) -> object:
    """A list of names from a list or comma-separated text, each once; a list's as they are.

    >>> names("a, b,a"), names('["x,y", " "]')
    (('a', 'b'), ('x,y', ' '))
    """
    if isinstance(value, str):
        value = _list(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError("has to be a list of names, or names with commas between them")
    return tuple(dict.fromkeys(name for name in value if name))


def mode_named(value: object) -> object:
    """A mode, also by the name that Meltano's SDK gives it."""
    return _MODES.get(value, value) if isinstance(value, str) else value


def texts_by_name(value: object) -> object:
    """A mapping of texts from a mapping of scalars or its JSON text."""
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
        settings[name] = _setting(item)
    return settings


def public(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Refuse what would be written into the table's log for everybody to read."""
    wrong = sorted(name for name in settings if name.startswith("fs.") or is_secret_name(name))
    if wrong:
        raise ValueError(f"can't hold {', '.join(wrong)}: table properties are stored in the open")
    return settings


def limit(value: object) -> object:
    """A count (int) or a share (float, 0 to 1) from a number or text such as `1%`.

    >>> limit("10"), limit("1%")
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


def seconds(value: object) -> object:
    """Seconds from a number or a text such as `90`, `90s`, `2 min`, `1h` or `2 days`.

    >>> seconds("2 min"), seconds(90), seconds("2 days")
    (120.0, 90, 172800.0)
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError("has to be a number of seconds, or a time such as 90s, 2m or 1h")
    return float(match[1]) * _UNITS[(match[2] or "s")[0].lower()]


def printable(value: str) -> str:
    """A text without control characters."""
    if _CONTROL.search(value):
        raise ValueError("can't hold control characters")
    return value


def _list(text: str) -> object:
    """The items of a JSON list, or those between commas."""
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [name.strip() for name in text.split(",")]
    except ValueError:
        return None


def _setting(value: str | float | SecretStr) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
