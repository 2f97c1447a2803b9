"""Requests to a store: retried for how long and how often, with one deadline for all layers.

A `Connection` is one process's to one store. All SDKs here send their requests through urllib3, so
a manager of its connections is the one place where whole answers are limited.
"""

from __future__ import annotations

import io
import math
import os
import random
import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from lakeport.errors import DestinationError, LakeportError, ObjectExists, Unreachable, walk_causes
from lakeport.host.process import pause, retry_deadline

GIVE_UP_SECONDS = 120.0
"""How long to go on asking a store that fails, unless the user says otherwise."""

T = TypeVar("T")
S = TypeVar("S", bound=Hashable)
C = TypeVar("C")
_FIRST_CONTACT = 15.0  # seconds
_NOBODY_THERE = 0.5  # seconds
_NOBODY = (ConnectionRefusedError, socket.gaierror)
_GRACE = 5.0  # seconds that all requests have together once one was given up,
_AFTERMATH = 30.0  # if they come within these
_SHARE = 3  # requests that stay without an answer use a deadline up,
_LEAST_TIMEOUT = 5.0  # unless that left them less than these seconds each

_LAG = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between two looks

NEXT_NAME = "the next free name is tried."
"""The hint where a name is taken."""

Condition = Literal["none", "absent", "same"]
"""When the store is to do what a request asks: always; if no object has the name; if the object is
still the version that was read."""

_LEAST_RATE: Final = 16 << 10  # bytes a second; a large body may take as long as it needs at this


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
        nobody = any(isinstance(each, _NOBODY) for each in walk_causes(failure, contexts=True))
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
            end = self._shortened_at + _GRACE if shortened else retry_deadline()
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
                if not shortened and (asked := retry_deadline()) is not None:
                    last = min(last, asked)
                if now + delay > last:
                    if not shortened:
                        self.shorten_deadline()
                    raise GivenUp(failure, now - began) from error
            else:
                self._shortened_at = -math.inf
                return answer
            attempt += 1
            pause(delay)


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


class NotFound(DestinationError):
    """There is no such object, bucket or upload."""


def failure(kind: type[LakeportError], words: str, hint: str) -> Callable[..., LakeportError]:
    """Return what makes that error, given the `{values}` of its words and its hint."""
    return lambda **values: kind(words.format(**values), hint.format(**values))


MISSING = failure(NotFound, "{name} does not exist", "")
DAMAGED = failure(
    DestinationError,
    "{name}: the bytes that arrived are not those that were sent",
    "run again; if it stays, look for a proxy that changes requests.",
)
SKEWED = failure(
    DestinationError,
    "this machine's clock differs from the store's by more than 15 minutes",
    "set the clock (`timedatectl set-ntp true`), then run again.",
)


def given_up(
    error: Exception, name: str, where: str, answer: str, kind: str, keys: str
) -> Unreachable:
    """The error for a transient failure that stays: what it was, and for how long.

    Args:
        error: the failure, or that it was given up.
        name: the object's or bucket's URI.
        where: the store's address.
        answer: status and code of the last answer; empty where none came.
        kind: what was met instead of an answer.
        keys: the settings that say where the store is.
    """
    seconds = error.seconds if isinstance(error, GivenUp) else 0.0
    if answer:
        return Unreachable(
            f"{name}: {where} kept answering {answer} for {seconds:.1f} s",
            "try again later, or set `give_up_after` for longer; a smaller `target_file_size_mb` "
            "or fewer tasks ask less of the store.",
        )
    return Unreachable(
        f"{where} can't be reached ({kind}); it was tried for {seconds:.1f} s",
        f"check {keys}, DNS, the proxy (HTTPS_PROXY) and the firewall; `give_up_after` says for "
        "how long to try.",
    )


def found(look: Callable[[], T]) -> T:
    """Repeat `look` while it raises NotFound, for at most 1.6 s.

    For an object that the store has just said to exist: its next answer may be a stale 404.

    Raises:
        NotFound: the store still says that there is no such object.
    """
    for seconds in _LAG:
        try:
            return look()
        except NotFound:
            pause(seconds)
    return look()


def already_exists(name: str) -> ObjectExists:
    """The error for a create-only write of a name that is taken."""
    return ObjectExists(f"{name} exists already", NEXT_NAME)


def replaced(name: str) -> DestinationError:
    """The error for an object that is not the one any more whose first bytes were read."""
    return DestinationError(
        f"{name} was replaced while it was read", "run it again when nobody writes there."
    )


def condition_of(over: str | None) -> Condition:
    """Return the condition of a write over a version, no object (empty), or any object (None)."""
    return "none" if over is None else "same" if over else "absent"


def condition_failed(condition: Condition, name: str) -> DestinationError:
    """The error for a request whose condition did not hold."""
    return already_exists(name) if condition == "absent" else replaced(name)


def names_of(error: Exception) -> set[str]:
    """Return the names of an error's class and its bases, for classes of SDKs not loaded yet."""
    return {each.__name__ for each in type(error).__mro__}


def cut_off(error: BaseException) -> bool:
    """Return whether a TLS connection was cut, as in its handshake: the next one may hold.

    What it met by itself, such as a certificate that it does not trust, stays as it is.
    """
    cuts = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError)
    return any(isinstance(each, cuts) for each in walk_causes(error, contexts=True))


def untrusted(error: BaseException) -> bool:
    """Return whether a TLS connection was refused for the store's certificate."""
    refused = ssl.SSLCertVerificationError
    return any(isinstance(each, refused) for each in walk_causes(error, contexts=True))


class _LimitedAnswer(io.RawIOBase):
    """The bytes of one answer.

    Args:
        raw: where they come from.
        seconds: how long they may take from the first one on, beside their share by the rate.
    """

    def __init__(self, raw: io.RawIOBase, seconds: float) -> None:
        super().__init__()
        self._raw, self._seconds = raw, seconds
        self._began: float | None = None
        self._size = 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Read what has come.

        Raises:
            TimeoutError: the answer is too slow.
        """
        if self._began is not None:
            took = time.monotonic() - self._began
            if took > self._seconds + self._size / _LEAST_RATE:
                raise TimeoutError(f"only {self._size} bytes of an answer came in {took:.0f} s")
        count = self._raw.readinto(buffer)
        self._began = self._began or time.monotonic()
        self._size += count or 0
        return count

    def close(self) -> None:
        """Close what the bytes come from, too."""
        self._raw.close()
        super().close()


class _LimitedSocket:
    """A connected socket, plain or with TLS, whose answers are limited."""

    def __init__(self, connected: Any, seconds: float) -> None:
        self._connected, self._seconds = connected, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def makefile(
        self, mode: Literal["rb"], buffering: int = -1
    ) -> io.BufferedIOBase | io.RawIOBase:
        """Open the next answer."""
        raw = _LimitedAnswer(self._connected.makefile(mode, 0), self._seconds)
        return raw if buffering == 0 else io.BufferedReader(raw)


def limited(pools: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return urllib3's classes of pools by scheme, with connections whose answers are limited.

    Args:
        pools: the classes, as `PoolManager.pool_classes_by_scheme` has them.
        seconds: how long an answer may take, beside a second for each 16 KiB of it.
    """

    def connection(kind: Any) -> Any:
        class Limited(kind):  # type: ignore[misc]
            sock: Any

            def connect(self) -> None:
                super().connect()
                self.sock = _LimitedSocket(self.sock, seconds)

        return Limited

    return {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": connection(pool.ConnectionCls)})
        for scheme, pool in pools.items()
    }


def limit_session(session: Any, seconds: float) -> None:
    """Limit the answers that a session of `requests` gets, also by proxies; see `limited`."""

    def by_proxy(manager_of: Callable[..., Any]) -> Callable[..., Any]:
        def limited_manager(*arguments: Any, **options: Any) -> Any:
            manager = manager_of(*arguments, **options)
            manager.pool_classes_by_scheme = classes
            return manager

        return limited_manager

    classes: dict[str, Any] = {}
    for adapter in session.adapters.values():
        classes = classes or limited(adapter.poolmanager.pool_classes_by_scheme, seconds)
        adapter.poolmanager.pool_classes_by_scheme = classes
        adapter.proxy_manager_for = by_proxy(adapter.proxy_manager_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """What the settings of every cloud have. Picklable; a repr shows no secret.

    Attributes:
        endpoint: address instead of the cloud's own; empty for that.
        retry_policy: for transient failures.
        connect_seconds: how long one connection may take to be made.
        read_seconds: how long the endpoint may stay silent.
        hosts: ends of the host names of the cloud's own endpoints.
    """

    hosts: ClassVar[tuple[str, ...]] = ()

    endpoint: str = ""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    connect_seconds: float = 5
    read_seconds: float = 60

    @property
    def is_native(self) -> bool:
        """Whether requests go to the cloud itself, not to another store with its protocol."""
        host = urlsplit(self.endpoint).hostname or ""
        return not self.endpoint or f".{host}".endswith(self.hosts)

    @property
    def read_timeout(self) -> float:
        """Seconds after which an endpoint that stays silent is asked anew."""
        return self.retry_policy.read_timeout(self.read_seconds)


class Connection(ABC):
    """The base of the clouds' clients.

    Attributes:
        retrier: knows whether the store was reached, and how much time requests have.
    """

    def __init__(self, retry_policy: RetryPolicy) -> None:
        self.retrier = Retrier()
        self._retry_policy = retry_policy

    @staticmethod
    @abstractmethod
    def is_transient(error: Exception) -> bool:
        """Whether the same request may succeed later."""

    @staticmethod
    @abstractmethod
    def has_response(error: Exception) -> bool:
        """Whether the endpoint answered at all."""

    def policy_for(self, error: Exception) -> RetryPolicy:
        """How long to repeat a request that failed so."""
        return self._retry_policy

    def repeat(
        self,
        send: Callable[[], T],
        translate: Callable[[Exception], LakeportError],
        *,
        transient_failures: list[Exception] | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> T:
        """Send one request, again while its failure is transient.

        Args:
            send: the request.
            translate: names the failure that stays.
            transient_failures: gets the failures that were tried again; after some of them the
                request may have succeeded, and is refused for that when it is repeated.
            retry_policy: instead of the settings' own.

        Raises:
            LakeportError: as `translate` names it.
        """

        def is_transient(error: Exception) -> bool:
            return isinstance(error, HollowAnswer) or self.is_transient(error)

        def attempt() -> T:
            try:
                answer = send()
            except Exception as error:
                self.retrier.reached |= self.has_response(error)
                if transient_failures is not None and is_transient(error):
                    transient_failures.append(error)
                raise
            self.retrier.reached = True
            return answer

        def policy(error: Exception) -> RetryPolicy:
            return retry_policy or self.policy_for(error)

        try:
            return self.retrier.call(attempt, is_transient, policy)
        except Exception as error:
            if isinstance(error, GivenUp) and isinstance(error.cause, HollowAnswer):
                raise Unreachable(
                    f"{error.cause}, is not the store's; it was asked for {error.seconds:.1f} s",
                    "check the endpoint, and whether a proxy or a login page answers in its place.",
                ) from None
            raise translate(error) from None


class PerProcess(Generic[S, C]):
    """Connections by their settings, each made at its first use.

    A process that was forked makes its own: sockets and locks must not be shared.

    Args:
        make: makes a connection.

    Example:
        >>> connections = PerProcess[str, list[str]](list)
        >>> connections("ab") is connections("ab")
        True
    """

    def __init__(self, make: Callable[[S], C]) -> None:
        self._make = make
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def __call__(self, settings: S) -> C:
        """The connection for these settings; raises what making it raises."""
        with self._lock:
            if settings not in self._made:
                self._made[settings] = self._make(settings)
            return self._made[settings]

    def reset(self) -> None:
        """Begin anew."""
        self._made: dict[S, C] = {}
        self._lock = threading.Lock()
