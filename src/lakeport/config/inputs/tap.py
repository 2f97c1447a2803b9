"""A Singer tap that lakeport starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from pydantic import Field

from lakeport.config.inputs.base import Input
from lakeport.scrub import is_secret_name, secret_arguments


class TapSource(Input):
    """A tap's command; the STATE that it gets is the one that the tables' commits hold."""

    tap: tuple[str, ...] = Field(
        min_length=1, description="The command, such as [tap-github, --config, tap.json]."
    )
    env: Mapping[str, str] = Field(
        default_factory=dict, description="Variables of its environment, beside the process's."
    )
    name: str = Field(
        default="",
        description="What the tables remember the tap by; default: the program's name. In a lake's "
        "file, the load's.",
    )
    folder: str = Field(
        default="",
        description="The folder in which it runs; default: the current one. In a lake's file, "
        "the file's.",
    )

    @property
    def program(self) -> str:
        """The program's name, without its folder."""
        return PurePath(self.tap[0]).name or self.tap[0]

    def secrets(self) -> tuple[str, ...]:
        """Values of the environment and of arguments that look like secrets by their names."""
        of_env = (value for name, value in self.env.items() if is_secret_name(name))
        return (*of_env, *secret_arguments(self.tap))
