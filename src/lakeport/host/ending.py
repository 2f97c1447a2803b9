"""Waits that a signal cuts short: a process that is asked to end sleeps no more between retries."""

from __future__ import annotations

import threading
import time
from typing import Final

_RETRY_SECONDS: Final = 4.0
"""How long a request is repeated after the process was asked to end."""

_asked = threading.Event()
_asked_at = 0.0


def ask() -> None:
    """Cut this process's waits short. Not for a signal's handler: it may interrupt such a wait."""
    global _asked_at
    if not _asked.is_set():
        _asked_at = time.monotonic()
        _asked.set()


def forget() -> None:
    """Let waits be whole again, once the command that was asked to end has ended."""
    _asked.clear()


def pause(seconds: float) -> None:
    """Sleep so long, or until the process is asked to end; once it was asked, sleep."""
    if _asked.is_set():
        time.sleep(seconds)
    else:
        _asked.wait(seconds)


def retries_end() -> float | None:
    """Return until when requests are repeated, by `time.monotonic`; None without an end."""
    return _asked_at + _RETRY_SECONDS if _asked.is_set() else None
