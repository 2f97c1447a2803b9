"""What the descriptions of sources share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeport.config.explain import Problem, nearest, reason
from lakeport.errors import ConfigError
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MOST: Final = 2  # types that are named, of those that are allowed


class Input(BaseModel):
    """Base of the descriptions: immutable and complete; a wrong value shows at once.

    Raises:
        ConfigError: naming every key that is wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    what: ClassVar[str] = "the source"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = _explained(type(self), error, values)
        else:
            return
        raise problem  # outside the handler: the foreign error holds the values as they came

    def secrets(self) -> tuple[str, ...]:
        """Every secret of the description, to remove from text that others wrote."""
        return ()


def secrets_of(source: object) -> tuple[str, ...]:
    """The secrets that a source's description holds; of others none are known."""
    return source.secrets() if isinstance(source, Input) else ()


def _explained(
    model: type[Input], error: ValidationError, values: Mapping[str, Any]
) -> ConfigError:
    about = {(field.alias or key): field.description for key, field in model.model_fields.items()}
    hint = "the keys are " + "; ".join(f"`{key}`: {text}" for key, text in about.items())
    problems = []
    for path, details in _by_path(error, values).items():
        key = ".".join(map(str, path)) or model.what
        own = f"`{path[0]}`: {about[path[0]]}" if path and path[0] in about else hint
        kinds = {detail["type"] for detail in details}
        if "extra_forbidden" in kinds:
            close = nearest(key, about)
            text = f"there is no key `{key}`" + (f"; did you mean `{close}`?" if close else "")
        elif "missing" in kinds:
            text = f"the key `{key}` is missing"
        else:
            text = f"{_named(path) or key} {_reasons(details)}"
        problems.append(Problem(path, scrub(text), own))
    explained = ConfigError("; ".join(problem.text for problem in problems), hint)
    explained.problems = tuple(problems)
    return explained


def _by_path(
    error: ValidationError, values: Mapping[str, Any]
) -> dict[tuple[str | int, ...], list[ErrorDetails]]:
    """What is wrong, by the keys that the user wrote: the innermost ones count."""
    found: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path = detail["loc"]
        path = path if detail["type"] == "missing" else tuple(_written(path, values))
        found.setdefault(path, []).append(detail)
    return {
        path: details
        for path, details in found.items()
        if not any(other[: len(path)] == path != other for other in found)
    }


def _written(path: tuple[str | int, ...], values: Any) -> Iterator[str | int]:
    """Keys and places in lists: where several types are allowed, their names are in a path, too."""
    for part in path:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
        elif isinstance(values, (list, tuple)) and part in range(len(values)):
            values = values[int(part)]
        else:
            continue
        yield part


def _named(path: tuple[str | int, ...]) -> str:
    """A key, or an item of a list.

    >>> _named(("in", "size", 0))
    'item 1 of `in.size`'
    """
    if path and isinstance(path[-1], int):
        return f"item {path[-1] + 1} of {_named(path[:-1])}"
    return f"`{'.'.join(map(str, path))}`" if path else ""


def _reasons(details: Sequence[ErrorDetails]) -> str:
    words = list(dict.fromkeys(map(reason, details)))
    if len(words) > _MOST:
        return "has to be one value: text, a number, true or false, a date or a time"
    return " or ".join([words[0], *(word.removeprefix("has to be ") for word in words[1:])])
