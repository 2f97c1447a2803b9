"""The program `lakeport`: its commands, and one way out for every error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from lakeport.cli.check import check
from lakeport.cli.guide.init import init
from lakeport.cli.guide.pages import docs, explain
from lakeport.cli.jars import jars, version
from lakeport.cli.land import land
from lakeport.cli.maintain import state
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.errors import Guard, mute_stdout
from lakeport.cli.signals import endable
from lakeport.cli.table import table
from lakeport.cli.target import target
from lakeport.cli.warm import warm
from lakeport.errors import ConfigError
from lakeport.host.core_dumps import forbid_core_dumps

__all__ = ["app", "guarded", "main", "run"]

_WARM = (
    "With `--warm`, the load goes through a warm session, which is started if none runs "
    "(`lakeport warm`)."
)

app = typer.Typer(
    name="lakeport",
    help="Land Singer streams, files and frames in a data lake, on Spark.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("land", epilog=_WARM)(land)
app.command("plan", help="Show what `land` would do, and write nothing.")(land)
app.command("target")(target)
app.add_typer(table, name="table")
app.add_typer(state, name="state")
app.add_typer(warm, name="warm")
app.command("check")(check)
app.command("init")(init)
app.command("explain")(explain)
app.command("docs")(docs)
app.command("jars")(jars)
app.command("version")(version)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program `lakeport`; see `run`."""
    return run(app, "lakeport", arguments)


def run(program: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a program.

    Args:
        program: its commands.
        name: what it is called.
        arguments: the command line without the program's name; default: the process's.

    Returns:
        The exit code: 0, or the error class's (see `lakeport.errors`), 130 when interrupted.
    """
    forbid_core_dumps()
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(given, lambda: int(_invoke(program, name, given) or 0))


def guarded(arguments: Sequence[str], body: Callable[[], int]) -> int:
    """Run what a command line asks for, and tell its errors.

    Args:
        arguments: the command line, for how errors are to be told.
        body: gives the exit code.
    """
    output: Output = Json() if "--json" in arguments else Console(sys.stderr)
    try:
        with endable(), Guard(output, "--debug" in arguments):
            return body()
    except typer.Exit as stop:
        return stop.exit_code
    finally:
        _flush()


def _invoke(program: typer.Typer, name: str, arguments: list[str]) -> Any:
    """Run the command; a wrong command line is a `ConfigError` like any other.

    Not by calling the program, which makes one silent exit code of all that interrupts it.
    """
    command = typer.main.get_command(program)
    try:
        with command.make_context(name, arguments) as context:
            return command.invoke(context)
    except typer.BadParameter.__base__ as error:  # type: ignore[misc]
        problem = _usage(error, name)
    raise problem


def _usage(error: Any, name: str) -> ConfigError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else name
    problem = error.format_message().rstrip(".").replace("Value error, ", "")
    return ConfigError(problem, f"`{path} --help` lists what it takes.")


def _flush() -> None:
    """Leave nothing for the interpreter's end, which would fail on a reader that went away."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        mute_stdout()
