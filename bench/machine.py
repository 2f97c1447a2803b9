"""The machine and the versions that results were measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.environments import PINS
from lakeport.engine.spark.jvm.java import find_java


def about(note: str) -> dict[str, Any]:
    """Date, machine and versions; the note says what else a reader should know."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "note": note,
    }


def machine() -> dict[str, str]:
    """Cores, processor, memory and kernel."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": processor(),
        "memory": f"{memory / 2**30:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
    }


def processor() -> str:
    """Its name, as Linux tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def versions() -> dict[str, str]:
    """lakeport's and what it runs on; each peer as it is pinned."""
    own = {name: version(name) for name in ("lakeport", "pyspark", "delta-spark", "pyarrow")}
    pinned = {name: ", ".join(packages) for name, packages in PINS.items() if name != "plots"}
    found = {"python": platform.python_version(), "java": find_java().full_version, **own, **pinned}
    return found | {"lakeport": f"{own['lakeport']}, source {source()}"}


def commit() -> str:
    """The commit that is checked out."""
    return _git("rev-parse", "--short=12", "HEAD") or "unknown"


def source() -> str:
    """What names lakeport's source: its tree in git, and whether there are changes to it."""
    tree = _git("rev-parse", "--short=12", "HEAD:src") or "unknown"
    return f"{tree} with changes" if _git("status", "--porcelain", "--", "src") else tree


def _git(*arguments: str) -> str:
    root = Path(__file__).parents[1]
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.stdout.strip()
