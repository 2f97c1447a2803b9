"""One process's connection to a store: repeats its requests, and names their errors."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakeport.errors import LakeportError, Unreachable
from lakeport.storage.retry import GivenUp, HollowAnswer, Retrier, RetryPolicy

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSettings:
    """What the settings of every cloud have. Picklable; a repr shows no secret.

    Attributes:
        endpoint: address instead of the cloud's own; empty for that.
        retry_policy: for transient failures.
        connect_seconds: how long one connection may take to be made.
        read_seconds: how long the endpoint may stay silent.
    """

    endpoint: str = ""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    connect_seconds: float = 5
    read_seconds: float = 60

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


S = TypeVar("S", bound=Hashable)
C = TypeVar("C")


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
