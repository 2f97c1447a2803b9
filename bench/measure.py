"""Commands as whole processes, in turn: wall seconds, and the peak memory of a process tree."""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """What one run took.

    Attributes:
        seconds: wall time, start and exit included.
        memory_mb: peak of the process tree, shared pages counted once (PSS).
        ok: whether it exited with 0.
        output: the end of what it printed.
    """

    seconds: float
    memory_mb: float
    ok: bool
    output: str


@dataclass(frozen=True)
class Measured:
    """A case over all rounds.

    Attributes:
        seconds: the median.
        memory_mb: the largest.
    """

    seconds: float
    memory_mb: float


def compare(
    rounds: int,
    cases: Callable[[int], Mapping[str, Sequence[str]]],
    env: Mapping[str, str] | None = None,
    before: Callable[[str], None] = lambda name: None,
) -> dict[str, Measured]:
    """Run every case once a round, in turn; one that fails is told and left out.

    Args:
        rounds: how many.
        cases: a round's number -> the cases' commands by their names.
        env: what the commands have in their environment besides this one's.
        before: is called with a case's name right before it runs.
    """
    runs: dict[str, list[Run]] = {}
    for number in range(rounds):
        for name, command in cases(number).items():
            before(name)
            result = run(command, env)
            if result.ok:
                runs.setdefault(name, []).append(result)
            else:
                print(f"{name} failed: {result.output[-500:]}")
    return {
        name: Measured(
            statistics.median(one.seconds for one in each), max(one.memory_mb for one in each)
        )
        for name, each in runs.items()
    }


def show(
    title: str, found: Mapping[str, Measured], against: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print a table.

    Args:
        title: what was measured.
        found: the cases.
        against: a case -> others, of whose time it takes the multiples that are printed.
    """
    print(f"\n{title}")
    print(f"{'case':<20}{'seconds':>9}{'memory MB':>11}  against")
    for name, one in found.items():
        others = [other for other in (against or {}).get(name, ()) if other in found]
        ratios = ", ".join(f"{one.seconds / found[o].seconds:.2f}x {o}" for o in others)
        print(f"{name:<20}{one.seconds:>9.1f}{one.memory_mb:>11.0f}  {ratios}".rstrip())


def run(command: Sequence[str], env: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end and measure it; bytecode is cached as on any user's machine."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment.update(env or {})
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, peak), daemon=True)
    watcher.start()
    output = process.communicate()[0].decode(errors="replace")
    seconds = time.monotonic() - start
    watcher.join(2)
    return Run(seconds, peak[0], process.returncode == 0, output[-2000:])


def _watch(process: subprocess.Popen[bytes], peak: list[float]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_pss_mb, _tree(process.pid))))
        time.sleep(0.25)


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(children.get(pid, ()))
    return found


def _pss_mb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
