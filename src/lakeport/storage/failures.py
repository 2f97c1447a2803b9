"""Failures that every cloud has, in the same words."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Literal, TypeVar

from lakeport.errors import DestinationError, ObjectExists, causes
from lakeport.host import ending

T = TypeVar("T")
_LAG = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between two looks

NEXT_NAME = "the next free name is tried."
"""The hint where a name is taken."""

SLOW_STORE = (
    "try again later, or set `give_up_after` for longer; a smaller `target_file_size_mb` or fewer "
    "tasks ask less of the store."
)
"""The hint where a store is overloaded."""

Condition = Literal["none", "absent", "same"]
"""When the store is to do what a request asks: always; if no object has the name; if the object is
still the version that was read."""


class NotFound(DestinationError):
    """There is no such object, bucket or upload."""


def found(look: Callable[[], T]) -> T:
    """Repeat `look` while it raises NotFound, for at most 1.6 s.

    For an object that the store has just said to exist: its next answer may be a stale 404.

    Raises:
        NotFound: the store still says that there is no such object.
    """
    for pause in _LAG:
        try:
            return look()
        except NotFound:
            ending.pause(pause)
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


def cut_off(error: BaseException) -> bool:
    """Return whether a TLS connection was cut, as in its handshake: the next one may hold.

    What it met by itself, such as a certificate that it does not trust, stays as it is.
    """
    cuts = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError)
    return any(isinstance(each, cuts) for each in causes(error, contexts=True))


def untrusted(error: BaseException) -> bool:
    """Return whether a TLS connection was refused for the store's certificate."""
    refused = ssl.SSLCertVerificationError
    return any(isinstance(each, refused) for each in causes(error, contexts=True))
