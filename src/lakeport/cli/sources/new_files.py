"""Options for files that are landed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.inputs.files import FilesSource

_PANEL = "Only new files"

NewOnly = Annotated[
    bool,
    typer.Option(
        "--new-only", help="Land files that the table has not had yet.", rich_help_panel=_PANEL
    ),
]
Again = Annotated[
    str | None,
    typer.Option(
        "--again",
        metavar="fail|land|ignore",
        help="What to do with files that changed since they were landed; default: fail.",
        rich_help_panel=_PANEL,
    ),
]
Ordered = Annotated[
    bool,
    typer.Option(
        "--ordered",
        help="Names grow with time: list what comes behind the last one that was seen.",
        rich_help_panel=_PANEL,
    ),
]


def files_of(
    names: Sequence[str], new_only: bool, again: str | None, ordered: bool
) -> str | list[str] | FilesSource:
    """The source that a command line names.

    Raises:
        ConfigError: an option makes no sense without another, or its value is none.
    """
    if new_only:
        from lakeport.config.inputs.files import FilesSource

        given: dict[str, Any] = {} if again is None else {"again": again}
        return FilesSource(files=tuple(names), new_only=True, ordered=ordered, **given)
    for option, value in (("--again", again), ("--ordered", ordered)):
        if value:
            raise ConfigError(
                f"`{option}` is about files that were landed before",
                "give it with `--new-only`, or leave it out.",
            )
    return names[0] if len(names) == 1 else list(names)
