"""Runs a command in a pseudo-terminal, and keeps what it wrote and how long it was silent."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

LINES = 24


@dataclass(frozen=True)
class Played:
    """What became of a command: all that it wrote, and its times in seconds."""

    output: bytes
    exit_code: int
    seconds: float
    silence: float
    """The longest time in which nothing was written, before the first byte and after the last."""


def play(
    command: str,
    columns: int,
    folder: Path,
    environment: Mapping[str, str],
    echo: Callable[[bytes], object] = lambda written: None,
) -> Played:
    """Run a command line by the shell, in a terminal of so many columns.

    Args:
        command: as a person would type it.
        columns: how wide the terminal is.
        folder: where it runs.
        environment: what it finds in its environment.
        echo: is handed what the command writes, as it writes.
    """
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    begin = spoken = time.monotonic()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=dict(environment),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    output, silence = b"", 0.0
    while written := _read(reader):
        now = time.monotonic()
        silence, spoken = max(silence, now - spoken), now
        output += written
        echo(written)
    os.close(reader)
    code, end = process.wait(), time.monotonic()
    return Played(output, code, end - begin, max(silence, end - spoken))


def _read(reader: int) -> bytes:
    """What comes next; nothing when all who could write are gone."""
    try:
        return os.read(reader, 1 << 16)
    except OSError:  # how Linux tells the end of a terminal
        return b""
