"""A table that a command line names, and the way to its store."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.options import keys, refuse_secrets
from lakeport.cli.output.console import Console, Json
from lakeport.cli.output.errors import Guard

if TYPE_CHECKING:
    from lakeport.tables import Table

_READS = ("nothing was changed", "")
COMMITS = (
    "whether the table has a new version of this command is unknown",
    "{history} tells. Readers see the version before or the new one, whole; the "
    "same command can be run again.",
)
DELETES = (
    "some of the files may be deleted already",
    "no version that is kept needs them; the same command deletes the rest.",
)
"""What commands that commit, and those that delete files, say when they are asked to end."""

TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="The table's folder or URI; with `--to`, its name below that target."
    ),
]
ToTarget = Annotated[
    str | None,
    typer.Option(
        "--to",
        "--config",
        metavar="TARGET",
        help="A config file (or any target) with the store's credentials and endpoint.",
    ),
]


@contextmanager
def opened(
    name: str,
    to: str | None,
    set_keys: Iterable[str] | None,
    json_out: bool,
    debug: bool,
    cut_off: tuple[str, str] = _READS,
) -> Iterator[tuple[Console | Json, Table]]:
    """The command's output and the table; errors take the way that every command's take."""
    output: Console | Json = Json() if json_out else Console()
    history = shlex.join(["lakeport", "table", "history", name, *(("--to", to) if to else ())])
    told = (cut_off[0], cut_off[1].replace("{history}", f"`{history}`"))
    with Guard(output, debug, cut_off=told) as guard:
        output.begin(f"looking at {name}" if cut_off is _READS else f"working on {name}")
        from lakeport.tables import Table

        given = keys({}, set_keys, None)
        table = Table(name, to, **given)
        guard.protect(table.config, to, set_keys)
        refuse_secrets(given, type(table.config))
        yield output, table
