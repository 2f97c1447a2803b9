"""Plays steps of the script, one after the other, in a folder with the files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from examples.first_ten_minutes import files
from examples.first_ten_minutes.script import Step
from examples.first_ten_minutes.terminal import Played, play


class Player:
    """A person at a terminal.

    Args:
        folder: where the files are written, and the lake.
        columns: how wide the terminal is.
        environment: what commands find in their environment.
        echo: is handed what commands write, as they write.
    """

    def __init__(
        self,
        folder: Path,
        columns: int,
        environment: Mapping[str, str],
        echo: Callable[[bytes], object] = lambda written: None,
    ) -> None:
        files.write(folder)
        self._folder = folder
        self._columns = columns
        here = Path(sys.executable).parent  # of the `lakeport` that goes with this Python
        left_out = ("COLUMNS", "LINES", "LAKEPORT_PROGRESS")
        self._environment = {
            **{name: value for name, value in environment.items() if name not in left_out},
            "PATH": f"{here}:{environment['PATH']}",
            "TERM": "xterm-256color",
        }
        self._echo = echo

    def play(self, step: Step, more: Mapping[str, str] | None = None) -> Played:
        """Run a step's command, with more in its environment than the player's."""
        environment = {**self._environment, **(more or {})}
        return play(step.command, self._columns, self._folder, environment, self._echo)
