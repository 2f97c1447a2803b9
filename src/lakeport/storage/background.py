"""Parts of an upload sent in the background, while the encoder goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class BackgroundUploads:
    """Runs uploads in threads; a failure comes out of the next `submit` or of `drain`.

    Args:
        threads: how many are under way at the most.
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
