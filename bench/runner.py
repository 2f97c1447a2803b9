"""Runs one command to its end, with all that it starts, and prints what that took as JSON.

`python runner.py '{"command": [...], "limit": 900, ...}'`; Linux only. It is a process of its own
so that the system hands it every descendant of the command whose parent has ended (a "subreaper"):
none is left out of the processor time, and none is left over.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

EVERY = 0.1  # seconds between two looks at the memory
_SUBREAPER, _DEATH_SIGNAL = 36, 1
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run what the first argument asks for."""
    asked = json.loads(sys.argv[1])
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    beside = asked.get("beside", [])
    before = sum(map(processor_seconds, tree(beside)))
    watch = Watch([os.getpid(), *beside])
    with open(asked["log"], "wb") as log:
        start = time.monotonic()
        feed = asked.get("stdin")
        process = subprocess.Popen(
            asked["command"],
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_runner,
        )
        feeder = threading.Thread(target=pour, args=(process, feed), daemon=True)
        if feed:
            feeder.start()
        watch.start()
        code = ended(process, asked["limit"])
        seconds = time.monotonic() - start
    reap(time.monotonic() + (asked["linger"] if code is not None else 0))
    watch.ended.set()
    watch.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime + sum(map(processor_seconds, tree(beside))) - before
    # Spark's daemon ignores its workers' ends: what they used is in nobody's account.
    cpu = max(cpu, watch.processor_seconds)
    print(json.dumps({"code": code, "seconds": seconds, "cpu": cpu, "memory": watch.peak}))


def ended(process: subprocess.Popen[bytes], limit: float) -> int | None:
    """A process's exit code, at the moment of its end: `Popen.wait` looks every 50 ms only."""
    end = os.pidfd_open(process.pid)
    try:
        return process.wait() if select.select([end], [], [], limit)[0] else None
    finally:
        os.close(end)


def end_with_runner() -> None:
    """Have the system kill the command when this process is killed."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def pour(process: subprocess.Popen[bytes], feed: dict[str, Any]) -> None:
    """Write a file to the command's standard input, as often as asked."""
    assert process.stdin
    with suppress(BrokenPipeError), process.stdin as pipe:
        for _ in range(feed["times"]):
            with open(feed["path"], "rb") as source:
                while chunk := source.read(1 << 20):
                    pipe.write(chunk)


class Watch(threading.Thread):
    """Looks at process trees until it is told that all has ended.

    Attributes:
        peak: the most memory so far, in MB; pages that several share count once (PSS). This
            process, which is the first of the trees, does not count.
    """

    def __init__(self, roots: list[int]) -> None:
        super().__init__(daemon=True)
        self.roots, self.peak, self.ended = roots, 0.0, threading.Event()
        self._before = {pid: processor_seconds(pid, reaped=False) for pid in tree(roots)}
        self._used: dict[int, float] = {}

    def run(self) -> None:
        while not self.ended.wait(EVERY):
            found = tree(self.roots)[1:]
            for pid in found:
                used = processor_seconds(pid, reaped=False)
                self._used[pid] = max(used, self._used.get(pid, 0.0))
            self.peak = max(self.peak, sum(map(pss_mb, found)))

    @property
    def processor_seconds(self) -> float:
        """What all of them had used when they were last looked at."""
        return sum(used - self._before.get(pid, 0.0) for pid, used in self._used.items())


def reap(deadline: float) -> None:
    """Wait for every descendant, and kill what is there after the deadline."""
    while True:
        try:
            found = os.waitpid(-1, os.WNOHANG)[0]
        except ChildProcessError:
            return
        if not found:
            if time.monotonic() > deadline:
                for pid in tree([os.getpid()])[1:]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def tree(roots: list[int]) -> list[int]:
    """These processes and all below them, the first one first."""
    children: dict[int, list[int]] = {}
    for pid, fields in stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    queue = list(roots)
    while queue:
        pid = queue.pop(0)
        found.append(pid)
        queue.extend(children.get(pid, ()))
    return found


def stats() -> Iterator[tuple[int, list[str]]]:
    """Every process, with the fields of its `stat` that follow the name."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()


def processor_seconds(pid: int, *, reaped: bool = True) -> float:
    """What a process has used so far; with `reaped`, its children that it has waited for, too."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11 : 15 if reaped else 13])) / _TICK
    return 0.0


def pss_mb(pid: int) -> float:
    """A process's memory, its share of what it has in common with others."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
