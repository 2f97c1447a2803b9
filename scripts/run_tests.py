"""Runs every test, in groups that are processes of their own, as many at once as there are cores.

Tests that end Spark's JVM, or need another Spark session than the rest, have groups to themselves.
Each line is marked with its group's name; the last ones name what failed and sum up pytest's
closing lines.
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

REQUESTS = ("tests/faults/test_planted.py", "tests/faults/test_requests.py")
HISTORIES = "tests/histories/test_share.py"  # the others play for minutes
ALONE = ("tests/unit", "tests/property", "tests/fuzz", "tests/docs")
APART = (*ALONE, *(f"tests/{name}" for name in ("faults", "contract", "spark", "cluster")))

# What the first needs no server: it runs while they are built. Then the longest come first, so that
# they don't run alone at the end.
GROUPS = {
    "alone": list(ALONE),
    "spark": ["tests/spark", "--ignore=tests/spark/test_session.py"],
    "faults": ["tests/faults", *(f"--ignore={path}" for path in REQUESTS)],
    "contract": ["tests/contract"],
    "requests": [*REQUESTS, HISTORIES],
    "rest": [
        "tests",
        *(f"--ignore={path}" for path in (*APART, "tests/streaming", "tests/histories")),
    ],
    "streaming": ["tests/streaming"],
    "cluster": ["tests/cluster"],
    "session": ["tests/spark/test_session.py"],
}
SERVERS = ["-m", "tests.emulators", "--build"]
CLASSES = ["-m", "lakeport.spark.jvm.archive", "delta"]  # what most processes of the tests need
WIDEST = 160  # of a failed test's line, in characters: enough to tell where to look
MOST_AT_ONCE = 3  # each has a JVM and servers of its own: memory, too, is finite


def main() -> int:
    """Run the groups that are named, or all; return the exit code."""
    # What starts us may ignore it, and children would inherit that: some tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = sys.argv[1:] or list(GROUPS)
    workers = min(
        MOST_AT_ONCE, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    )
    begin = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        first = [pool.submit(run, name) for name in names if name == "alone"]
        code = max(show("prepare", command)[0] for command in (SERVERS, CLASSES))
        if code:
            return 1
        later = [pool.submit(run, name) for name in names if name != "alone"]
        results = [future.result() for future in (*first, *later)]
    names.sort(key=lambda name: name != "alone")
    totals: Counter[str] = Counter()
    for _, closing, _ in results:
        for count, what in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)", closing):
            totals[what] += int(count)
    failed = [name for name, (code, *_) in zip(names, results, strict=True) if code]
    for *_, lines in results:
        for line in lines:
            print(line)
    if failed:
        print(f"failed: {', '.join(failed)}; `make test GROUPS={failed[0]}` runs one group alone")
    told = ", ".join(f"{count} {what}" for what, count in totals.items()) or "nothing ran"
    print(f" {told} in {time.monotonic() - begin:.0f}s ".center(80, "="))
    return 1 if failed else 0


def run(name: str) -> tuple[int, str, list[str]]:
    """Run one group, its lines marked; return the exit code, closing line and failed tests."""
    code, lines = show(name, ["-m", "pytest", *GROUPS[name]])
    closing = next((line for line in reversed(lines) if line), "")
    failed = [
        line[:WIDEST]
        for line in lines
        if re.match(r"(FAILED|ERROR) tests/|Using --randomly-seed", line)
    ]
    return code, closing, failed if code else []


def show(name: str, arguments: list[str]) -> tuple[int, list[str]]:
    """Run a Python program, its lines marked with a name; return its exit code and lines."""
    lines = []
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line.strip())
            print(f"{name:>8} | {line}", end="", flush=True)
    return process.returncode, lines


if __name__ == "__main__":
    sys.exit(main())
