"""From `pip install` to the first table, and to Spark's first answer: how long, and how silent.

Nothing is there beforehand: a new environment, no cache of pip's, no cache of lakeport's.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from examples.first_ten_minutes import files
from examples.first_ten_minutes.terminal import Played, play

_ROOT = Path(__file__).parents[2]
_COMMANDS = (
    "python -m venv .venv",
    ". .venv/bin/activate && pip install {wheel}",
    ". .venv/bin/activate && lakeport --version",
    ". .venv/bin/activate && lakeport land people.csv --to ./lake",
    ". .venv/bin/activate && lakeport land people.csv --to ./lake --once",
    '. .venv/bin/activate && lakeport table query ./lake/people "SELECT count(*) FROM t"',
    '. .venv/bin/activate && lakeport table query ./lake/people "SELECT max(born) FROM t"',
)


def install(columns: int, echo: Callable[[bytes], object]) -> Iterator[tuple[str, Played]]:
    """Play it, and give each command with what became of it."""
    with tempfile.TemporaryDirectory(prefix="lakeport-install-") as work:
        folder = Path(work)
        files.write(folder)
        wheel = _wheel(folder / "wheel")
        environment = {
            **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
            "LAKEPORT_CACHE": str(folder / "cache"),
            "PIP_NO_CACHE_DIR": "1",
            "TERM": "xterm-256color",
        }
        for command in _COMMANDS:
            typed = command.format(wheel=wheel)
            shown = typed.rpartition(" && ")[2].replace(str(wheel), wheel.name)
            echo(f"\r\n$ {shown}\r\n".encode())
            yield shown, play(typed, columns, folder, environment, echo)


def machine() -> str:
    """What it was measured on, in a few words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {cores} cores, Python {platform.python_version()}"


def _wheel(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(_ROOT))
    subprocess.run([*build, "--wheel-dir", str(folder)], check=True)
    (wheel,) = folder.glob("lakeport-*.whl")
    return wheel
