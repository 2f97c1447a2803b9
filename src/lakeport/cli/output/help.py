"""Help texts in groups with examples, and `Guard`, which turns a command's errors to output."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import chain
from types import TracebackType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args

import typer
from typer.completion import install_callback, show_callback
from typer.core import TyperCommand, TyperGroup

from lakeport.cli.options import OMITTED, is_place_omitted
from lakeport.cli.output import logs
from lakeport.cli.output.formatting import add_options
from lakeport.cli.signals import INTERRUPTED, TERMINATED, Terminated, on_forced_end
from lakeport.errors import BadRecords, LakeportError, walk_causes
from lakeport.loading.cancellation import Cancellation
from lakeport.loading.report import Failure
from lakeport.loading.telemetry import LOGGER
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

RUN_AGAIN = "the same command with the same `--run-id` adds nothing twice."
"""Hint when a signal ends a load that has the option `--run-id`."""

_DEBUG = "`--debug` shows where it comes from; what it shows may hold values of the data."


def command_help(
    group: str, *examples: str, words: str = "", late: Callable[[], Any] | None = None
) -> dict[str, Any]:
    r"""Return arguments of `app.command` that set the command's help: heading, examples.

    `words` stand before the examples. `late` makes the options when needed, if that takes long.

    >>> command_help(LOOK, "lakeport tables ./lake")["epilog"]
    '\x08\nExamples:\n  lakeport tables ./lake'
    """
    lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
    epilog = "\n\n".join(filter(None, (words, lines)))
    kind = partial(_LateCommand, late) if late else _Command
    return {"cls": kind, "rich_help_panel": group, "epilog": epilog}


class Program(typer.Typer):
    """A typer program; its commands may have annotations that typer before 0.12 can't read."""

    def command(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Return typer's decorator for a command, which resolves the function's annotations."""
        register = super().command(*arguments, **options)
        return lambda function: register(resolve_annotations(function))


def resolve_annotations(function: Any) -> Any:
    """Evaluate the annotations of a function's signature, with `X | None` as `Optional[X]`."""
    own = signature(function, eval_str=True)
    parameters = [
        each.replace(annotation=_as_optional(each.annotation)) for each in own.parameters.values()
    ]
    function.__signature__ = own.replace(parameters=parameters)
    return function


def _as_optional(annotation: Any) -> Any:
    """Return `Annotated[X | None, ...]` as `Annotated[Optional[X], ...]`; others unchanged."""
    kind, *about = get_args(annotation) or (annotation,)
    if not about or not isinstance(kind, UnionType):
        return annotation
    return Annotated[(Union[get_args(kind)], *about)]  # noqa: UP007


def make_group(text: str) -> typer.Typer:
    """Return a group of commands that prints its help if no command is given."""

    def help_alone(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())

    return Program(
        cls=Commands,
        callback=help_alone,
        help=text,
        invoke_without_command=True,
        rich_markup_mode=None,
    )


def _write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Write a command's help as click does; typer before 0.12 would draw boxes with rich."""
    command.format_usage(ctx, formatter)
    command.format_help_text(ctx, formatter)
    command.format_options(ctx, formatter)
    command.format_epilog(ctx, formatter)


class _Command(TyperCommand):
    """A typer command whose help lists options under headings."""

    format_help = _write_help

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; put `OMITTED` first if only its lake or table is left out."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        if len(arguments) > 1 and not arguments[0].required:
            found = self.make_parser(ctx).parse_args(list(args))[0]
            texts = (found.get(each.name) for each in arguments)
            given = [text for text in texts if isinstance(text, str)]
            if is_place_omitted(given, arguments, to=isinstance(found.get("to"), str)):
                args = [OMITTED, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, without curly braces."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help's lists of arguments, options, and options under headings."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                plain = "Options"
                if param.param_type_name == "argument":
                    plain, record = "Arguments", (param.metavar or param.name.upper(), record[1])
                heading = getattr(param, "rich_help_panel", None) or plain
                sections.setdefault(heading, []).append(record)
        _write(formatter, sections)


class _LateCommand(_Command):
    """A command that makes its options on first use, as that takes long."""

    def __init__(self, late: Callable[[], Any], **given: Any) -> None:
        super().__init__(**given)
        self._late = late

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options; make them on the first call."""
        if not self.params:
            program = Program(add_completion=False)
            program.command()(self._late())
            made: Any = typer.main.get_command(program)
            self.params, self.callback = made.params, made.callback
        return super().get_params(ctx)


class Commands(TyperGroup):
    """A program or a group of commands whose help lists commands under headings."""

    format_help = _write_help

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; a completion option with a shell's name is run, and ends the process."""
        if ctx.parent is None and len(args) == 2 and args[0] in _COMPLETION:
            param: Any = None  # they have no use for it
            _COMPLETION[args[0]](ctx, param, args[1])  # ends the process
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings, with their full names."""
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
        for name, command in _walk_commands(self, ""):
            group = getattr(command, "rich_help_panel", None) or SET_UP
            sentence = (command.help or "").strip().partition("\n")[0]
            sections.setdefault(group, []).append((name, sentence))
        _write(formatter, sections)


def _walk_commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the full name and command of each visible command, subgroups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk_commands(command, f"{path}{name} ")
        elif not command.hidden:
            yield f"{path}{name}", command


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    """Write sections of the help, each with rows of name and text; leave out empty sections."""
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


class Guard:
    """Context manager that prints its body's error and raises `Exit` with its exit code.

    Args:
        output: prints or logs the error, and has counted the batches that landed.
        debug: whether to print errors with their traceback.
        exit_code: makes the process's exit code from the error's; default: the same.
        cut_off: message and hint when a signal ends the command; default: those of a load.
        again: hint when a signal ends a load; default: none.
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
        self.cut_off = cut_off
        self._again = again
        self._secrets: tuple[str, ...] = ()
        self._listening = ExitStack()

    def protect(
        self,
        config: DestinationConfig | ConfigPart,
        to: object = None,
        set_keys: Iterable[str] | None = None,
    ) -> None:
        """Mask a config's secrets in later errors; add `--to` and `--set` to commands in hints.

        They are `--to`, if `to` is a config file, and those of `--set` that are about the store.
        """
        self._secrets += config.secrets()
        options = _store_options(type(config), to, set_keys or ())
        self._output.options = self._output.options or options

    def __enter__(self) -> Guard:
        self._listening.enter_context(on_forced_end(self._report_forced_end))
        if not self._debug:
            # py4j logs stack traces when the JVM ends; `_report` prints one sentence instead.
            self._add_handler("", logging.NullHandler())
            printer = logging.StreamHandler()
            printer.addFilter(lambda record: record.name != LOGGER)  # the output says it, too
            self._add_handler("lakeport", printer)
        return self

    def _add_handler(self, name: str, handler: logging.Handler) -> None:
        """Add a log handler until the body ends, unless the logger has one already."""
        logger = logging.getLogger(name)
        if not any(type(each) is not logging.NullHandler for each in logger.handlers):
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
                code = self._report(error)
                raise typer.Exit(self._exit_code(code)) from None

    def _report_forced_end(self, kind: type[KeyboardInterrupt]) -> None:
        """Print that a signal ended the command, and commits whose outcome is unknown."""
        end = kind()
        if unknown := Cancellation.all_unknown_commits():
            end.add_note(unknown)
        with suppress(Exception):
            self._output.close()
        self._report(end)

    def _report(self, error: BaseException) -> int:
        """Print an error, secrets masked; return its exit code. Print no BrokenPipeError."""
        if isinstance(error, BrokenPipeError):
            discard_stdout()
            return 1
        failure, code = self._failure_of(error)
        text = ""
        if self._debug and not isinstance(error, KeyboardInterrupt):
            text = scrub("".join(traceback.format_exception(error)), self._secrets)
        value = error.records[0].value if isinstance(error, BadRecords) else ""
        failure = failure.scrubbed(self._secrets)
        if logs.is_on():
            hint = add_options(failure.hint, self._output.options)
            logs.log_failure(replace(failure, hint=hint), code, text)
        self._output.failure(failure, text, scrub(value, self._secrets))
        return code

    def _failure_of(self, error: BaseException) -> tuple[Failure, int]:
        """Convert an exception to a printable error and exit code: its own, 130, 143 or 1."""
        if isinstance(error, LakeportError):
            return Failure.of(error), error.exit_code
        if isinstance(error, KeyboardInterrupt):
            ended = isinstance(error, Terminated)
            word = "terminated" if ended else "interrupted"
            message, hint = self.cut_off or (
                self._durable_batches(_join_notes(error)),
                self._again,
            )
            failure = Failure(word.title(), f"{word}; {message}", hint)
            return failure, TERMINATED if ended else INTERRUPTED
        return replace(Failure.of(error), hint="" if self._debug else _DEBUG), 1

    def _durable_batches(self, unknown: str) -> str:
        """Return in words how many batches are committed, then `unknown`, a text on others."""
        landed = self._output.landed
        if not landed:
            return unknown or "nothing was landed"
        what = "1 batch is" if landed == 1 else f"{landed:,} batches are"
        return f"{what} durable, and {unknown or 'nothing is visible of the one in progress'}"


def _store_options(model: type[BaseModel], to: object, set_keys: Iterable[str]) -> str:
    """Return a text of `--to` and `--set` options that connect to a store; may be empty."""
    from lakeport.config.base import store_keys
    from lakeport.config.load import is_config_file

    of_file = isinstance(to, str) and is_config_file(to, must_exist=False)
    words = ["--to", str(to)] if of_file else []
    known = store_keys(model)
    for pair in set_keys:
        if pair.partition("=")[0] in known:
            words += ["--set", pair]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _join_notes(error: BaseException) -> str:
    """Join the notes of an error and its causes; they name commits whose outcome is unknown."""
    notes = (getattr(each, "__notes__", ()) for each in walk_causes(error, contexts=True))
    return "; ".join(chain.from_iterable(notes))


def discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that flushing a closed pipe raises no error."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return
