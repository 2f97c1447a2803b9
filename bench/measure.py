"""One command as a whole process: wall seconds, and the peak memory of its process tree."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
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
