"""Plays the first ten minutes in this terminal: each wish, what is typed, and what comes of it.

`python -m examples.first_ten_minutes` from a checkout; `--from-install` begins with pip, and ends
with how long each step took and how long it was silent.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from examples.first_ten_minutes.install import install, machine
from examples.first_ten_minutes.player import Player
from examples.first_ten_minutes.script import STEPS


def main() -> int:
    """Play what the command line asks for; the exit code tells whether all went as it should."""
    parser = argparse.ArgumentParser(prog="examples.first_ten_minutes", description=__doc__)
    width = shutil.get_terminal_size().columns
    parser.add_argument("--columns", type=int, default=width, help="of the terminal")
    parser.add_argument("--from-install", action="store_true", help="begin with `pip install`")
    asked = parser.parse_args()
    return from_install(asked.columns) if asked.from_install else play_all(asked.columns)


def play_all(columns: int) -> int:
    """Every step of the script."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="lakeport-first-") as folder:
        player = Player(Path(folder), columns, os.environ, show)
        for step in STEPS:
            show(f"\r\n# {step.wish}\r\n$ {step.command}\r\n".encode())
            if player.play(step).exit_code != step.exit_code:
                wrong.append(step.name)
    if wrong:
        print("\nWent otherwise:", ", ".join(wrong))
    return 1 if wrong else 0


def from_install(columns: int) -> int:
    """From pip to the first table, and the table of times."""
    rows = list(install(columns, show))
    print(f"\n{machine()}\n\n| command | seconds | longest silence, seconds |\n|---|---|---|")
    for command, played in rows:
        print(f"| `{command}` | {played.seconds:.1f} | {played.silence:.1f} |")
    return 1 if any(played.exit_code for _, played in rows) else 0


def show(written: bytes) -> None:
    """Pass on what a command writes."""
    sys.stdout.buffer.write(written)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
