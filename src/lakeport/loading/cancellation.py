"""Cancellation of a load: begin no further commit, and find out what became of the last one.

```
signal ─▶ no commit begins ─▶ wait for the batch in progress ─┬─ it ends ───────▶ its outcome
                                                              └─ time is over ─▶ end Spark, look
```
A request that is under way may make a commit even after this process has ended. So the outcome of
a begun commit is unknown until it was seen.
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

_END_SECONDS = 4.0  # that the batch in progress has to end by itself,
_LOOK_SECONDS = 4.0  # and to find out its outcome, once it was cut off


class Cancelled(Exception):
    """Raised in place of a commit that was not begun, as the load was asked to end."""


class EndRequested(KeyboardInterrupt):
    """Raised in the load's thread when another thread has asked the load to end."""


class Cancellation:
    """Lets other threads end a load, and tracks commits whose outcome is still unknown.

    Attributes:
        at_once: whether the end was requested a second time: there is no time to clean up.
    """

    def __init__(self) -> None:
        self.at_once = False
        self._requested = self._cancelled = False
        self._request: Future[None] = Future()
        self._commits: dict[str, None] = {}
        self._lock = threading.Lock()
        _cancellations.add(self)

    @classmethod
    def of_this_thread(cls) -> Cancellation:
        """Return the cancellation that is active in this thread; a new one where none is."""
        return _active.get() or cls()

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make this the active cancellation of the current thread while the body runs."""
        before = _active.set(self)
        try:
            yield
        finally:
            _active.reset(before)

    def request_end(self) -> None:
        """Request the load's end from another thread; its own then raises EndRequested."""
        with self._lock:
            self._requested = True
        if not self._request.done():
            self._request.set_result(None)

    def check(self) -> None:
        """Raise EndRequested if another thread has asked the load to end."""
        if self._request.done():
            raise EndRequested

    def wait_for(self, landing: Future[None]) -> None:
        """Wait for a flush to land; raise its error, or EndRequested if that comes first."""
        wait([landing, self._request], return_when=FIRST_COMPLETED)
        if not landing.done():
            raise EndRequested
        landing.result()

    @contextmanager
    def track_commit(self, table: str) -> Iterator[None]:
        """Track a table's commit during the body; raise Cancelled if the load is to end.

        After an error of the store or of Spark, its outcome stays unknown.
        """
        with self._lock:
            if self._requested:
                raise Cancelled
            self._commits[table] = None
        try:
            yield
        except (DestinationError, SparkFailure) as error:
            if isinstance(error, CommitConflict):
                self._forget_commit(table)
            raise
        except LakeportError:
            self._forget_commit(table)
            raise
        else:
            self._forget_commit(table)

    def unknown_commits(self) -> str:
        """Return a clause on the tables of commits with unknown outcome; empty for none."""
        tables = ", ".join(self._commits)
        return f"whether the batch in progress has landed in {tables} is unknown" if tables else ""

    @classmethod
    def all_unknown_commits(cls) -> str:
        """Return the clauses of `unknown_commits` of all loads of this process; empty for none."""
        return "; ".join(filter(None, (load.unknown_commits() for load in list(_cancellations))))

    def cancel(self, landing: Future[None] | None, engine: Engine, storage: Storage) -> None:
        """Block new commits; wait about 8 seconds at most for the batch in progress.

        A second call has no effect.

        Args:
            landing: the batch in progress; None for none.
            engine: stopped if the batch goes on after four seconds, unless others use its session.
            storage: its requests get a few seconds in all.
        """
        with self._lock:
            if self._cancelled:
                return
            self._requested = self._cancelled = True
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

    def _forget_commit(self, table: str) -> None:
        """Forget the commit to a table: its outcome is known."""
        with self._lock:
            self._commits.pop(table, None)


_cancellations: WeakSet[Cancellation] = WeakSet()
_active: ContextVar[Cancellation | None] = ContextVar("lakeport_cancellation", default=None)


@contextmanager
def wait_unless_interrupted(
    executor: ThreadPoolExecutor, *, cancel_pending: bool = False
) -> Iterator[ThreadPoolExecutor]:
    """Shut an executor down after the body; wait for its threads unless the body was interrupted.

    With `cancel_pending`, an interrupt also drops work that no thread has begun.
    """
    waits = True
    try:
        yield executor
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        executor.shutdown(wait=waits, cancel_futures=cancel_pending and not waits)
