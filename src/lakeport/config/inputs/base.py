"""What the descriptions of sources share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeport.config.explain import Problem, nearest
from lakeport.errors import ConfigError
from lakeport.scrub import scrub

__all__ = ["Input", "secrets_of"]


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
            problem = _explained(type(self), error)
        else:
            return
        raise problem  # outside the handler: the foreign error holds the values as they came

    def secrets(self) -> tuple[str, ...]:
        """Every secret of the description, to remove from text that others wrote."""
        return ()


def secrets_of(source: object) -> tuple[str, ...]:
    """The secrets that a source's description holds; of others none are known."""
    return source.secrets() if isinstance(source, Input) else ()


def _explained(model: type[Input], error: ValidationError) -> ConfigError:
    about = {(field.alias or key): field.description for key, field in model.model_fields.items()}
    hint = "the keys are " + "; ".join(f"`{key}`: {text}" for key, text in about.items())
    problems = []
    for detail in error.errors(include_url=False, include_input=False):
        path, key = detail["loc"], ".".join(map(str, detail["loc"])) or model.what
        own = f"`{path[0]}`: {about[path[0]]}" if path and path[0] in about else hint
        if detail["type"] == "extra_forbidden":
            close = nearest(key, about)
            text = f"there is no key `{key}`" + (f"; did you mean `{close}`?" if close else "")
        elif detail["type"] == "missing":
            text = f"the key `{key}` is missing"
        else:
            text = f"{f'`{key}`' if path else key} {_reason(detail)}"
        problems.append(Problem(path, scrub(text), own))
    explained = ConfigError("; ".join(problem.text for problem in problems), hint)
    explained.problems = tuple(problems)
    return explained


def _reason(detail: Mapping[str, Any]) -> str:
    return str(detail["msg"]).removeprefix("Value error, ").replace("Input should", "has to")
