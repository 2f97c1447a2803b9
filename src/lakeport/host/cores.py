"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def available_cores() -> int:
    """Cores that this process may use, container limits included, as the JVM counts them."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        # No limit, or no such file.
        pass
    return max(1, count)
