"""A warm session of the bench's own: started before, stopped afterwards, never a user's."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.runner import stats

_WARM = (sys.executable, "-m", "lakeport", "warm")
_MARK = "LAKEPORT_BENCH_SESSION"


class NoWarmSession(Exception):
    """Why there is none: this version has no such command, or it did not start."""


@dataclass(frozen=True)
class WarmSession:
    """A running session.

    Attributes:
        environment: by which its clients find it.
        processes: the session's own; what they start is below them.
    """

    environment: Mapping[str, str]
    processes: tuple[int, ...]


@contextmanager
def warm_session(folder: Path) -> Iterator[WarmSession]:
    """A session whose socket lies in a folder of the bench's own.

    Raises:
        NoWarmSession: where it can't be.
    """
    private = folder / "warm"
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark = secrets.token_hex(8)
    environment = {"XDG_RUNTIME_DIR": str(private)}
    known = subprocess.run([*_WARM, "--help"], capture_output=True, text=True)
    if known.returncode:
        raise NoWarmSession("this version has no command `lakeport warm`")
    command = [*_WARM, "start"]
    variables = {**os.environ, **environment, _MARK: mark}
    # Not captured: the session may hold on to its starter's output.
    with (private / "start.log").open("w") as log:
        started = subprocess.run(command, env=variables, stdout=log, stderr=log)
    if started.returncode:
        told = (private / "start.log").read_text(errors="replace").strip()
        raise NoWarmSession(f"`lakeport warm start` failed: {told[-300:]}")
    try:
        yield WarmSession(environment, marked(mark))
    finally:
        subprocess.run([*_WARM, "stop"], env={**os.environ, **environment}, capture_output=True)


def marked(mark: str) -> tuple[int, ...]:
    """The uppermost processes that were started with this mark."""
    wanted = f"{_MARK}={mark}".encode()
    found: dict[int, int] = {}
    for pid, fields in stats():
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = int(fields[1])
    return tuple(pid for pid, parent in found.items() if parent not in found)
