"""Progress of this process's long activities, such as reading a file, for displays.

Work records its progress, and displays look at it from time to time: no work waits for a display,
or fails because of one. A thread works for the activity that it has begun, or that `bind_activity`
gave it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Activity:
    """One activity of this process, such as reading a file, with its progress so far.

    Attributes:
        what: the activity in one or two words, such as `reading` or `starting Spark`.
        name: its object, such as a stream's name; may be empty.
        began: its start, by `time.monotonic`.
        total: bytes to do; -1 if unknown.
        rows_total: rows to do; -1 if unknown.
        done: bytes done.
        count_total: number of the things that `name` says in the plural; -1 if none are counted.
        count: how many of them are done.
        load: the load that it is part of, if several run; else empty.
    """

    what: str
    name: str
    began: float
    total: int = -1
    rows_total: int = -1
    done: int = 0
    rows: int = 0
    count_total: int = -1
    count: int = 0
    load: str = ""

    @property
    def share(self) -> float | None:
        """Share done so far, above 0 and up to 1; None if no total is known or nothing is done."""
        for done, total in ((self.done, self.total), (self.rows, self.rows_total)):
            if 0 < done <= total:
                return done / total
        return None

    def seconds_left(self, now: float) -> float | None:
        """Estimate the seconds left by the rate so far; None if no total is known or nothing done.

        Args:
            now: the time, by `time.monotonic`.

        >>> Activity("reading", "a.csv", began=10.0, total=100, done=25).seconds_left(12.0)
        6.0
        """
        share = self.share
        return None if share is None else (now - self.began) * (1 - share) / share


_lock = threading.Lock()
_running: dict[object, Activity] = {}
_parents: dict[object, object | None] = {}
"""Activity -> the one that it is part of, or the `what` of that."""
_current: ContextVar[object | None] = ContextVar("lakeport_activity", default=None)
_load_name: ContextVar[str] = ContextVar("lakeport_whole", default="")


@contextmanager
def attribute_to_load(name: str) -> Iterator[None]:
    """Context manager: activities that this thread begins belong to the load `name`."""
    before = _load_name.set(name)
    try:
        yield
    finally:
        _load_name.reset(before)


def current_load() -> str:
    """Return the load that this thread works for; empty unless several run."""
    return _load_name.get()


def load_initializer() -> Callable[[], object]:
    """Return a thread pool's initializer: its threads work for this thread's load."""
    return partial(_load_name.set, _load_name.get())


@contextmanager
def activity(
    what: str,
    name: str = "",
    *,
    total: int = -1,
    rows_total: int = -1,
    count_total: int = -1,
    part_of: str = "",
) -> Iterator[None]:
    """Context manager that records an activity, for progress displays, while its body runs.

    Args:
        part_of: the `what` of the activities of threads that wait for this one, which are not shown
            meanwhile. By default it is part of this thread's current activity.
    """
    key, began = object(), time.monotonic()
    with _lock:
        _running[key] = Activity(
            what, name, began, total, rows_total, count_total=count_total, load=_load_name.get()
        )
        _parents[key] = part_of or _current.get()
    before = _current.set(key)
    try:
        yield
    finally:
        _current.reset(before)
        with _lock:
            del _running[key], _parents[key]


def add_progress(done: int = 0, *, rows: int = 0) -> None:
    """Add bytes and rows to the progress of this thread's activity; do nothing if it has none."""
    _change_current(lambda now: replace(now, done=now.done + done, rows=now.rows + rows))


def set_progress(done: int, rows: int = 0, count: int = 0) -> None:
    """Set the bytes, rows and things done of this thread's activity; do nothing if it has none."""
    _change_current(lambda now: replace(now, done=done, rows=rows, count=count))


def set_progress_share(share: float) -> None:
    """Set the share done, from 0 to 1, of this thread's activity; do nothing without a total."""
    _change_current(lambda now: replace(now, done=int(share * now.total)) if now.total > 0 else now)


def bind_activity(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that, in another thread, its progress counts for this thread's activity.

    >>> with activity("reading", total=10):
    ...     worker = threading.Thread(target=bind_activity(add_progress), args=(4,))
    ...     worker.start()
    ...     worker.join()
    ...     current_activities()[-1].done
    4
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # A context can't be entered by two threads at once: each call has a copy.
        return context.copy().run(partial(function, *args, **kwargs))

    context = copy_context()
    return run


def current_activities() -> tuple[Activity, ...]:
    """Return the running activities, oldest first; one with running parts is left out."""
    with _lock:
        wholes = set(_parents.values())
        return tuple(
            each for key, each in _running.items() if key not in wholes and each.what not in wholes
        )


def _change_current(change: Callable[[Activity], Activity]) -> None:
    """Replace this thread's activity by `change(activity)`; do nothing if it has none."""
    key = _current.get()
    if key is None:
        return
    with _lock:
        if key in _running:
            _running[key] = change(_running[key])
