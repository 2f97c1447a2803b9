"""Core dumps: what a process holds in memory, secrets included, written down when it crashes."""

from __future__ import annotations

import sys
from contextlib import suppress


def forbid_core_dumps(process: int = 0) -> None:
    """Keep a process, and those that it starts from now on, from leaving core dumps.

    Programs that collect dumps for the whole machine, such as systemd-coredump, respect the limit.

    Args:
        process: its id; 0 for this one. Others can be told on Linux only.
    """
    if sys.platform == "win32":
        return
    import resource

    nothing = (0, 0)
    with suppress(OSError, ValueError):  # it has ended, or its limit is lower still
        if sys.platform == "linux":
            resource.prlimit(process, resource.RLIMIT_CORE, nothing)
        elif not process:
            resource.setrlimit(resource.RLIMIT_CORE, nothing)
