"""Requests to a store: retries within one deadline, translated errors, and limits on slow answers.

A `Connection` belongs to one process and one store. All SDKs send their requests through urllib3,
so its connection pools are the one place where the time of a whole answer can be limited.
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
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from lakeport.errors import DestinationError, LakeportError, ObjectExists, Unreachable, walk_causes
from lakeport.host.process import pause, retry_deadline

GIVE_UP_SECONDS = 120.0
"""Default deadline for the retries of a request, in seconds."""

T = TypeVar("T")
S = TypeVar("S", bound=Hashable)
C = TypeVar("C")
_FIRST_CONTACT = 15.0  # seconds until the store has answered once
_NO_LISTENER_SECONDS = 0.5
_NO_LISTENER = (ConnectionRefusedError, socket.gaierror)
_GRACE = 5.0  # seconds that the requests after one that was given up share,
_AFTERMATH = 30.0  # if they come within these seconds
_SILENT_REQUESTS = 3  # so many requests without an answer fit into a deadline,
_LEAST_TIMEOUT = 5.0  # if each gets these seconds at least

_NOT_FOUND_DELAYS = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds

NEXT_NAME = "the next free name is tried."
"""Hint of the error for a name that is taken."""

Condition = Literal["none", "absent", "same"]
"""Condition of a request: none; no object has the name; the object is the version that was read."""

_LEAST_RATE: Final = 16 << 10  # bytes a second that a large body has to come at


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Deadline and delays of the retries of one request.

    The delay before a retry is drawn between nothing and a bound that doubles up to `max_delay`
    (full jitter), so that many tasks do not come back together.

    Attributes:
        deadline: seconds after which the last failure is final; all layers share it.
        initial_delay: bound of the first delay in seconds.
        max_delay: bound of any delay in seconds.
    """

    deadline: float = GIVE_UP_SECONDS
    initial_delay: float = 0.2
    max_delay: float = 10.0

    def backoff(self, attempt: int) -> float:
        """Return the longest delay in seconds after failure number `attempt`, counted from 0.

        >>> [RetryPolicy(initial_delay=0.5, max_delay=4.0).backoff(n) for n in range(5)]
        [0.5, 1.0, 2.0, 4.0, 4.0]
        """
        return min(self.max_delay, self.initial_delay * 2.0 ** min(attempt, 30))

    def before_first_answer(self, failure: Exception) -> RetryPolicy:
        """Return the policy until the store has answered once: at most 15 s.

        A wrong endpoint shall show soon. One without a listener, or with an unknown name, has half
        a second. A deadline that the user chose stays.

        Args:
            failure: the last request's.

        >>> long, short = RetryPolicy(), RetryPolicy(deadline=3)
        >>> silent, refused = TimeoutError(), ConnectionRefusedError()
        >>> long.before_first_answer(silent).deadline, long.before_first_answer(refused).deadline
        (15.0, 0.5)
        >>> short.before_first_answer(silent).deadline, short.before_first_answer(refused).deadline
        (3, 3)
        """
        no_listener = any(
            isinstance(each, _NO_LISTENER) for each in walk_causes(failure, contexts=True)
        )
        if no_listener and self.deadline == GIVE_UP_SECONDS:
            return RetryPolicy(_NO_LISTENER_SECONDS)
        return self if self.deadline < _FIRST_CONTACT else RetryPolicy(_FIRST_CONTACT)

    def read_timeout(self, most: float) -> float:
        """Return seconds to wait for bytes: a third of the deadline, at least 5, up to `most`.

        Args:
            most: the cap in seconds, for long deadlines.

        >>> [RetryPolicy(deadline).read_timeout(60) for deadline in (600, 30, 6, 2)]
        [60, 10.0, 5.0, 2]
        """
        return min(most, max(_LEAST_TIMEOUT, self.deadline / _SILENT_REQUESTS), self.deadline)


class GivenUp(Exception):
    """A transient failure that remained until the deadline: no more retries.

    Args:
        cause: the last failure.
        seconds: how long the store was asked.
    """

    def __init__(self, cause: Exception, seconds: float) -> None:
        super().__init__(cause, seconds)
        self.cause = cause
        self.seconds = seconds


class InvalidAnswer(Exception):
    """A success that lacks a header or member that the store always sends, such as a proxy's page.

    Callers treat it as a lost answer: the store may have carried out the request, or not got it.

    Args:
        where: the endpoint or the object's URI.
        what: what the answer lacks.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: an answer that says success, but has no {what}")


class NoAnswer(Exception):
    """A request got no answer in the time left, or no time was left to send it."""


class Retrier:
    """Repeats the failed requests of one process to one store, within their deadlines.

    The requests after one that was given up find out what became of it, and clean up. They must not
    each wait as long again: they share a few seconds until one succeeds.

    Attributes:
        reached: whether the store has answered any request.
    """

    _loads: ClassVar[int] = 0

    def __init__(self) -> None:
        self.reached = False
        self._shortened_at = -math.inf
        self._shortened_in = 0

    @classmethod
    def restore_deadlines(cls) -> None:
        """Give the requests to every store their full deadline again, for a new load."""
        cls._loads += 1

    def shorten_deadline(self) -> None:
        """Have the next requests share a few seconds in place of their deadlines."""
        self._shortened_at, self._shortened_in = time.monotonic(), self._loads

    def call(
        self,
        send: Callable[[], T],
        is_transient: Callable[[Exception], bool],
        policy: Callable[[Exception], RetryPolicy],
    ) -> T:
        """Send a request until it succeeds or the deadline is over; return its answer.

        Once the process is asked to end, a few seconds are left.

        Args:
            send: the request.
            is_transient: whether a retry may help after a failure.
            policy: returns the policy for a failure; a store never reached gets less time.

        Raises:
            GivenUp: the failures remained.
            Exception: what `send` raised, if it is not transient.
        """
        began = time.monotonic()
        since = began - self._shortened_at
        shortened = since < _AFTERMATH and self._shortened_in == self._loads
        attempt = 0
        failure: Exception | None = None
        while True:
            end = self._shortened_at + _GRACE if shortened else retry_deadline()
            try:
                answer = send() if end is None else _send_before(end, send)
            except Exception as error:
                if not is_transient(error) and not isinstance(error, NoAnswer):
                    raise
                if failure is None or not isinstance(error, NoAnswer):
                    failure = error  # an answer says more than silence
                allowed = policy(error)
                allowed = allowed if self.reached else allowed.before_first_answer(error)
                delay = random.uniform(0, allowed.backoff(attempt))
                now = time.monotonic()
                last = self._shortened_at + _GRACE if shortened else began + allowed.deadline
                if shortened and not self.reached:
                    last = began  # one more request is enough
                if not shortened and (end := retry_deadline()) is not None:
                    last = min(last, end)
                if now + delay > last:
                    if not shortened:
                        self.shorten_deadline()
                    raise GivenUp(failure, now - began) from error
            else:
                self._shortened_at = -math.inf
                return answer
            attempt += 1
            pause(delay)


def _send_before(end: float, send: Callable[[], T]) -> T:
    """Send a request in a thread; return its answer, and abandon it if it hangs.

    Args:
        end: when to abandon it, by `time.monotonic`.
        send: the request.

    Raises:
        NoAnswer: no answer came before `end`.
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
    """No such object, bucket or upload exists."""


class RequestFailure(NamedTuple):
    """A request that failed, as a cloud's error table sees it.

    Attributes:
        error: what the SDK raised.
        action: the SDK's method, or the permission that the request takes.
        name: URI of the object, bucket or container.
        settings: how the store is reached.
        status: HTTP status of the answer; 0 if none came.
        code: the store's error code; may be empty.
        words: the store's own sentence, without secrets; may be empty.
    """

    error: Exception
    action: str
    name: str
    settings: Any
    status: int = 0
    code: str = ""
    words: str = ""

    @property
    def bucket(self) -> str:
        """The bucket's name, as `name` has it."""
        return self.name.partition("://")[2].partition("/")[0]

    def fill(self, template: str) -> str:
        """Return a text with the attributes, `bucket` and `kind` (the error's class) filled in."""
        kind = type(self.error).__name__
        return template.format(bucket=self.bucket, kind=kind, **self._asdict())

    def translate(
        self, table: Mapping[str, ErrorRow], keys: Iterable[str], condition: Condition
    ) -> LakeportError:
        """Return the error of the first of `keys` that the cloud's table has.

        Args:
            table: code, status or kind of failure -> its error.
            keys: the failure's, the most specific first; one of them is in the table.
            condition: the condition that the request was sent with: a 412 says that it failed.
        """
        if self.status == 412 and condition != "none":
            return exists_error(self.name) if condition == "absent" else replaced_error(self.name)
        return next(table[key] for key in keys if key in table)(self)


ErrorRow = Callable[[RequestFailure], LakeportError]


def error_row(kind: type[LakeportError], message: str, hint: str) -> ErrorRow:
    """Return a row of a cloud's error table: `kind`, with templates for `RequestFailure.fill`."""
    return lambda failure: kind(failure.fill(message), failure.fill(hint))


OBJECT_MISSING = error_row(NotFound, "{name} does not exist", "")
DATA_DAMAGED = error_row(
    DestinationError,
    "{name}: the bytes that arrived are not those that were sent",
    "run again; if it stays, look for a proxy that changes requests.",
)
CLOCK_SKEWED = error_row(
    DestinationError,
    "this machine's clock differs from the store's by more than 15 minutes",
    "set the clock (`timedatectl set-ntp true`), then run again.",
)


def unreachable_error(error: Exception, failure: RequestFailure) -> Unreachable:
    """Return the error for a transient failure that did not pass, and after how many seconds.

    Args:
        error: a `GivenUp`, or the failure itself.
        failure: the last failure.
    """
    seconds = error.seconds if isinstance(error, GivenUp) else 0.0
    settings, status = failure.settings, failure.status
    if status:
        answer = f"{status} {failure.code}".strip().removesuffix(f" {status}")
        return Unreachable(
            f"{failure.name}: {settings.address} kept answering {answer} for {seconds:.1f} s",
            "try again later, or set `give_up_after` for longer; a smaller `target_file_size_mb` "
            "or fewer tasks ask less of the store.",
        )
    kind = type(failure.error).__name__
    return Unreachable(
        f"{settings.address} can't be reached ({kind}); it was tried for {seconds:.1f} s",
        f"check {settings.address_keys}, DNS, the proxy (HTTPS_PROXY) and the firewall; "
        "`give_up_after` says for how long to try.",
    )


def retry_not_found(look: Callable[[], T]) -> T:
    """Return what `look` returns; repeat it while it raises NotFound, for at most 1.6 s.

    For an object that the store has just said to exist: its next answer may be a stale 404.

    Raises:
        NotFound: the store still says that there is no such object.
    """
    for seconds in _NOT_FOUND_DELAYS:
        try:
            return look()
        except NotFound:
            pause(seconds)
    return look()


def exists_error(name: str) -> ObjectExists:
    """Return the error for a create-only write to a name that is taken."""
    return ObjectExists(f"{name} exists already", NEXT_NAME)


def replaced_error(name: str) -> DestinationError:
    """Return the error for an object that another one replaced while it was read."""
    return DestinationError(
        f"{name} was replaced while it was read", "run it again when nobody writes there."
    )


def condition_for(replaces: str | None) -> Condition:
    """Return the condition of a write that replaces a version, no object (empty), or any (None)."""
    return "none" if replaces is None else "same" if replaces else "absent"


def class_names(error: Exception) -> list[str]:
    """Return the names of an error's class and its bases, so that no SDK needs to be imported."""
    return [each.__name__ for each in type(error).__mro__]


def is_cut_off(error: BaseException) -> bool:
    """Whether a TLS connection was cut, as in its handshake, so that a retry may help.

    A retry does not help against a certificate that is not trusted.
    """
    cuts = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError)
    return any(isinstance(each, cuts) for each in walk_causes(error, contexts=True))


def is_untrusted(error: BaseException) -> bool:
    """Whether a TLS connection failed because the server's certificate is not trusted."""
    refused = ssl.SSLCertVerificationError
    return any(isinstance(each, refused) for each in walk_causes(error, contexts=True))


class _LimitedAnswer(io.RawIOBase):
    """Raw bytes of one answer; a read raises TimeoutError once they come too slowly.

    Args:
        raw: the socket's bytes.
        seconds: how long the answer may take, plus one second for each 16 KiB of it.
    """

    def __init__(self, raw: io.RawIOBase, seconds: float) -> None:
        super().__init__()
        self._raw, self._seconds = raw, seconds
        self._began: float | None = None
        self._size = 0

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Read the bytes that have come into `buffer`; return their number.

        Raises:
            TimeoutError: the answer comes too slowly.
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
        """Close the socket's bytes, too."""
        self._raw.close()
        super().close()


class _LimitedSocket:
    """Connected socket, plain or with TLS, whose answers have a time limit."""

    def __init__(self, connected: Any, seconds: float) -> None:
        self._connected, self._seconds = connected, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def makefile(
        self, mode: Literal["rb"], buffering: int = -1
    ) -> io.BufferedIOBase | io.RawIOBase:
        """Open the bytes of the next answer, with its time limit."""
        raw = _LimitedAnswer(self._connected.makefile(mode, 0), self._seconds)
        return raw if buffering == 0 else io.BufferedReader(raw)


def limit_pools(pools: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return urllib3's pool classes by scheme, subclassed so that answers have a time limit.

    Args:
        pools: the classes, as in `PoolManager.pool_classes_by_scheme`.
        seconds: how long an answer may take, plus one second for each 16 KiB of it.
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
    """Limit the time of answers to a session of `requests`, also by proxies; see `limit_pools`."""

    def by_proxy(manager_of: Callable[..., Any]) -> Callable[..., Any]:
        def limited_manager(*arguments: Any, **options: Any) -> Any:
            manager = manager_of(*arguments, **options)
            manager.pool_classes_by_scheme = classes
            return manager

        return limited_manager

    classes: dict[str, Any] = {}
    for adapter in session.adapters.values():
        classes = classes or limit_pools(adapter.poolmanager.pool_classes_by_scheme, seconds)
        adapter.poolmanager.pool_classes_by_scheme = classes
        adapter.proxy_manager_for = by_proxy(adapter.proxy_manager_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """Settings of every cloud: endpoint, retries, timeouts. Picklable; a repr shows no secret.

    Attributes:
        endpoint: URL of another endpoint than the cloud's own; empty for that.
        retry_policy: for transient failures.
        connect_seconds: timeout for opening a connection.
        read_seconds: longest silence of the endpoint before a request is repeated.
        hosts: ends of the host names of the cloud's own endpoints.
        address_keys: the config keys and variables that choose the endpoint, for messages.
    """

    hosts: ClassVar[tuple[str, ...]] = ()
    address_keys: ClassVar[str]

    endpoint: str = ""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    connect_seconds: float = 5
    read_seconds: float = 60

    @property
    @abstractmethod
    def address(self) -> str:
        """The store's address or region, for messages."""

    @property
    def is_native(self) -> bool:
        """Whether the endpoint is the cloud's own, and not another store with its protocol."""
        host = urlsplit(self.endpoint).hostname or ""
        return not self.endpoint or f".{host}".endswith(self.hosts)

    @property
    def read_timeout(self) -> float:
        """Timeout in seconds for bytes of an answer: `read_seconds`, less for a short deadline."""
        return self.retry_policy.read_timeout(self.read_seconds)


class Connection(ABC):
    """Base of the clouds' clients: sends requests with retries, and translates their failures.

    Attributes:
        settings: how the store is reached.
        retrier: repeats requests; knows whether the store was ever reached.
    """

    settings: Any

    def __init__(self, settings: CloudSettings) -> None:
        self.settings = settings
        self.retrier = Retrier()

    @staticmethod
    @abstractmethod
    def is_transient(error: Exception) -> bool:
        """Whether the same request may succeed later."""

    @staticmethod
    @abstractmethod
    def has_response(error: Exception) -> bool:
        """Whether the endpoint answered the request."""

    @staticmethod
    @abstractmethod
    def translate(
        error: Exception, action: str, name: str, settings: Any, condition: Condition = "none"
    ) -> LakeportError:
        """Return lakeport's error for a request that failed; see the cloud's `errors`."""

    def policy_for(self, error: Exception) -> RetryPolicy:
        """Return the policy for retries after this failure."""
        policy: RetryPolicy = self.settings.retry_policy
        return policy

    def send_with_retries(
        self,
        send: Callable[[], T],
        action: str,
        name: str,
        condition: Condition = "none",
        *,
        transient_failures: list[Exception] | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> T:
        """Send a request, repeat it while its failure is transient, and return its answer.

        Args:
            send: the request.
            action: what it does, for the error; as `translate` takes it.
            name: URI of the object or bucket, for the error.
            condition: the condition that `send` asks with, for the error.
            transient_failures: gets the failures that were retried. A request may have succeeded
                in spite of one, and its repetition is refused then.
            retry_policy: in place of the settings' own.

        Raises:
            LakeportError: as `translate` returns it.
        """

        def is_transient(error: Exception) -> bool:
            return isinstance(error, InvalidAnswer) or self.is_transient(error)

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
            if isinstance(error, GivenUp) and isinstance(error.cause, InvalidAnswer):
                raise Unreachable(
                    f"{error.cause}, is not the store's; it was asked for {error.seconds:.1f} s",
                    "check the endpoint, and whether a proxy or a login page answers in its place.",
                ) from None
            raise self.translate(error, action, name, self.settings, condition) from None


class ConnectionCache(Generic[S, C]):
    """This process's connections by their settings, each opened at its first use.

    A forked process opens its own, as it must not share sockets and locks.

    Args:
        open_connection: opens the connection for some settings.

    Example:
        >>> connections = ConnectionCache[str, list[str]](list)
        >>> connections("ab") is connections("ab")
        True
    """

    def __init__(self, open_connection: Callable[[S], C]) -> None:
        self._open_connection = open_connection
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def __call__(self, settings: S) -> C:
        """Return the connection for these settings; raises what opening it raises."""
        with self._lock:
            if settings not in self._connections:
                self._connections[settings] = self._open_connection(settings)
            return self._connections[settings]

    def reset(self) -> None:
        """Forget all connections, without closing them."""
        self._connections: dict[S, C] = {}
        self._lock = threading.Lock()
