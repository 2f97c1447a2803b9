"""Waits between retries, and signals that cut them short."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_INTERRUPTED: Final = """
import random, signal, sys
from lakeport.host import process

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, stop)
for _ in range(5000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 30e-6))
        process.pause(0.001)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
process.request_end()
"""


def test_a_wait_that_a_signal_ends_at_any_point_leaves_no_lock_taken() -> None:
    """A lock left so kept the process from ever hearing that it was asked to end."""
    command = [sys.executable, "-c", _INTERRUPTED]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
