"""Cancellation of a load: no commit begins any more, and the outcome of the last is told.

```
signal ─▶ no commit begins ─▶ wait for the batch in progress ─┬─ it ends ───────▶ what it came to
                                                              └─ time is over ─▶ end Spark, look
```
A commit that was begun may be made by a request that is under way, also after this process has
gone. So it counts as unknown until somebody has seen what became of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakSet

from lakeport.errors import CommitConflict, DestinationError, LakeportError, SparkFailure

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.model import Storage

_END_SECONDS = 4.0  # for the batch in progress to end by itself,
_LOOK_SECONDS = 4.0  # and to find out what became of it, once it was cut off


class Cancelled(Exception):
    """A commit was not begun, as the load was asked to end."""


class EndRequested(KeyboardInterrupt):
    """Another thread has asked the load to end."""


class Cancellation:
    """Whether a load was asked to end, and its commits of unknown outcome.

    Attributes:
        at_once: it was asked a second time, so that there is no time to tidy up.
    """

    def __init__(self) -> None:
        self.at_once = False
        self._asked = self._cancelled = False
        self._ask: Future[None] = Future()
        self._open: dict[str, None] = {}
        self._lock = threading.Lock()
        _loads.add(self)

    @classmethod
    def of_this_thread(cls) -> Cancellation:
        """Return the cancellation of this thread's load, see `used`; a new one without."""
        return _used.get() or cls()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make this the cancellation of the load that this thread runs in the body."""
        before = _used.set(self)
        try:
            yield
        finally:
            _used.reset(before)

    def ask(self) -> None:
        """Have the load end, from another thread than its own: as an interrupt would there."""
        with self._lock:
            self._asked = True
        if not self._ask.done():
            self._ask.set_result(None)

    def check(self) -> None:
        """See whether another thread has asked for an end.

        Raises:
            Asked: one has.
        """
        if self._ask.done():
            raise EndRequested

    def outcome(self, landing: Future[None]) -> None:
        """Wait for a batch.

        Raises:
            Asked: another thread asks for an end meanwhile.
        """
        wait([landing, self._ask], return_when=FIRST_COMPLETED)
        if not landing.done():
            raise EndRequested
        landing.result()

    @contextmanager
    def committing(self, table: str) -> Iterator[None]:
        """A commit to a table.

        Raises:
            Cancelled: the load was asked to end before.
        """
        with self._lock:
            if self._asked:
                raise Cancelled
            self._open[table] = None
        try:
            yield
        except (DestinationError, SparkFailure) as error:
            if isinstance(error, CommitConflict):
                self._close(table)
            raise
        except LakeportError:
            self._close(table)
            raise
        else:
            self._close(table)

    def unknown(self) -> str:
        """Return a clause that names the tables of commits with unknown outcome; empty for none."""
        tables = ", ".join(self._open)
        return f"whether the batch in progress has landed in {tables} is unknown" if tables else ""

    @classmethod
    def unknown_anywhere(cls) -> str:
        """As `unknown`, of all loads of this process."""
        return "; ".join(filter(None, (load.unknown() for load in list(_loads))))

    def cancel(self, landing: Future[None] | None, engine: Engine, storage: Storage) -> None:
        """Begin no further commit, and wait for the batch in progress, about eight seconds at most.

        Without effect at a second call.

        Args:
            landing: the batch in progress.
            engine: ended where it might go on with a commit, unless others use its session.
            storage: where the tables are.
        """
        with self._lock:
            if self._cancelled:
                return
            self._asked = self._cancelled = True
        running = [landing] if landing is not None else []
        try:
            left = wait(running, _END_SECONDS).not_done
            with suppress(LakeportError):
                storage.shorten_deadline()
            if left:
                engine.stop()
                wait(left, _LOOK_SECONDS)
        except KeyboardInterrupt:
            self.at_once = True

    def _close(self, table: str) -> None:
        with self._lock:
            self._open.pop(table, None)


_loads: WeakSet[Cancellation] = WeakSet()
_used: ContextVar[Cancellation | None] = ContextVar("lakeport_cancellation", default=None)


@contextmanager
def wait_unless_interrupted(
    executor: ThreadPoolExecutor, *, cancels: bool = False
) -> Iterator[ThreadPoolExecutor]:
    """Threads that are waited for, unless what they work for was interrupted.

    Args:
        executor: the threads.
        cancels: whether what none of them has begun is dropped then.
    """
    patient = True
    try:
        yield executor
    except KeyboardInterrupt:
        patient = False
        raise
    finally:
        executor.shutdown(wait=patient, cancel_futures=cancels and not patient)
