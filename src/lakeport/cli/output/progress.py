"""What goes on, on the terminal that a command runs on: lines that are drawn anew in place."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TextIO

from lakeport.host.process import command_name
from lakeport.loading.progress import (
    Display,
    Lines,
    Progress,
    ProgressState,
    format_lines,
    is_switched_off,
)

if TYPE_CHECKING:
    from rich.live import Live

_LOOKING: Final = ("table", "tables", "runs", "state", "ui")
_LABELS: Final = {
    "land": "landing",
    "plan": "planning",
    "run": "running",
    "check": "checking",
    "jars": "fetching jars",
    **dict.fromkeys(_LOOKING, "looking"),
}
_QUIET: Final = frozenset({"--json", "--help", "-h"})


class Terminal:
    """Lines at the end of a terminal's text, gone when nothing goes on any more.

    Args:
        out: the terminal.

    Attributes:
        lines: makes them, of what goes on and the columns there are.
    """

    def __init__(self, out: TextIO) -> None:
        self.lines: Callable[[ProgressState, int], list[str]] = format_lines
        self._out = out
        self._live: Live | None = None

    def draw(self, moment: ProgressState) -> None:
        """Draw the lines in place of those that are there."""
        width = shutil.get_terminal_size().columns - 1
        told = "\n".join(self.lines(moment, width))
        from rich.text import Text

        if self._live is None:
            self._live = self._start()
        self._live.update(Text(told), refresh=True)

    def clear(self) -> None:
        """Take the lines away."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _start(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        live = Live(
            console=Console(file=self._out, highlight=False),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live


_shown: list[Progress] = []  # at most one: a process has one terminal


def begin(label: str, out: TextIO, err: TextIO) -> None:
    """Show what goes on from now on, until `end`; nothing where nobody wants to know.

    Args:
        label: what the command does.
        out: where its result goes; a terminal there serves if `err` is none.
        err: where to show it: drawn on a terminal, else as lines at intervals.
    """
    if _shown:
        _shown[0].label = label
    elif not is_switched_off():
        dumb = os.environ.get("TERM", "") in ("", "dumb")
        terminal = next((each for each in (err, out) if each.isatty() and not dumb), None)
        display: Display = Lines(err) if terminal is None else Terminal(terminal)
        _shown.append(Progress(display, label).begin())


def begin_early(arguments: Sequence[str]) -> None:
    """Show that a command has begun, before what it takes is loaded, if it may take a while.

    Args:
        arguments: the command line behind the program's name.
    """
    verb = command_name(arguments)
    if verb in _LABELS and _QUIET.isdisjoint(arguments):
        begin(_LABELS[verb], sys.stdout, sys.stderr)


def note(text: str) -> None:
    """Show a further line from now on."""
    for each in _shown:
        each.note = text


def tell(lines: Callable[[ProgressState, int], list[str]]) -> None:
    """Have a terminal show other lines from now on; see `Terminal`."""
    for each in _shown:
        if isinstance(each.display, Terminal):
            each.display.lines = format_lines


def end() -> None:
    """Show nothing more; fine if nothing was shown."""
    while _shown:
        _shown.pop().end()


def hide() -> AbstractContextManager[None]:
    """Show nothing while the body writes to the terminal."""
    return _shown[0].hide() if _shown else nullcontext()
