"""Every error's way out: words (or JSON), and an exit code that tells its class."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import typer

from lakeport.cli.signals import INTERRUPTED, TERMINATED, Terminated, last_words
from lakeport.errors import LakeportError, causes
from lakeport.loading.cancellation import Cancellation
from lakeport.loading.report import Failure
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lakeport.config.base import DestinationConfig
    from lakeport.config.inputs.base import Input

RUN_AGAIN = "the same command with the same `--run-id` adds nothing twice."
"""The hint of a load with the option `--run-id` that is asked to end."""


class ErrorOutput(Protocol):
    """Prints or logs the error that ends a command; `Guard` hands it over.

    Attributes:
        landed: number of batches that landed before the error.
        options: what `Guard` adds to the commands about a table that a hint names.
    """

    landed: int
    options: str

    def failure(self, failure: Failure, trace: str = "") -> None:
        """An error, with its traceback if that was asked for."""

    def close(self) -> None:
        """Nothing more will come."""


class Guard:
    """Runs a command's body: `with Guard(output, debug) as guard: ...`.

    Args:
        output: what the command speaks through.
        debug: whether errors come with their traceback.
        exit_code: makes the process's exit code from the error's; default: the same.
        cut_off: what a command that is asked to end says, and its hint; default: what a load says.
        again: the hint of a load that is asked to end; default: none.
    """

    def __init__(
        self,
        output: ErrorOutput,
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
        config: DestinationConfig | Input,
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
        if unknown := Cancellation.unknown_anywhere():
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
    """What the load could not find out, also where a second signal came before it was told."""
    notes = (getattr(each, "__notes__", ()) for each in causes(error, contexts=True))
    return "; ".join(chain.from_iterable(notes))


_DEBUG = "`--debug` shows where it comes from; what it shows may hold values of the data."


def mute_stdout() -> None:
    """Send what is still buffered for a reader that went away to nowhere."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return
