"""What the descriptions of sources share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeport.config.explain import nearest
from lakeport.errors import ConfigError
from lakeport.scrub import scrub

__all__ = ["Input"]


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


def _explained(model: type[Input], error: ValidationError) -> ConfigError:
    problems = []
    for detail in error.errors(include_url=False, include_input=False):
        key = ".".join(map(str, detail["loc"])) or model.what
        if detail["type"] == "extra_forbidden":
            close = nearest(key, model.model_fields)
            problems.append(
                f"there is no key `{key}`" + (f"; did you mean `{close}`?" if close else "")
            )
        elif detail["type"] == "missing":
            problems.append(f"the key `{key}` is missing")
        else:
            named = f"`{key}`" if detail["loc"] else key
            problems.append(f"{named} {_reason(detail)}")
    about = "; ".join(f"`{key}`: {field.description}" for key, field in model.model_fields.items())
    return ConfigError(scrub("; ".join(problems)), f"the keys are {about}")


def _reason(detail: Mapping[str, Any]) -> str:
    return str(detail["msg"]).removeprefix("Value error, ").replace("Input should", "has to")
