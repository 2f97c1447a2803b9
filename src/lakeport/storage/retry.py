"""What every cloud's uploads share: retries with one deadline, and parts sent in the background."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

__all__ = [
    "GIVE_UP_SECONDS",
    "SLOW_STORE",
    "Condition",
    "Contact",
    "GivenUp",
    "NoAnswer",
    "Patience",
    "Pipeline",
]

GIVE_UP_SECONDS = 120.0
"""How long to go on asking a store that fails, unless the user says otherwise."""
SLOW_STORE = (
    "try again later, or set `give_up_after` for longer; a smaller `target_file_size_mb` or fewer "
    "tasks ask less of the store."
)
"""The hint where a store is overloaded."""

Condition = Literal["none", "absent", "same"]
"""What a request asks for: nothing; that nothing has the name yet; that one version is read."""

T = TypeVar("T")
_FIRST_CONTACT = 15.0  # seconds
_GRACE = 5.0  # seconds that all requests have together once one was given up,
_AFTERMATH = 30.0  # if they come within these
_SHARE = 3  # requests that stay without an answer use a deadline up,
_LEAST_SILENCE = 5.0  # unless that left them less than these seconds each


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

    deadline: float = GIVE_UP_SECONDS
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
        (15.0, 3)
        """
        return self if self.deadline < _FIRST_CONTACT else Patience(_FIRST_CONTACT)

    def silence(self, most: float) -> float:
        """Seconds after which an endpoint that stays silent is asked anew.

        One request that is never answered must not use the whole deadline up.

        Args:
            most: where the deadline is long.

        >>> [Patience(deadline).silence(60) for deadline in (600, 30, 6, 2)]
        [60, 10.0, 5.0, 2]
        """
        return min(most, max(_LEAST_SILENCE, self.deadline / _SHARE), self.deadline)


class GivenUp(Exception):
    """A failure that may pass, and was waited for as long as it should be.

    Args:
        cause: the last failure.
        seconds: how long the store was asked.
    """

    def __init__(self, cause: Exception, seconds: float) -> None:
        super().__init__(cause, seconds)
        self.cause = cause
        self.seconds = seconds


class NoAnswer(Exception):
    """A request was not answered in the time that was left, or none was left to send it."""


class Contact:
    """What the requests of one process have met at a store; they share one deadline.

    When a request has been given up, those that come next find out what became of it, and tidy
    up. They must not wait as long again, one after the other: until one passes, they have a few
    seconds together.

    Attributes:
        reached: whether the store has answered at all.
    """

    _works: ClassVar[int] = 0

    def __init__(self) -> None:
        self.reached = False
        self._lost_at = -math.inf
        self._lost_in = 0

    @classmethod
    def begin(cls) -> None:
        """Have every store asked for as long as ever: what was given up was another load's."""
        cls._works += 1

    def lose(self) -> None:
        """Have the requests that come next share a few seconds, as there is no time for more."""
        self._lost_at, self._lost_in = time.monotonic(), self._works

    def ask(
        self,
        call: Callable[[], T],
        passing: Callable[[Exception], bool],
        patience: Callable[[Exception], Patience],
    ) -> T:
        """Call until it succeeds, fails for good, or the deadline comes.

        Args:
            call: what to do.
            passing: whether a failure may pass by itself.
            patience: for a failure; a store that was never reached gets less of it.

        Raises:
            GivenUp: the failures did not pass.
            Exception: what `call` raised, and will not pass.
        """
        began = time.monotonic()
        hurried = began - self._lost_at < _AFTERMATH and self._lost_in == self._works
        end = self._lost_at + _GRACE
        attempt = 0
        failure: Exception | None = None
        while True:
            try:
                answer = _in_time(call, end) if hurried else call()
            except Exception as error:
                if not passing(error) and not isinstance(error, NoAnswer):
                    raise
                if failure is None or not isinstance(error, NoAnswer):
                    failure = error  # an answer tells more than none
                allowed = patience(error)
                allowed = allowed if self.reached else allowed.at_first()
                delay = random.uniform(0, allowed.ceiling(attempt))
                now = time.monotonic()
                if now + delay > (end if hurried else began + allowed.deadline):
                    if not hurried:
                        self.lose()
                    raise GivenUp(failure, now - began) from error
            else:
                self._lost_at = -math.inf
                return answer
            attempt += 1
            time.sleep(delay)


def _in_time(call: Callable[[], T], end: float) -> T:
    """The call's answer, if it comes before `end`; a call that hangs is left behind.

    Raises:
        NoAnswer: it did not come.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:
            outcome.set_exception(error)

    if end <= time.monotonic():
        raise NoAnswer
    threading.Thread(target=run, name="lakeport-hurried", daemon=True).start()
    try:
        return outcome.result(end - time.monotonic())
    except FutureTimeout:
        raise NoAnswer from None


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
