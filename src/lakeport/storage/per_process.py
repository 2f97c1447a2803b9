"""What a process keeps for each store that it talks to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
C = TypeVar("C")


class PerProcess(Generic[S, C]):
    """Connections by their settings, each made at its first use.

    A process that was forked makes its own: sockets and locks must not be shared.

    Args:
        make: makes a connection.

    Example:
        >>> connections = PerProcess[str, list[str]](list)
        >>> connections.get("ab") is connections.get("ab")
        True
    """

    def __init__(self, make: Callable[[S], C]) -> None:
        self._make = make
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def get(self, settings: S) -> C:
        """The connection for these settings; raises what making it raises."""
        with self._lock:
            if settings not in self._made:
                self._made[settings] = self._make(settings)
            return self._made[settings]

    def reset(self) -> None:
        """Begin anew."""
        self._made: dict[S, C] = {}
        self._lock = threading.Lock()
