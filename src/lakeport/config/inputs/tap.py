"""A Singer tap that lakeport starts."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from lakeport.config.inputs.base import Input

__all__ = ["TapSource"]


class TapSource(Input):
    """A tap's command; the STATE that it gets is the one that the tables' commits hold."""

    tap: tuple[str, ...] = Field(
        min_length=1, description="The command, such as [tap-github, --config, tap.json]."
    )
    env: Mapping[str, str] = Field(
        default_factory=dict, description="Variables of its environment, beside the process's."
    )
    folder: str = Field(
        default="",
        description="The folder in which it runs; default: the current one. In a lake's file, "
        "the file's.",
    )
