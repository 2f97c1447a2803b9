"""Config errors in words: every wrong key, the value seen, and the closest valid one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeport.errors import ConfigError
from lakeport.scrub import MASK, scrub

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_LONGEST = 60  # characters of a value in a message
_MAPPINGS = frozenset(  # their text may hold secrets
    {"catalog", "constant_columns", "object_metadata", "object_tags", "spark", "table_properties"}
)
_KEY = re.compile(r"[A-Za-z0-9+/]{32,}={0,2}")  # as Azure's, AWS's and SSE-C's look
_CONSEQUENCES = ("default_factory_not_called",)
_WORDS = {
    **dict.fromkeys(("string_type", "string_sub_type"), "has to be text"),
    **dict.fromkeys(("tuple_type", "list_type", "set_type"), "has to be a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "has to hold keys"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "has to be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "has to be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type"), "has to be a number"),
    **dict.fromkeys(("too_short", "string_too_short"), "is empty"),
    "finite_number": "has to be a finite number",
    "greater_than": "has to be more than {gt:g}",
    "greater_than_equal": "has to be {ge:g} or more",
    "less_than_equal": "has to be {le:g} or less",
}
"""pydantic's name of an error -> our words."""


class Problem(NamedTuple):
    """An error in a config: the path of the wrong value, or () for a wrong combination of keys."""

    path: tuple[str | int, ...]
    text: str
    hint: str


def closest_match(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the most similar word of `known`, ignoring case; empty if none is similar.

    `cutoff` is the least similarity, from 0 to 1 for equal words.

    Example:
        >>> closest_match("Buckt", ["bucket", "table"])
        'bucket'
    """
    folded = {name.casefold(): name for name in sorted(known)}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean `...`?" with the most similar known word; empty if none is similar."""
    close = closest_match(word, known)
    return f"; did you mean `{close}`?" if close else ""


def unknown_name_error(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return a ConfigError for an unknown name, with the closest known name and all others."""
    names = sorted(known)
    guess = did_you_mean(name, names)
    return ConfigError(f"there is no {kind} {name!r}{guess}", f"there are: {', '.join(names)}.")


def config_error(
    error: ValidationError, fields: Mapping[str, FieldInfo], secret_keys: Set[str]
) -> ConfigError:
    """Convert pydantic's error to a `ConfigError` with every problem but no secret value."""
    details = [d for d in error.errors(include_url=False) if d["type"] not in _CONSEQUENCES]
    texts = list(dict.fromkeys(_problem_text(each, fields, secret_keys) for each in details))
    subject = f"config of destination `{fields['destination'].default}`"
    lines = "".join(f"\n  - {text}" for text in texts)
    message = f"{subject} has {len(texts)} errors:{lines}"
    if len(texts) == 1:
        message = f"{subject}: {texts[0]}"
    explained = ConfigError(message, _hint(details, fields))
    explained.problems = tuple(
        Problem(each["loc"], _problem_text(each, fields, secret_keys), _hint([each], fields))
        for each in details
    )
    return explained


def _hint(details: list[ErrorDetails], fields: Mapping[str, FieldInfo]) -> str:
    """Return a hint: where missing keys are looked up, valid keys, descriptions of wrong keys."""
    kinds = {detail["type"] for detail in details}
    hints = []
    if "missing" in kinds:
        names = [str(detail["loc"][0]) for detail in details if detail["type"] == "missing"]
        variables = ", ".join(f"LAKEPORT_{name.upper()}" for name in names)
        hints.append(
            "a key is looked for in the options, then in the config file, then in the "
            f"environment ({variables})."
        )
    if "extra_forbidden" in kinds:
        hints.append(f"the keys are: {', '.join(sorted(fields))}.")
    wrong = {str(d["loc"][0]) for d in details if d["loc"] and d["type"] != "missing"}
    hints += [f"`{key}`: {field.description}" for key, field in fields.items() if key in wrong]
    return " ".join(hints) or "change one of the keys that it names."


def _problem_text(
    detail: ErrorDetails, fields: Mapping[str, FieldInfo], secret_keys: Set[str]
) -> str:
    """Return a sentence about one error, with the key and its value unless that is secret."""
    if not detail["loc"]:
        return describe_value_error(detail)
    key = str(detail["loc"][0])
    if detail["type"] == "missing":
        return f"the key `{key}` is missing"
    if detail["type"] == "extra_forbidden":
        return f"there is no key `{key}`{did_you_mean(key, fields)}"
    seen = "" if key in secret_keys | _MAPPINGS else _value_text(detail["input"])
    expected = detail.get("ctx", {}).get("expected")
    if isinstance(expected, str):
        choices = re.findall(r"'([^']*)'", expected)
        guess = did_you_mean(str(detail["input"]), choices) if seen else ""
        return f"`{key}`:{seen} is not one of {', '.join(choices)}{guess}"
    return f"`{key}`:{seen} {describe_value_error(detail)}"


def _value_text(value: Any) -> str:
    """Format a scalar for an error text, masked, cut at 60 characters; empty for other values."""
    if not isinstance(value, (str, int, float)):
        return ""
    if isinstance(value, str) and _KEY.fullmatch(value):
        value = MASK  # a secret under another's name
    text = scrub(repr(value))  # a URI may carry a signature
    return f" {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"


def describe_value_error(detail: ErrorDetails) -> str:
    """Return why a value is wrong as the end of a sentence, such as `has to be text`."""
    kind = detail["type"]
    if detail["input"] is None and kind in _WORDS:
        return "has no value"
    if kind in _WORDS:
        return _WORDS[kind].format_map(detail.get("ctx", {}))
    said = re.sub(r"^(Value error, |Input |String )", "", detail["msg"])
    return re.sub(r"^should (be|have|match) ", r"has to \1 ", said)
