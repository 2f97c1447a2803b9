"""Shows a command's progress: lines redrawn in place on a terminal, or lines at intervals."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TextIO

from lakeport.cli.output import logs
from lakeport.host.process import command_name
from lakeport.loading.progress import (
    Display,
    Lines,
    Progress,
    ProgressState,
    format_lines,
    is_switched_off,
    is_switched_on,
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
    """Progress lines at the bottom of a terminal, redrawn in place; `clear` removes them."""

    def __init__(self, out: TextIO) -> None:
        # Makes the lines from the progress and the terminal's width in columns.
        self.lines: Callable[[ProgressState, int], list[str]] = format_lines
        self._out = out
        self._live: Live | None = None

    def draw(self, moment: ProgressState) -> None:
        """Redraw the progress lines."""
        width = shutil.get_terminal_size().columns - 1
        told = "\n".join(self.lines(moment, width))
        from rich.text import Text

        if self._live is None:
            self._live = self._start()
        self._live.update(Text(told), refresh=True)

    def clear(self) -> None:
        """Remove the progress lines from the terminal."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _start(self) -> Live:
        """Create and start rich's live display on the terminal."""
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
    """Start to show progress, unless switched off, or change the label of a running display.

    It goes to `err`, redrawn on a terminal, else as lines at intervals, rare ones without any
    terminal; to `out` if only that is a terminal.
    """
    if _shown:
        _shown[0].label = label
    elif not (is_switched_off() or logs.is_on()):
        dumb = os.environ.get("TERM", "") in ("", "dumb")
        terminal = next((each for each in (err, out) if each.isatty() and not dumb), None)
        lines = Lines(err, rare=is_brief(out, err))
        display: Display = lines if terminal is None else Terminal(terminal)
        _shown.append(Progress(display, label).begin())


def is_brief(out: TextIO, err: TextIO) -> bool:
    """Whether to print little: neither is a terminal, and `LAKEPORT_VERBOSE` is not on."""
    return not (out.isatty() or err.isatty() or is_switched_on("LAKEPORT_VERBOSE"))


def begin_early(arguments: Sequence[str]) -> None:
    """Show progress before a slow command's imports, unless `--json` or help is asked for."""
    verb = command_name(arguments)
    if verb in _LABELS and _QUIET.isdisjoint(arguments) and not logs.is_wanted(arguments):
        begin(_LABELS[verb], sys.stdout, sys.stderr)


def note(text: str) -> None:
    """Show a text below the progress, if that is shown, in place of the last text."""
    for each in _shown:
        each.note = text


def set_lines(lines: Callable[[ProgressState, int], list[str]]) -> None:
    """Set the function that makes progress lines from the state and a width in columns."""
    for each in _shown:
        if isinstance(each.display, Terminal):
            each.display.lines = lines


def end() -> None:
    """Stop showing progress, if it is shown."""
    while _shown:
        _shown.pop().end()


def hide() -> AbstractContextManager[None]:
    """Return a context manager that hides progress while its body writes to the terminal."""
    return _shown[0].hide() if _shown else nullcontext()
