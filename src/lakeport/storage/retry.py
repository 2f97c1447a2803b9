"""Retries of requests to a store: how long, how often, and one deadline for all layers."""

from __future__ import annotations

import math
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from lakeport.errors import causes
from lakeport.host import ending

GIVE_UP_SECONDS = 120.0
"""How long to go on asking a store that fails, unless the user says otherwise."""

T = TypeVar("T")
_FIRST_CONTACT = 15.0  # seconds
_NOBODY_THERE = 0.5  # seconds
_NOBODY = (ConnectionRefusedError, socket.gaierror)
_GRACE = 5.0  # seconds that all requests have together once one was given up,
_AFTERMATH = 30.0  # if they come within these
_SHARE = 3  # requests that stay without an answer use a deadline up,
_LEAST_TIMEOUT = 5.0  # unless that left them less than these seconds each


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to go on asking a store that fails for the moment.

    The delay before a retry is drawn between nothing and a bound that doubles up to `max_delay`
    (full jitter), so that many tasks do not come back together.

    Attributes:
        deadline: seconds after which the last failure is final; the retries of all layers share it.
        initial_delay: bound of the first delay in seconds.
        max_delay: bound of any delay in seconds.
    """

    deadline: float = GIVE_UP_SECONDS
    initial_delay: float = 0.2
    max_delay: float = 10.0

    def backoff(self, attempt: int) -> float:
        """Longest delay in seconds after failure number `attempt`, counted from 0.

        >>> [RetryPolicy(initial_delay=0.5, max_delay=4.0).backoff(n) for n in range(5)]
        [0.5, 1.0, 2.0, 4.0, 4.0]
        """
        return min(self.max_delay, self.initial_delay * 2.0 ** min(attempt, 30))

    def before_first_answer(self, failure: Exception) -> RetryPolicy:
        """The policy until a store has answered for the first time.

        A wrong endpoint shall not take two minutes to show; and where nobody listens, or whose name
        is unknown, shows at once, unless the user has said how long to ask.

        Args:
            failure: of the last request.

        >>> long, short = RetryPolicy(), RetryPolicy(deadline=3)
        >>> silent, refused = TimeoutError(), ConnectionRefusedError()
        >>> long.before_first_answer(silent).deadline, long.before_first_answer(refused).deadline
        (15.0, 0.5)
        >>> short.before_first_answer(silent).deadline, short.before_first_answer(refused).deadline
        (3, 3)
        """
        nobody = any(isinstance(each, _NOBODY) for each in causes(failure, contexts=True))
        if nobody and self.deadline == GIVE_UP_SECONDS:
            return RetryPolicy(_NOBODY_THERE)
        return self if self.deadline < _FIRST_CONTACT else RetryPolicy(_FIRST_CONTACT)

    def read_timeout(self, most: float) -> float:
        """Seconds after which an endpoint that stays silent is asked anew.

        One request that is never answered must not use the whole deadline up.

        Args:
            most: where the deadline is long.

        >>> [RetryPolicy(deadline).read_timeout(60) for deadline in (600, 30, 6, 2)]
        [60, 10.0, 5.0, 2]
        """
        return min(most, max(_LEAST_TIMEOUT, self.deadline / _SHARE), self.deadline)


class GivenUp(Exception):
    """A transient failure that did not pass before the deadline.

    Args:
        cause: the last failure.
        seconds: how long the store was asked.
    """

    def __init__(self, cause: Exception, seconds: float) -> None:
        super().__init__(cause, seconds)
        self.cause = cause
        self.seconds = seconds


class HollowAnswer(Exception):
    """A success that lacks a header or member which the store always sends, such as a proxy's page.

    Callers treat it as a lost answer: the store may have carried the request out, or never got it.

    Args:
        where: the endpoint or the object's URI.
        what: what the answer lacks.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: an answer that says success, but has no {what}")


class NoAnswer(Exception):
    """A request was not answered in the time that was left, or none was left to send it."""


class Retrier:
    """Repeats the requests of one process to one store, and remembers how the store fares.

    When a request has been given up, those that come next find out what became of it, and tidy
    up. They must not wait as long again, one after the other: until one succeeds, they have a few
    seconds together.

    Attributes:
        reached: whether the store has answered at all.
    """

    _loads: ClassVar[int] = 0

    def __init__(self) -> None:
        self.reached = False
        self._shortened_at = -math.inf
        self._shortened_in = 0

    @classmethod
    def restore_deadlines(cls) -> None:
        """Give every store its full deadline again: what was given up was another load's."""
        cls._loads += 1

    def shorten_deadline(self) -> None:
        """Have the requests that come next share a few seconds, as there is no time for more."""
        self._shortened_at, self._shortened_in = time.monotonic(), self._loads

    def call(
        self,
        send: Callable[[], T],
        is_transient: Callable[[Exception], bool],
        policy: Callable[[Exception], RetryPolicy],
    ) -> T:
        """Send a request until it succeeds, fails for good, or the deadline comes.

        Once the process is asked to end, the deadline is at most some seconds away.

        Args:
            send: the request.
            is_transient: whether a failure may pass by itself.
            policy: for a failure; a store that was never reached gets less time.

        Raises:
            GivenUp: the failures did not pass.
            Exception: what `send` raised, and is not transient.
        """
        began = time.monotonic()
        since = began - self._shortened_at
        shortened = since < _AFTERMATH and self._shortened_in == self._loads
        attempt = 0
        failure: Exception | None = None
        while True:
            end = self._shortened_at + _GRACE if shortened else ending.retries_end()
            try:
                answer = send() if end is None else _in_time(send, end)
            except Exception as error:
                if not is_transient(error) and not isinstance(error, NoAnswer):
                    raise
                if failure is None or not isinstance(error, NoAnswer):
                    failure = error  # an answer tells more than none
                allowed = policy(error)
                allowed = allowed if self.reached else allowed.before_first_answer(error)
                delay = random.uniform(0, allowed.backoff(attempt))
                now = time.monotonic()
                last = self._shortened_at + _GRACE if shortened else began + allowed.deadline
                if shortened and not self.reached:
                    last = began  # it was asked for long enough: once more will do
                if not shortened and (asked := ending.retries_end()) is not None:
                    last = min(last, asked)
                if now + delay > last:
                    if not shortened:
                        self.shorten_deadline()
                    raise GivenUp(failure, now - began) from error
            else:
                self._shortened_at = -math.inf
                return answer
            attempt += 1
            ending.pause(delay)


def _in_time(send: Callable[[], T], end: float) -> T:
    """The request's answer, if it comes before `end`; a request that hangs is left behind.

    Raises:
        NoAnswer: it did not come.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(send())
        except Exception as error:
            outcome.set_exception(error)

    if end <= time.monotonic():
        raise NoAnswer
    threading.Thread(target=run, name="lakeport-request", daemon=True).start()
    try:
        return outcome.result(end - time.monotonic())
    except FutureTimeout:
        raise NoAnswer from None
