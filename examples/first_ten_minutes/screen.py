"""What is on a terminal once a command has ended, lines that have scrolled away included."""

from __future__ import annotations

import pyte

from examples.first_ten_minutes.terminal import LINES

_ALL = 1_000_000


def screen(output: bytes, columns: int) -> str:
    """The text on a terminal of so many columns that was given these bytes."""
    terminal = pyte.HistoryScreen(columns, LINES, history=_ALL)
    pyte.ByteStream(terminal).feed(output)
    rows = [*terminal.history.top, *(terminal.buffer[line] for line in range(LINES))]
    lines = ("".join(row[column].data for column in range(columns)).rstrip() for row in rows)
    return "\n".join(lines).rstrip("\n")
