"""Commands in a terminal, as those who sit before it see them."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

from lakeport.engine.spark.jvm import jars


def screen(*arguments: str, columns: int, **variables: str) -> str:
    """All that a command writes to a terminal of so many columns."""
    pid, terminal = pty.fork()
    if not pid:
        environment = {**os.environ, "TERM": "xterm", "LAKEPORT_PROGRESS": "", **variables}
        _resize(0, columns)
        os.execve(sys.executable, [sys.executable, "-m", "lakeport", *arguments], environment)
    parts = []
    while part := _read(terminal):
        parts.append(part)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, b"".join(parts)
    return b"".join(parts).decode()


def _resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError as error:
        if error.errno != errno.EIO:  # what Linux says when nobody writes any more
            raise
        return b""


@pytest.mark.parametrize("columns", [60, 120])
def test_a_load_shows_what_goes_on_and_leaves_the_result(tmp_path: Path, columns: int) -> None:
    rows = "".join(f"{n},name {n % 97},{n / 8}\n" for n in range(300_000))
    (tmp_path / "people.csv").write_text(f"id,name,price\n{rows}")
    text = screen("land", str(tmp_path / "people.csv"), "--to", str(tmp_path), columns=columns)
    assert re.search(
        r"reading people|writing people|committing people|landing( \.\.\.|: \d+ s)", text
    )
    last = text[text.rindex("\x1b[2K") :]  # what stays below the last line that was taken away
    assert "300,000 rows landed in" in last and "reading" not in last


def test_a_terminal_may_be_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    quiet: Mapping[str, str] = {"LAKEPORT_PROGRESS": "off"}
    text = screen("land", str(tmp_path / "a.csv"), "--to", str(tmp_path), columns=80, **quiet)
    assert "landing" not in text and "\x1b[2K" not in text and "1 row landed in" in text


def test_jars_that_are_there_fit_a_narrow_terminal() -> None:
    jars.ensure_jars(["delta"])
    text = screen("jars", columns=60)
    last = text[text.rindex("\x1b[2K") + 4 :] if "\x1b[2K" in text else text
    *lines, hint, _ = last.replace("\x1b[?25h", "").split("\r\n")
    assert lines[-5:] == [
        "jar                                 size",
        "----------------------------------------",
        "delta-spark_4.2_2.13-4.4.0.jar    9.5 MB",
        "delta-storage-4.4.0.jar         113.9 KB",
        "lakeport-logstore.jar            65.4 KB",
    ]
    assert "all 2 jars are there" in lines[-6] and hint.startswith("not shown: path")
