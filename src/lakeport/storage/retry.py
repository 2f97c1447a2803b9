"""Requests to a store: retries within one deadline, translated errors, and limits on slow answers.

A `Connection` belongs to one process and one store. All SDKs send their requests through urllib3,
so its connection pools are the one place where the time of a whole answer can be limited.
"""

from __future__ import annotations

import io
import logging
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
_log = logging.getLogger(__name__)
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
    """Deadline and backoff delays, in seconds, for the retries of one request.

    The delay before a retry is drawn between nothing and a bound that doubles up to `max_delay`
    (full jitter), so that many tasks do not come back together. All values are seconds; after the
    deadline, which all layers share, the last failure is final.
    """

    deadline: float = GIVE_UP_SECONDS
    initial_delay: float = 0.2
    max_delay: float = 10.0

    def backoff(self, attempt: int) -> float:
        """Return the upper bound of the random delay (seconds) after failure `attempt`, from 0.

        >>> [RetryPolicy(initial_delay=0.5, max_delay=4.0).backoff(n) for n in range(5)]
        [0.5, 1.0, 2.0, 4.0, 4.0]
        """
        return min(self.max_delay, self.initial_delay * 2.0 ** min(attempt, 30))

    def before_first_answer(self, failure: Exception) -> RetryPolicy:
        """Return the policy while a store never answered: 15 s at most, 0.5 s if nothing listens.

        A wrong endpoint shall show soon. A shorter deadline that the user chose stays.

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

    def read_timeout(self, max_seconds: float) -> float:
        """Return the read timeout in seconds: a third of the deadline, from 5 to `max_seconds`.

        Never more than the deadline.

        >>> [RetryPolicy(deadline).read_timeout(60) for deadline in (600, 30, 6, 2)]
        [60, 10.0, 5.0, 2]
        """
        silence = max(_LEAST_TIMEOUT, self.deadline / _SILENT_REQUESTS)
        return min(max_seconds, silence, self.deadline)


class DeadlineExceeded(Exception):
    """Raised when a request's retries have reached their deadline; `cause` is the failure.

    `seconds` is the time from the first request on.
    """

    def __init__(self, cause: Exception, seconds: float) -> None:
        super().__init__(cause, seconds)
        self.cause = cause
        self.seconds = seconds


class InvalidAnswer(Exception):
    """A 2xx response without a header or member that the store always sends, as from a proxy.

    Callers treat it as a lost answer: the store may have carried out the request, or not got it.
    """

    def __init__(self, uri: str, missing_member: str) -> None:
        super().__init__(f"{uri}: an answer that says success, but has no {missing_member}")


class NoAnswer(Exception):
    """A request got no answer in the time left, or no time was left to send it."""


class Retrier:
    """Retries this process's failed requests to one store, within their deadlines.

    The requests after one that was given up find out what became of it, and clean up. They must not
    each wait as long again: they share a few seconds until one succeeds. `reached` says whether
    the store has answered any request, `retries` how many requests were sent again.
    """

    _loads: ClassVar[int] = 0

    def __init__(self) -> None:
        self.reached = False
        self.retries = 0
        self._shortened_at = -math.inf
        self._shortened_in = 0

    @classmethod
    def restore_deadlines(cls) -> None:
        """Give the requests to every store their full deadline again, for a new load."""
        cls._loads += 1

    def shorten_deadline(self) -> None:
        """Give the next requests together five seconds, in place of a deadline each."""
        self._shortened_at, self._shortened_in = time.monotonic(), self._loads

    def call(
        self,
        send: Callable[[], T],
        is_transient: Callable[[Exception], bool],
        policy: Callable[[Exception], RetryPolicy],
        name: str = "the store",
    ) -> T:
        """Call `send` with backoff until it succeeds; raise DeadlineExceeded or a permanent error.

        A store that was never reached gets less time than `policy` says. Once the process is asked
        to end, a few seconds are left. `name` is the object's URI, for the log.
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
                    raise DeadlineExceeded(failure, now - began) from error
            else:
                self._shortened_at = -math.inf
                return answer
            attempt += 1
            self.retries += 1
            kind = type(failure).__name__
            values = {"event": "request.retry", "attempt": attempt, "error_type": kind}
            text = "a request for %s is sent again in %.1f s, after %s"
            _log.info(text, name, delay, kind, extra=values)
            pause(delay)


def _send_before(end: float, send: Callable[[], T]) -> T:
    """Call `send` in a thread; raise NoAnswer if it lasts until `end`, a `time.monotonic` value."""
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
    """A failed request: exception, action, URI, status and store's words, for error messages.

    Attributes:
        error: the SDK's exception.
        action: the SDK's method, or the permission that the request takes.
        name: URI of the object, bucket or container.
        status: HTTP status of the answer; 0 if none came.
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
        """Fill a template with the attributes, `bucket`, and the error's class as `kind`."""
        kind = type(self.error).__name__
        return template.format(bucket=self.bucket, kind=kind, **self._asdict())

    def translate(
        self, table: Mapping[str, ErrorRow], keys: Iterable[str], condition: Condition
    ) -> LakeportError:
        """Return the error of the first of `keys` in `table`; for a 412 that of a failed condition.

        One of the keys, the most specific first, is in the table.
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
    """Return Unreachable for a failing status or connection, with the seconds spent on retries."""
    seconds = error.seconds if isinstance(error, DeadlineExceeded) else 0.0
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


def retry_not_found(request: Callable[[], T]) -> T:
    """Call `request`, and again while it raises NotFound, for 1.6 s; then raise NotFound.

    For an object that the store has just reported: its next answer may be a stale 404.
    """
    for seconds in _NOT_FOUND_DELAYS:
        try:
            return request()
        except NotFound:
            pause(seconds)
    return request()


def exists_error(name: str) -> ObjectExists:
    """Return the error for a create-only write to a name that is taken."""
    return ObjectExists(f"{name} exists already", NEXT_NAME)


def replaced_error(name: str) -> DestinationError:
    """Return the DestinationError for an object that was replaced while it was read."""
    return DestinationError(
        f"{name} was replaced while it was read", "run it again when nobody writes there."
    )


def condition_for(expected_version: str | None) -> Condition:
    """Return `same` for an expected version, `absent` for "" (no object), `none` for None."""
    return "none" if expected_version is None else "same" if expected_version else "absent"


def class_names(error: Exception) -> list[str]:
    """Return the names of an error's class and its bases, so that no SDK needs to be imported."""
    return [each.__name__ for each in type(error).__mro__]


def is_cut_off(error: BaseException) -> bool:
    """Whether a TLS connection was cut or timed out, so that a retry may help."""
    cuts = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError)
    return any(isinstance(each, cuts) for each in walk_causes(error, contexts=True))


def is_untrusted(error: BaseException) -> bool:
    """Whether a TLS connection failed because the server's certificate is not trusted."""
    refused = ssl.SSLCertVerificationError
    return any(isinstance(each, refused) for each in walk_causes(error, contexts=True))


class _LimitedAnswer(io.RawIOBase):
    """Raw stream of one HTTP response; a read raises TimeoutError if bytes come too slowly.

    An answer may take `seconds`, plus one second for each 16 KiB of it.
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
        """Read bytes into `buffer`, return their number; TimeoutError if they come too slowly."""
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
    """Wrapper of a connected socket, plain or TLS, whose responses have a time limit."""

    def __init__(self, connected: Any, seconds: float) -> None:
        self._connected, self._seconds = connected, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def makefile(
        self, mode: Literal["rb"], buffering: int = -1
    ) -> io.BufferedIOBase | io.RawIOBase:
        """Open the socket as a binary file whose reads have a time limit."""
        raw = _LimitedAnswer(self._connected.makefile(mode, 0), self._seconds)
        return raw if buffering == 0 else io.BufferedReader(raw)


def limit_pools(pools: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return subclasses of urllib3's pools, by scheme, whose responses have a time limit.

    An answer may take `seconds`, plus one second for each 16 KiB of it.
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
    """Patch a `requests` session so that responses, also through proxies, have a time limit."""

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
    """Base of the clouds' settings: endpoint, retries and timeouts. The repr shows no secret.

    Attributes:
        endpoint: URL of another endpoint than the cloud's own; empty for that.
        read_seconds: longest silence of the endpoint before a request is repeated.
        from_session: whether the credentials are those of the user's Spark session.
        hosts: ends of the host names of the cloud's own endpoints.
        address_keys: the config keys and variables that choose the endpoint, for messages.
    """

    hosts: ClassVar[tuple[str, ...]] = ()
    address_keys: ClassVar[str]

    endpoint: str = ""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    connect_seconds: float = 5
    read_seconds: float = 60
    from_session: bool = False

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
    """Base class of the clouds' clients: sends requests with retries, and translates errors."""

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
        """Call `send`, retry transient failures, and return its result or raise LakeportError.

        Args:
            send: sends the request once.
            action: the request's action, as `translate` takes it for the error.
            name: URI of the object or bucket, for the error.
            condition: the condition of the request, for the error.
            transient_failures: gets the failures that were retried appended. A request may have
                succeeded in spite of one, and its repetition is refused then.
            retry_policy: in place of the settings' own.
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
            return self.retrier.call(attempt, is_transient, policy, name)
        except Exception as error:
            if isinstance(error, DeadlineExceeded) and isinstance(error.cause, InvalidAnswer):
                raise Unreachable(
                    f"{error.cause}, is not the store's; it was asked for {error.seconds:.1f} s",
                    "check the endpoint, and whether a proxy or a login page answers in its place.",
                ) from None
            raise self.translate(error, action, name, self.settings, condition) from None


class ConnectionCache(Generic[S, C]):
    """Cache of this process's connections by their settings; opens each at its first use.

    A forked process opens its own, as it must not share sockets and locks.

    >>> connections = ConnectionCache[str, list[str]](list)
    >>> connections("ab") is connections("ab")
    True
    """

    def __init__(self, open_connection: Callable[[S], C]) -> None:
        self._open_connection = open_connection
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def __call__(self, settings: S) -> C:
        """Return the connection for these settings; open it at the first call, or raise."""
        with self._lock:
            if settings not in self._connections:
                self._connections[settings] = self._open_connection(settings)
            return self._connections[settings]

    def reset(self) -> None:
        """Forget all connections, without closing them."""
        self._connections: dict[S, C] = {}
        self._lock = threading.Lock()
