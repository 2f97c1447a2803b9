"""A limit on the time of a whole answer: SDKs limit the silence between two of its bytes only.

All SDKs here send their requests through urllib3, so a manager of its connections is the one place.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

_LEAST_RATE: Final = 16 << 10  # bytes a second; a large body may take as long as it needs at this


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
