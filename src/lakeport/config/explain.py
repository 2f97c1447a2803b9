"""Config errors in words: every key at fault, the value seen, the nearest valid one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeport.errors import ConfigError
from lakeport.scrub import MASK, scrub

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from lakeport.config.base import DestinationConfig

_LONGEST = 60
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
"""By pydantic's name of an error."""


class Problem(NamedTuple):
    """One key that is wrong among others that were checked.

    Attributes:
        path: the key, and what is wrong below it; empty where keys don't go together.
        text: what is wrong, with the key's name.
        hint: what to do about it.
    """

    path: tuple[str | int, ...]
    text: str
    hint: str


def closest_match(word: str, known: Iterable[str]) -> str:
    """The known word that is most like this one; empty if none is.

    Example:
        >>> closest_match("Buckt", ["bucket", "table"])
        'bucket'
    """
    folded = {name.casefold(): name for name in sorted(known)}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question about the known word that is most like this one; empty if none is.

    Example:
        >>> did_you_mean("buckt", ["bucket", "table"])
        '; did you mean `bucket`?'
    """
    close = closest_match(word, known)
    return f"; did you mean `{close}`?" if close else ""


def unknown_name_error(what: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not among the known ones."""
    names = sorted(known)
    guess = did_you_mean(name, names)
    return ConfigError(f"there is no {what} {name!r}{guess}", f"there are: {', '.join(names)}.")


def explain(error: ValidationError, model: type[DestinationConfig]) -> ConfigError:
    """One error for all that is wrong with a config, without the value of any secret."""
    details = [d for d in error.errors(include_url=False) if d["type"] not in _CONSEQUENCES]
    problems = list(dict.fromkeys(_problem(detail, model) for detail in details))
    name = model.model_fields["destination"].default
    explained = ConfigError(_message(f"destination `{name}`", problems), _hint(details, model))
    explained.problems = tuple(
        Problem(detail["loc"], _problem(detail, model), _hint([detail], model))
        for detail in details
    )
    return explained


def _message(what: str, problems: list[str]) -> str:
    if len(problems) == 1:
        return f"config of {what}: {problems[0]}"
    lines = "".join(f"\n  - {problem}" for problem in problems)
    return f"config of {what} has {len(problems)} errors:{lines}"


def _hint(details: list[ErrorDetails], model: type[DestinationConfig]) -> str:
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
        hints.append(f"the keys are: {', '.join(sorted(model.model_fields))}.")
    wrong = {str(d["loc"][0]) for d in details if d["loc"] and d["type"] != "missing"}
    hints += [
        f"`{key}`: {field.description}" for key, field in model.model_fields.items() if key in wrong
    ]
    return " ".join(hints) or "change one of the keys that it names."


def _problem(detail: ErrorDetails, model: type[DestinationConfig]) -> str:
    if not detail["loc"]:
        return reason(detail)
    key = str(detail["loc"][0])
    if detail["type"] == "missing":
        return f"the key `{key}` is missing"
    if detail["type"] == "extra_forbidden":
        return f"there is no key `{key}`{did_you_mean(key, model.model_fields)}"
    seen = "" if key in model.secret_keys() | _MAPPINGS else _seen(detail["input"])
    expected = detail.get("ctx", {}).get("expected")
    if isinstance(expected, str):
        choices = re.findall(r"'([^']*)'", expected)
        guess = did_you_mean(str(detail["input"]), choices) if seen else ""
        return f"`{key}`:{seen} is not one of {', '.join(choices)}{guess}"
    return f"`{key}`:{seen} {reason(detail)}"


def _seen(value: Any) -> str:
    """The value as the message shows it: scalars only, since a mapping may hold secrets."""
    if not isinstance(value, (str, int, float)):
        return ""
    if isinstance(value, str) and _KEY.fullmatch(value):
        value = MASK  # a secret under another's name
    text = scrub(repr(value))  # a URI may carry a signature
    return f" {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"


def reason(detail: ErrorDetails) -> str:
    """What is wrong with a value, in words of ours.

    >>> reason({"type": "string_type", "loc": (), "msg": "", "input": 5})
    'has to be text'
    """
    kind = detail["type"]
    if detail["input"] is None and kind in _WORDS:
        return "has no value"
    if kind in _WORDS:
        return _WORDS[kind].format_map(detail.get("ctx", {}))
    said = re.sub(r"^(Value error, |Input |String )", "", detail["msg"])
    return re.sub(r"^should (be|have|match) ", r"has to \1 ", said)
