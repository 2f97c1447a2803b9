"""What every cloud's uploads share: retries with one deadline, and parts sent in the background."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Patience", "Pipeline", "retry"]

T = TypeVar("T")
_FIRST_CONTACT = 15  # seconds


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on asking a store that fails for the moment.

    The delay before a retry is drawn between nothing and a ceiling that doubles up to `longest`
    (full jitter), so that many tasks do not come back together.

    Attributes:
        deadline: seconds after which the last failure is final; the retries of all layers share it.
        first: ceiling of the first delay in seconds.
        longest: ceiling of any delay in seconds.
    """

    deadline: float = 120.0
    first: float = 0.2
    longest: float = 10.0

    def ceiling(self, attempt: int) -> float:
        """Longest delay in seconds after failure number `attempt`, counted from 0.

        >>> [Patience(first=0.5, longest=4.0).ceiling(n) for n in range(5)]
        [0.5, 1.0, 2.0, 4.0, 4.0]
        """
        return min(self.longest, self.first * 2.0 ** min(attempt, 30))

    def at_first(self) -> Patience:
        """What there is of it until a store has answered for the first time.

        A wrong endpoint shall not take two minutes to show.

        >>> Patience().at_first().deadline, Patience(deadline=3).at_first().deadline
        (15, 3)
        """
        return self if self.deadline < _FIRST_CONTACT else Patience(_FIRST_CONTACT)


def retry(
    call: Callable[[], T], passing: Callable[[Exception], bool], patience: Callable[[], Patience]
) -> T:
    """Call until it succeeds, fails for good, or the deadline comes.

    Args:
        call: what to do.
        passing: whether a failure may pass by itself.
        patience: asked after each failure, as a first contact deserves less of it.

    Raises:
        Exception: the last failure, as `call` raised it.
    """
    began = time.monotonic()
    attempt = 0
    while True:
        try:
            return call()
        except Exception as error:
            if not passing(error):
                raise
            allowed = patience()
            delay = random.uniform(0, allowed.ceiling(attempt))
            if time.monotonic() - began + delay > allowed.deadline:
                raise
        attempt += 1
        time.sleep(delay)


class Pipeline:
    """Runs uploads behind the encoder's back, with at most `threads` of them under way.

    A failure comes out of the next `submit` or of `drain`.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakeport-upload")
        self._running: deque[Future[Any]] = deque()

    def submit(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Run a call in the background; wait first while too many are under way."""
        while len(self._running) >= self._threads:
            self._running.popleft().result()
        self._running.append(self._pool.submit(call, *arguments))

    def drain(self) -> None:
        """Wait for all calls."""
        while self._running:
            self._running.popleft().result()
        self._pool.shutdown()

    def cancel(self) -> None:
        """Drop what has not begun and wait for the rest; failures are swallowed."""
        self._running.clear()
        self._pool.shutdown(cancel_futures=True)
