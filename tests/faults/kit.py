"""lakeport as a process of its own, watched and killed from outside, and readers of what it left.

Nothing here hooks into the product: a `Process` is run as a user runs it, and `Lake` looks at the
disk the way delta-rs and pyarrow do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.engine.spark.jvm.jars import known_needs
from tests.contract.targets import record, schema, singer, state

PATIENCE = 240.0
"""Seconds after which a process that does not get anywhere is taken for hung."""

INTEGER = {"type": "integer"}
STRING = {"type": ["null", "string"]}


def users(rows: int, every: int = 0, *, stream: str = "users", start: int = 0) -> bytes:
    """Singer lines of one stream with ids `start`...; a STATE tells how many ids are behind it.

    Args:
        rows: number of records.
        every: a STATE behind each `every`th record; 0 for none.
        stream: its name.
        start: the first id.
    """
    lines: list[dict[str, Any] | bytes] = [schema(stream, {"id": INTEGER, "name": STRING}, "id")]
    for number in range(start, start + rows):
        lines.append(record(stream, id=number, name=f"n{number}"))
        if every and (number + 1) % every == 0:
            lines.append(state(**{stream: number + 1}))
    return singer(*lines)


@dataclass(frozen=True)
class Lake:
    """A folder that is loaded, seen from outside."""

    root: Path
    format: str

    @property
    def staging(self) -> Path:
        """Where files lie that are not visible yet."""
        return self.root / "_lakeport" / "staging"

    def staged(self) -> list[str]:
        """Files that are not visible yet."""
        return [path.name for path in self.staging.glob("*")]

    def journal(self, pattern: str) -> list[Path]:
        """Entries of the journal."""
        return list((self.root / "_lakeport" / "journal").rglob(pattern))

    def objects(self, table: str = "users") -> list[Path]:
        """Data files with a visible name, of Delta whether or not the log has them."""
        return sorted((self.root / table).rglob("*.parquet"))

    def versions(self, table: str = "users") -> list[int]:
        """Versions in the Delta log."""
        log = self.root / table / "_delta_log"
        return sorted(int(path.stem) for path in log.glob("[0-9]*.json"))

    def exists(self, table: str = "users") -> bool:
        """Whether readers find a table."""
        return bool(self.versions(table) if self.format == "delta" else self.objects(table))

    def rows(self, table: str = "users") -> list[dict[str, Any]]:
        """Every row that readers see."""
        if not self.exists(table):
            return []
        if self.format == "delta":
            from deltalake import DeltaTable, QueryBuilder

            found = DeltaTable(str(self.root / table))
            if "delta.columnMapping.mode" not in found.metadata().configuration:
                return list(found.to_pyarrow_table().to_pylist())
            # The way over pyarrow does not know that columns have other names in the files.
            query = QueryBuilder().register("lake", found).execute("SELECT * FROM lake")
            return list(pa.table(query.read_all()).to_pylist())
        return [row for path in self.objects(table) for row in pq.read_table(path).to_pylist()]

    def ids(self, table: str = "users") -> list[int]:
        """Ids that readers see, sorted."""
        return sorted(row["id"] for row in self.rows(table))

    def check_log(self, table: str = "users") -> None:
        """The Delta log is contiguous, and every file that it names is there and whole."""
        from deltalake import DeltaTable

        versions = self.versions(table)
        assert versions == list(range(len(versions)))
        if versions:
            for uri in DeltaTable(str(self.root / table)).file_uris():
                pq.read_metadata(uri.removeprefix("file://"))


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without lakeport's own keys."""
    kept_names = ("LAKEPORT_CACHE", "LAKEPORT_CDS", "LAKEPORT_PROGRESS", "LAKEPORT_VERBOSE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LAKEPORT_") or name in kept_names
    }
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **(more or {})}


def of_the_tests(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same, with the engine that `--engine` names for the tests' own loads."""
    return environment({"LAKEPORT_ENGINE": os.environ["LAKEPORT_ENGINE"], **(more or {})})


@dataclass
class Process:
    """`python -m lakeport ...`, with its standard input held by the test.

    Attributes:
        popen: the process.
        out: lines of standard output so far.
        err: standard error so far.
    """

    popen: subprocess.Popen[bytes]
    out: list[bytes] = field(default_factory=list)
    err: bytearray = field(default_factory=bytearray)
    _threads: list[threading.Thread] = field(default_factory=list)

    def follow(self) -> None:
        """Read what it writes, in the background."""
        for body in (self._read_out, self._read_err):
            thread = threading.Thread(target=body, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _read_out(self) -> None:
        with suppress(ValueError):
            for line in self.popen.stdout or ():
                self.out.append(line)

    def _read_err(self) -> None:
        for line in self.popen.stderr or ():
            self.err += line

    def feed(self, data: bytes, *, close: bool = True) -> None:
        """Write to its standard input, in the background; a process that has gone is fine."""

        def write() -> None:
            assert self.popen.stdin is not None
            with suppress(OSError, ValueError):
                self.popen.stdin.write(data)
                self.popen.stdin.flush()
            if close:
                with suppress(OSError):
                    self.popen.stdin.close()

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        self._threads.append(thread)

    def wait_for(self, seen: Callable[[], bool]) -> bool:
        """Watch until something is seen; False if the process ended without.

        To look takes at most a fourth of a core, which the process needs itself.
        """
        end = time.monotonic() + PATIENCE
        while True:
            began = time.monotonic()
            if seen():
                return True
            if self.popen.poll() is not None:
                return seen()
            if time.monotonic() > end:
                self.send(signal.SIGABRT)  # has it show every thread's stack
                self.end()
                raise AssertionError(f"hung; it said {self.words}")
            time.sleep(max(0.001, 3 * (time.monotonic() - began)))

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def end(self) -> int:
        """Wait for its end and for all that it wrote; return its exit code."""
        try:
            code = self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGABRT)  # has it show every thread's stack
            self.popen.wait(PATIENCE)
            stacks = re.findall(r"File \"[^\"]*/([^\"]+)\", line (\d+)", self.words)
            raise AssertionError(f"hung; {stacks[-8:]} it said {self.words}") from None
        for thread in self._threads:
            thread.join(PATIENCE)
        return code

    @property
    def words(self) -> str:
        """Its standard error."""
        return self.err.decode()

    def states(self) -> list[Any]:
        """Values of its standard output's lines."""
        return [json.loads(line) for line in self.out]

    def family(self) -> set[int]:
        """Its living descendants."""
        found: set[int] = set()
        todo = [self.popen.pid]
        while todo:
            for pid in _children(todo.pop()) - found:
                found.add(pid)
                todo.append(pid)
        return found


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found |= {int(child) for child in (task / "children").read_text().split()}
    return found


def alive(pids: Iterable[int]) -> set[int]:
    """Those of these processes that still run; zombies do not."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(pid)
    return found


@contextmanager
def started(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    follow: bool = True,
    program: Sequence[str] = ("-m", "lakeport"),
) -> Iterator[Process]:
    """Start lakeport, or another program; what is left of it at the end of the block is killed."""
    with tempfile.TemporaryDirectory(prefix="lakeport-faults-") as temporary:
        popen = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", *program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=of_the_tests({"TMPDIR": temporary, **(env or {})}),
            preexec_fn=before,
        )
        process = Process(popen)
        if follow:
            process.follow()
        try:
            yield process
        finally:
            family = process.family()
            if popen.poll() is None:
                popen.kill()
            process.end()
            await_end(family)
            for pipe in (popen.stdin, popen.stdout, popen.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def await_end(pids: Iterable[int]) -> None:
    """Wait until processes have ended by themselves."""
    end = time.monotonic() + PATIENCE
    left = alive(pids)
    while left:
        assert time.monotonic() < end, f"processes outlive the one that started them: {left}"
        time.sleep(0.01)
        left = alive(left)


@dataclass(frozen=True)
class Outcome:
    """What a whole run left."""

    code: int
    out: list[bytes]
    err: str

    @property
    def states(self) -> list[Any]:
        """Values of the lines on standard output."""
        return [json.loads(line) for line in self.out]


def run(
    *arguments: str | Path,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Outcome:
    """Run lakeport to its end."""
    with started(*arguments, env=env, before=before) as process:
        process.feed(given)
        return Outcome(process.end(), process.out, process.words)


BY_SPARK = (
    ("--set", 'table_properties={"delta.logRetentionDuration": "interval 30 days"}')
    if known_needs({"delta"})
    else ()
)
"""Options of `land` that leave commits to delta-spark, which alone knows such tables' rules.

None on a Spark that has no Delta.
"""


def land(lake: Lake, *more: str | Path, source: str | Path = "-") -> Sequence[str | Path]:
    """The command line that loads into a lake."""
    return ["land", source, "--to", lake.root, "--format", lake.format, *more]
