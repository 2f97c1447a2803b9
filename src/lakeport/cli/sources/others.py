"""Options for taps that lakeport starts, and for tables as sources."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.inputs.tables import TablesSource
    from lakeport.config.inputs.tap import TapSource

FromTap = Annotated[
    str | None,
    typer.Option(
        "--from-tap",
        metavar="COMMAND",
        help="Start a Singer tap with the STATE that the tables hold, as one text: "
        "'tap-github --config tap.json'.",
        rich_help_panel="Taps and tables",
    ),
]
FromTable = Annotated[
    list[str] | None,
    typer.Option(
        "--from-table",
        metavar="PLACE",
        help="A Delta table, by its folder or URI; repeat it for several, with --sql.",
        rich_help_panel="Taps and tables",
    ),
]
Incremental = Annotated[
    bool,
    typer.Option(
        "--incremental",
        help="Only rows that came to that table since the last load.",
        rich_help_panel="Taps and tables",
    ),
]
FullRefresh = Annotated[
    bool,
    typer.Option(
        "--full-refresh",
        help="Replace the table by what the source has, whatever was landed of it before.",
    ),
]


def tap_of(command: str) -> TapSource:
    """The tap that a command line names.

    Raises:
        ConfigError: quotes in it are not closed, or it is empty.
    """
    from lakeport.config.inputs.tap import TapSource

    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise ConfigError(
            "`--from-tap` has a text which is no command: it is empty, or a quote is not closed",
            "write it as in a shell, within quotes: 'tap-github --config tap.json'.",
        )
    return TapSource(tap=tuple(words))


def tables_of(places: list[str], incremental: bool) -> TablesSource:
    """The tables that a command line names."""
    from lakeport.config.inputs.tables import TablesSource

    return TablesSource.model_validate({"tables": places, "incremental": incremental})
