"""A warm session of the bench's own: started before, stopped afterwards, never a user's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.environments import class_archive
from bench.measure import environment
from bench.runner import stats
from lakeport.host.scratch import cache_folder

_WARM = (sys.executable, "-m", "lakeport", "warm")
_CACHE = "LAKEPORT_CACHE"


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


def own_cache(work: Path) -> dict[str, str]:
    """The environment of a cache folder of the bench's own, with the user's jars.

    A session lives in the cache folder.
    """
    folder = work / "cache"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "jars").is_symlink():
        (cache_folder() / "jars").mkdir(parents=True, exist_ok=True)
        (folder / "jars").symlink_to(cache_folder() / "jars")
    return {_CACHE: str(folder)}


@contextmanager
def warm_session(work: Path) -> Iterator[WarmSession]:
    """A session that lives until it is stopped.

    Raises:
        NoWarmSession: where it can't be.
    """
    found = own_cache(work)
    variables = environment(found)
    if subprocess.run([*_WARM, "--help"], env=variables, capture_output=True).returncode:
        raise NoWarmSession("this version has no command `lakeport warm`")
    class_archive(variables)
    log = work / "warm.log"
    with log.open("w") as told:  # a pipe might be held open by the session
        command = [*_WARM, "start", "--idle", "24h"]
        started = subprocess.run(command, env=variables, stdout=told, stderr=told)
    if started.returncode:
        raise NoWarmSession(f"`lakeport warm start` failed: {log.read_text()[-300:]}")
    try:
        yield WarmSession(found, living(found[_CACHE]))
    finally:
        subprocess.run([*_WARM, "stop"], env=variables, capture_output=True)


def living(cache: str) -> tuple[int, ...]:
    """The uppermost processes with this cache folder."""
    wanted = f"{_CACHE}={cache}".encode()
    found: dict[int, int] = {}
    for pid, fields in stats():
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = int(fields[1])
    return tuple(pid for pid, parent in found.items() if parent not in found)
