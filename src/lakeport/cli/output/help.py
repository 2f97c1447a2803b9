"""Help pages: commands and options in groups, and examples at the end."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.completion import install_callback, show_callback
from typer.core import TyperCommand, TyperGroup

from lakeport.cli.signals import INTERRUPTED, TERMINATED, Terminated, last_words
from lakeport.errors import LakeportError, walk_causes
from lakeport.loading.cancellation import Cancellation
from lakeport.loading.report import Failure
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lakeport.cli.output.console import Output
    from lakeport.config.base import DestinationConfig
    from lakeport.config.sources import ConfigPart
    from lakeport.mage.observer import MageObserver


LAND: Final = "Land"
LOOK: Final = "Look"
KEEP: Final = "Keep in order"
SET_UP: Final = "Set up"
_GROUPS: Final = (LAND, LOOK, KEEP, SET_UP)
_COMPLETION: Final = {
    "--install-completion": install_callback,
    "--show-completion": show_callback,
}
_TYPE: Final = re.compile(r"<[^>]*>")

RUN_AGAIN = "the same command with the same `--run-id` adds nothing twice."
"""The hint of a load with the option `--run-id` that is asked to end."""

_DEBUG = "`--debug` shows where it comes from; what it shows may hold values of the data."


def about(
    group: str, *examples: str, words: str = "", late: Callable[[], Any] | None = None
) -> dict[str, Any]:
    r"""How a command is shown: `app.command("land", **about(LAND, "lakeport land a.csv ..."))`.

    Args:
        group: the heading that the program's help has it under.
        examples: command lines, which end its own help.
        words: a paragraph before them.
        late: makes the command with its options, of what takes a while to load; default: it is
            there already.

    >>> about(LOOK, "lakeport tables ./lake")["epilog"]
    '\x08\nExamples:\n  lakeport tables ./lake'
    """
    lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
    epilog = "\n\n".join(filter(None, (words, lines)))
    kind = partial(_LateCommand, late) if late else _Command
    return {"cls": kind, "rich_help_panel": group, "epilog": epilog}


def group(text: str) -> typer.Typer:
    """Return a group of commands, with its help, which its name alone shows."""

    def help_alone(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())

    return typer.Typer(
        cls=Commands,
        callback=help_alone,
        help=text,
        invoke_without_command=True,
        rich_markup_mode=None,
    )


class _Command(TyperCommand):
    """A command whose options stand under the headings that they name."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What may stand behind the command's name."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and the options of each heading."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                name = param.metavar or (param.name or "").upper()
                record = (_named(record[0], name, param.param_type_name), record[1])
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                heading = getattr(param, "rich_help_panel", None) or plain
                sections.setdefault(heading, []).append(record)
        _write(formatter, sections)


class _LateCommand(_Command):
    """A command whose options are made when they are asked for."""

    def __init__(self, late: Callable[[], Any], **given: Any) -> None:
        super().__init__(**given)
        self._late = late

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        if not self.params:
            program = typer.Typer(add_completion=False)
            program.command()(self._late())
            made: Any = typer.main.get_command(program)
            self.params, self.callback = made.params, made.callback
        return super().get_params(ctx)


def _named(shown: str, name: str, kind: str) -> str:
    """What a parameter is called in a help page, its value by a name, not by Python's type.

    >>> _named("--table <str>", "TABLE", "option"), _named("SQL <str>", "SQL", "argument")
    ('--table TABLE', 'SQL')
    """
    return name if kind == "argument" else _TYPE.sub(name, shown)


class Commands(TyperGroup):
    """A program or a group of commands; its help has the commands under their groups' headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a shell's name behind the options about completion, which else ask what runs."""
        if ctx.parent is None and len(args) == 2 and args[0] in _COMPLETION:
            param: Any = None  # they have no use for it
            _COMPLETION[args[0]](ctx, param, args[1])  # ends the process
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, those of groups of commands by their whole names."""
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
        for name, command in _leaves(self, ""):
            group = getattr(command, "rich_help_panel", None) or SET_UP
            sentence = (command.help or "").strip().partition("\n")[0]
            sections.setdefault(group, []).append((name, sentence))
        _write(formatter, sections)


def _leaves(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{path}{name} ")
        elif not command.hidden:
            yield f"{path}{name}", command


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


class Guard:
    """Runs a command's body: `with Guard(output, debug) as guard: ...`.

    Args:
        output: prints or logs the error that ends the command, and has counted what landed.
        debug: whether errors come with their traceback.
        exit_code: makes the process's exit code from the error's; default: the same.
        cut_off: what a command that is asked to end says, and its hint; default: what a load says.
        again: the hint of a load that is asked to end; default: none.
    """

    def __init__(
        self,
        output: Output | MageObserver,
        debug: bool = False,
        exit_code: Callable[[int], int] = lambda code: code,
        cut_off: tuple[str, str] | None = None,
        again: str = "",
    ) -> None:
        self._output = output
        self._debug = debug
        self._exit_code = exit_code
        self._cut_off = cut_off
        self._again = again
        self._secrets: tuple[str, ...] = ()
        self._listening = ExitStack()

    def protect(
        self,
        config: DestinationConfig | ConfigPart,
        to: str | None = None,
        set_keys: Iterable[str] | None = None,
    ) -> None:
        """Mask this config's secrets in everything that an error says from now on.

        Args:
            config: has the secrets.
            to: the target as the command line names it: commands that hints name get it as `--to`
                if it is a config file.
            set_keys: the command line's `--set`, of which they get those about the store.
        """
        self._secrets += config.secrets()
        self._output.options = self._output.options or _options(type(config), to, set_keys or ())

    def __enter__(self) -> Guard:
        self._listening.enter_context(last_words(self._tell_cut_off))
        if not self._debug:
            # py4j logs stack traces when the JVM goes, of which `_tell` speaks in one sentence.
            self._listen("", logging.NullHandler())
            self._listen("lakeport", logging.StreamHandler())
        return self

    def _listen(self, name: str, handler: logging.Handler) -> None:
        """Add a handler for as long as the body runs, unless there is one, as of an outer guard."""
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(handler)
            self._listening.callback(logger.removeHandler, handler)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        try:
            self._output.close()
        finally:
            if error is not None and not isinstance(error, (typer.Exit, SystemExit)):
                code = self._tell(error)
                raise typer.Exit(self._exit_code(code)) from None

    def _tell_cut_off(self, kind: type[KeyboardInterrupt]) -> None:
        """Tell that the command is ended from outside, while it still does something."""
        end = kind()
        if unknown := Cancellation.all_unknown_commits():
            end.add_note(unknown)
        with suppress(Exception):
            self._output.close()
        self._tell(end)

    def _tell(self, error: BaseException) -> int:
        if isinstance(error, BrokenPipeError):
            mute_stdout()
            return 1
        failure, code = self._failure_of(error)
        text = ""
        if self._debug and not isinstance(error, KeyboardInterrupt):
            text = scrub("".join(traceback.format_exception(error)), self._secrets)
        self._output.failure(failure.scrubbed(self._secrets), text)
        return code

    def _failure_of(self, error: BaseException) -> tuple[Failure, int]:
        if isinstance(error, LakeportError):
            return Failure.of(error), error.exit_code
        if isinstance(error, KeyboardInterrupt):
            ended = isinstance(error, Terminated)
            word = "terminated" if ended else "interrupted"
            said, hint = self._cut_off or (self._durable(_unknown(error)), self._again)
            failure = Failure(word.title(), f"{word}; {said}", hint)
            return failure, TERMINATED if ended else INTERRUPTED
        return replace(Failure.of(error), hint="" if self._debug else _DEBUG), 1

    def _durable(self, unknown: str) -> str:
        landed = self._output.landed
        if not landed:
            return unknown or "nothing was landed"
        what = "1 batch is" if landed == 1 else f"{landed:,} batches are"
        return f"{what} durable, and {unknown or 'nothing is visible of the one in progress'}"


def _options(kind: type[BaseModel], to: str | None, set_keys: Iterable[str]) -> str:
    """Return the options that a command about one table needs to reach its target's store."""
    from lakeport.config.base import store_keys
    from lakeport.config.load import is_config_file

    words = ["--to", to] if to and is_config_file(to, guess=False) else []
    known = store_keys(kind)
    for pair in set_keys:
        if pair.partition("=")[0] in known:
            words += ["--set", pair]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _unknown(error: BaseException) -> str:
    """Join the notes of an error and its causes, which name commits whose outcome is unknown."""
    notes = (getattr(each, "__notes__", ()) for each in walk_causes(error, contexts=True))
    return "; ".join(chain.from_iterable(notes))


def mute_stdout() -> None:
    """Send what is still buffered for a reader that went away to nowhere."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return
