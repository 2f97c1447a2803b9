"""Where in SQL a value could not be computed, as far as Spark tells, and why.

Source: Spark's error conditions, and the query context that its exceptions carry under ANSI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakeport.errors import causes

_DEEPEST: Final = 12
_NULL: Final = "gives null in its place"
_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "CAST_INVALID_INPUT": (
        "a value of type {sourceType} is none of type {targetType}",
        f"`try_cast` {_NULL}, as `try_to_date` and `try_to_timestamp` do.",
    ),
    "CAST_OVERFLOW": (
        "a value of type {sourceType} does not fit into {targetType}",
        f"take a wider type, or `try_cast`, which {_NULL}.",
    ),
    "NUMERIC_VALUE_OUT_OF_RANGE": (
        "a value does not fit into decimal({precision},{scale})",
        f"take a wider type, or `try_cast`, which {_NULL}.",
    ),
    "ARITHMETIC_OVERFLOW": (
        "the result does not fit into its type",
        f"cast to a wider type before, such as decimal(38,0), or take `{{try_}}`, which {_NULL}.",
    ),
    "DIVIDE_BY_ZERO": (
        "it divides by zero",
        f"`try_divide(a, b)` {_NULL}, as `a / nullif(b, 0)` does.",
    ),
    "REMAINDER_BY_ZERO": ("it divides by zero", f"`try_mod(a, b)` {_NULL}."),
    "INVALID_ARRAY_INDEX": (
        "an array has no element at that index",
        f"`get(array, index)` {_NULL}.",
    ),
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": (
        "an array has no element at that index",
        f"`try_element_at(array, index)` {_NULL}.",
    ),
    "CANNOT_PARSE_TIMESTAMP": (
        "a text is no date or time in that format",
        f"`try_to_timestamp` {_NULL}.",
    ),
    "USER_RAISED_EXCEPTION": (
        "it raised an error of its own (`raise_error`, `assert_true`)",
        "correct the rows, or the condition.",
    ),
}


@dataclass(frozen=True, slots=True)
class Uncomputed:
    """A value that could not be computed; what it was is left out.

    Attributes:
        condition: Spark's name of the error.
        text: the whole SQL in which it happened; empty where Spark does not tell.
        fragment: the part of it, or the function of a frame's that was called; may be empty.
        line, column: where the part begins, from 1; 0 where there is no SQL.
    """

    condition: str
    text: str = ""
    fragment: str = ""
    line: int = 0
    column: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Why, without the value."""
        reason, _ = _REASONS.get(self.condition, (f"Spark says {self.condition}", ""))
        return reason.format_map(_Told(self.parameters))

    @property
    def hint(self) -> str:
        """What to do about it."""
        default = "", "correct the expression; `--debug` shows Spark's own words."
        _, hint = _REASONS.get(self.condition, default)
        found = re.search(r"try_\w+", self.parameters.get("alternative", ""))
        return hint.replace("{try_}", found[0] if found else "try_cast")


class _Told(dict[str, str]):
    """Parameters of an error without quotes; those that are absent are dots."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__({name: value.strip('"') for name, value in given.items()})

    def __missing__(self, name: str) -> str:
        return "…"


def uncomputed(error: BaseException) -> Uncomputed | None:
    """What Spark tells of a value that could not be computed; None where it is another error."""
    for cause in causes(error):
        for java in _chain(cause):
            found = _of(java)
            if found is not None:
                return found
    return None


def _chain(error: BaseException) -> Iterator[Any]:
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_DEEPEST):
        if java is None:
            return
        yield java
        java = java.getCause()


def _of(java: Any) -> Uncomputed | None:
    """What one Java exception tells, if it is one of Spark's with a condition about values."""
    try:
        condition, state = str(java.getCondition()), str(java.getSqlState())
        parameters = dict(java.getMessageParameters())
        contexts = list(java.getQueryContext())
    except Exception:  # no exception of Spark's
        return None
    condition = condition.partition(".")[0]
    if not (state.startswith("22") or condition in _REASONS):
        return None
    for context in contexts:
        fragment = str(context.fragment())
        if not fragment:
            continue
        if str(context.contextType()) != "SQL":
            return Uncomputed(condition, fragment=fragment, parameters=parameters)
        place = int(context.line().get()), int(context.startPosition().get()) + 1
        text = str(context.sqlText().get())
        return Uncomputed(condition, text, fragment, *place, parameters)
    return Uncomputed(condition, parameters=parameters)
