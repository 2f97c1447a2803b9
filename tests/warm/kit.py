"""`lakeport warm` as users have it, and what of its processes can be seen from outside."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lakeport.host.scratch import cache_folder
from lakeport.host.warm import PROGRAM
from tests.faults.kit import (
    BY_SPARK,
    PATIENCE,
    Lake,
    Outcome,
    Process,
    alive,
    await_end,
    run,
    started,
)
from tests.faults.kit import land as land_anywhere

_TRACED = Path(__file__).parent / "traced"


def land(lake: Lake, *more: str | Path, source: str | Path = "-") -> Sequence[str | Path]:
    """The command line that loads into a lake, whose tables have Spark commit to them."""
    options = BY_SPARK if lake.format == "delta" else ()
    return land_anywhere(lake, *more, *options, source=source)


def _words(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _parent(process: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _trace() -> str:
    """Where what is covered is written, as the whole run's."""
    return os.environ.get("COVERAGE_FILE") or str(Path(".coverage").absolute())


def cache(folder: Path) -> Path:
    """A cache folder with what is in this machine's, and sessions of its own."""
    for kept in cache_folder().iterdir():
        if kept.name != "warm":
            (folder / kept.name).symlink_to(kept)
    return folder


@dataclass
class Warm(AbstractContextManager["Warm"]):
    """The warm sessions of one cache folder.

    Attributes:
        cache: that folder.
    """

    cache: Path

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a process has to have that is to find them."""
        temporary = self.cache / "tmp"
        temporary.mkdir(exist_ok=True)
        here = {
            "LAKEPORT_CACHE": str(self.cache),
            "TMPDIR": str(temporary),
            "LAKEPORT_WARM": "auto",
        }
        if "COVERAGE_RUN" in os.environ:
            # Of a session's environment, only names such as these are left.
            here |= {"PYTHONPATH": str(_TRACED), "PYTHON_LAKEPORT_TRACE": _trace()}
        return {**here, **(more or {})}

    def run(
        self, *arguments: str | Path, given: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run lakeport to its end."""
        return run(*arguments, given=given, env=self.environment(env))

    @contextmanager
    def started(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None
    ) -> Iterator[Process]:
        """Run lakeport; whatever is left of the client at the end of the block is killed."""
        with started(*arguments, env=self.environment(env)) as process:
            yield process

    def start(self, *options: str) -> None:
        """`lakeport warm start`, and a load right behind it, which waits for its Spark."""
        done = self.run("warm", "start", *options)
        assert done.code == 0, done.err
        source = self.cache / "ready.csv"
        source.write_text("a\n1\n")
        lake = self.cache / "ready"
        done = self.run("land", source, "--to", lake)
        assert done.code == 0, done.err
        assert self.served()

    def status(self) -> list[dict[str, Any]]:
        """What `lakeport warm status` says."""
        done = self.run("warm", "status", "--json")
        assert done.code == 0, done.err
        found: list[dict[str, Any]] = json.loads(b"".join(done.out))
        return found

    def served(self) -> int:
        """How many runs have gone through the session."""
        return int(self.answer()["served"])

    def answer(self) -> dict[str, Any]:
        """What the one session says of itself; waits until it has time to."""
        end = time.monotonic() + PATIENCE
        while (told := self.status()[0])["served"] is None:
            assert time.monotonic() < end, told
        return told

    def processes(self) -> list[int]:
        """The sessions' first processes."""
        ours = {number for number in self.traces() if PROGRAM in _words(number)}
        return [number for number in ours if _parent(number) not in ours]

    def family(self) -> dict[int, str]:
        """Every process of the sessions, with its command line."""
        found: dict[int, str] = {}
        todo = self.processes()
        while todo:
            process = todo.pop()
            with suppress(OSError):
                found[process] = _words(process)
                for task in Path(f"/proc/{process}/task").iterdir():
                    todo += map(int, (task / "children").read_text().split())
        return found

    def traces(self) -> list[int]:
        """Every process on this machine that has this cache folder in its environment."""
        found, ours = [], str(self.cache).encode()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and ours in entry.joinpath("environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def java(self) -> int:
        """The sessions' JVM."""
        return next(number for number, words in self.family().items() if "SparkSubmit" in words)

    def await_end(self) -> None:
        """Wait until no session is left."""
        family = set(self.family())
        end = time.monotonic() + PATIENCE
        while alive(family):
            assert time.monotonic() < end, f"these are left: {self.family()}"
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(AssertionError):
            self.run("warm", "stop")
        family = self.family()
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        await_end(family)
