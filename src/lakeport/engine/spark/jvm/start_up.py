"""From when to when Spark started."""

from __future__ import annotations

import threading
import time

__all__ = ["StartUp"]


class StartUp(threading.Event):
    """Is set once Spark is there, or will never be.

    Attributes:
        began: when the start began, by `time.monotonic`; None where none was needed yet.
        ended: when it was over; None before.
    """

    began: float | None = None
    ended: float | None = None

    def begin(self) -> None:
        """Begin."""
        self.began = time.monotonic()

    def set(self) -> None:
        """Be over."""
        self.ended = self.ended or time.monotonic()
        super().set()
