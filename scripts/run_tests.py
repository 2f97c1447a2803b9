"""Runs every test, in groups that are processes of their own, as many at once as there are cores.

Tests that end Spark's JVM, or need another Spark session than the rest, have groups to themselves.
Each line is marked with its group's name; the last one sums up pytest's closing lines.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

# The longest first, so that they don't run alone at the end.
GROUPS = {
    "faults": ["tests/faults"],
    "contract": ["tests/contract"],
    "rest": [
        "tests",
        *(
            f"--ignore=tests/{name}"
            for name in ("faults", "contract", "spark", "cluster", "streaming")
        ),
    ],
    "spark": ["tests/spark", "--ignore=tests/spark/test_session.py"],
    "streaming": ["tests/streaming"],
    "cluster": ["tests/cluster"],
    "session": ["tests/spark/test_session.py"],
}
MOST_AT_ONCE = 3  # each has a JVM and servers of its own: memory, too, is finite


def main() -> int:
    """Run the groups that are named, or all; return the exit code."""
    # What starts us may ignore it, and children would inherit that: some tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = sys.argv[1:] or list(GROUPS)
    lanes = min(
        MOST_AT_ONCE, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    )
    begin = time.monotonic()
    with ThreadPoolExecutor(lanes) as pool:
        results = list(pool.map(run, names))
    totals: Counter[str] = Counter()
    for _, closing in results:
        for count, what in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)", closing):
            totals[what] += int(count)
    failed = [name for name, (code, _) in zip(names, results, strict=True) if code]
    if failed:
        print(f"failed: {', '.join(failed)}; `make test GROUPS={failed[0]}` runs one group alone")
    told = ", ".join(f"{count} {what}" for what, count in totals.items()) or "nothing ran"
    print(f" {told} in {time.monotonic() - begin:.0f}s ".center(80, "="))
    return 1 if failed else 0


def run(name: str) -> tuple[int, str]:
    """Run one group, its lines marked; return pytest's exit code and closing line."""
    command = [sys.executable, "-m", "pytest", *GROUPS[name]]
    closing = ""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            closing = line.strip() or closing
            print(f"{name:>8} | {line}", end="", flush=True)
    return process.returncode, closing


if __name__ == "__main__":
    sys.exit(main())
