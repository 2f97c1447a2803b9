"""Waits that a signal cuts short: a process that is asked to end sleeps no more between retries.

No lock is taken here. A signal that raises in the main thread may raise just after that thread has
taken one, which then stays taken: all that ask for it later would wait for ever.
"""

from __future__ import annotations

import time
from typing import Final

_RETRY_SECONDS: Final = 4.0
"""How long a request is repeated after the process was asked to end."""

_STEP_SECONDS: Final = 0.05
"""How soon a thread that waits notices that the process was asked to end."""

_asked_at: float | None = None


def ask() -> None:
    """Cut this process's waits short."""
    global _asked_at
    if _asked_at is None:
        _asked_at = time.monotonic()


def forget() -> None:
    """Let waits be whole again, once the command that was asked to end has ended."""
    global _asked_at
    _asked_at = None


def pause(seconds: float) -> None:
    """Sleep so long, or until the process is asked to end; once it was asked, sleep."""
    before, end = _asked_at, time.monotonic() + seconds
    while _asked_at == before and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _STEP_SECONDS))


def retries_end() -> float | None:
    """Return until when requests are repeated, by `time.monotonic`; None without an end."""
    asked_at = _asked_at
    return None if asked_at is None else asked_at + _RETRY_SECONDS
