"""Observers of loads that lose a process, or end it; the orchestrators' own Pythons import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from lakeport.loading.cancellation import _cancellations
from lakeport.loading.report import LandingReport, Observer
from lakeport.model import Landed

WAIT_SECONDS = 60


class LostOnce(Observer):
    """Fails a load once it has landed, the first time: what becomes of a worker that is lost."""

    def __init__(self, marker: str) -> None:
        self._marker = Path(marker)

    def on_finished(self, report: LandingReport) -> None:
        """Fail, but where that was done before."""
        if not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("the worker was lost")


class Interrupted(Observer):
    """Sends this process a signal once the first batch has landed, and waits for the load's end."""

    def __init__(self, number: signal.Signals) -> None:
        self._number: signal.Signals | None = number

    def on_landed(self, landed: Landed) -> None:
        """Send the signal, the first time, and wait until the load is asked to end."""
        number, self._number = self._number, None
        if number is None:
            return
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and not any(each._requested for each in _cancellations):
            time.sleep(0.02)
