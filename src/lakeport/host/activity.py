"""What this process is doing that takes a while, for whoever wants to show it.

Work says what it does and how far it is, displays look at times: no work waits for a display, or
fails by one. A thread works for the activity that it has begun, or was `carried` into.
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
    """Something that goes on, as it was when it was looked at.

    Attributes:
        what: in one or two words, such as `reading` or `starting Spark`.
        name: what of, such as a stream's name; may be empty.
        began: when, by `time.monotonic`.
        total: bytes there are to do; -1 if that is unknown.
        rows_total: rows there are to do; -1 if that is unknown.
        done: bytes that are done.
        rows: rows that are done.
        count_total: things there are to do, which `name` says in the plural; -1 if there are none.
        count: things that are done.
        of: which of several loads it is a part of; empty where there is one.
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
    of: str = ""

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None where that can't be told."""
        for done, total in ((self.done, self.total), (self.rows, self.rows_total)):
            if 0 < done <= total:
                return done / total
        return None

    def left(self, now: float) -> float | None:
        """Seconds that the rest takes at this rate; None where that can't be told.

        Args:
            now: the time, by `time.monotonic`.

        >>> Activity("reading", "a.csv", began=10.0, total=100, done=25).left(12.0)
        6.0
        """
        share = self.share
        return None if share is None else (now - self.began) * (1 - share) / share


_lock = threading.Lock()
_running: dict[object, Activity] = {}
_within: dict[object, object | None] = {}  # what goes on -> what it is a part of, or its `what`
_current: ContextVar[object | None] = ContextVar("lakeport_activity", default=None)
_whole: ContextVar[str] = ContextVar("lakeport_whole", default="")


@contextmanager
def whole(name: str) -> Iterator[None]:
    """Have all that this thread begins in the body be a part of one of several loads."""
    before = _whole.set(name)
    try:
        yield
    finally:
        _whole.reset(before)


def working_for() -> str:
    """Which of several loads this thread works for; empty where there is one."""
    return _whole.get()


def joining() -> Callable[[], object]:
    """What a thread of a pool calls first, to work for the load that this one works for."""
    return partial(_whole.set, _whole.get())


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
    """Be doing something for as long as the body runs; for the other arguments see `Activity`.

    Args:
        part_of: what other threads say that they do while they wait for this; default: it is a part
            of what this thread does already.
    """
    key, began = object(), time.monotonic()
    with _lock:
        _running[key] = Activity(
            what, name, began, total, rows_total, count_total=count_total, of=_whole.get()
        )
        _within[key] = part_of or _current.get()
    before = _current.set(key)
    try:
        yield
    finally:
        _current.reset(before)
        with _lock:
            del _running[key], _within[key]


def advance(done: int = 0, *, rows: int = 0) -> None:
    """Have done so much more of what this thread works for; without effect if that is nothing.

    Args:
        done: bytes.
        rows: rows.
    """
    _change(lambda now: replace(now, done=now.done + done, rows=now.rows + rows))


def reached(done: int, rows: int = 0, count: int = 0) -> None:
    """As `advance`, with what is done in all."""
    _change(lambda now: replace(now, done=done, rows=rows, count=count))


def reached_share(share: float) -> None:
    """As `advance`, with the share that is done in all, from 0 to 1."""
    _change(lambda now: replace(now, done=int(share * now.total)) if now.total > 0 else now)


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """The same function for another thread, which then works for what this one works for.

    >>> with activity("reading", total=10):
    ...     worker = threading.Thread(target=carried(advance), args=(4,))
    ...     worker.start()
    ...     worker.join()
    ...     running()[-1].done
    4
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # A context can't be entered by two threads at once: each call has a copy.
        return context.copy().run(partial(function, *args, **kwargs))

    context = copy_context()
    return run


def running() -> tuple[Activity, ...]:
    """What goes on, in the order in which it began; of what has parts, those that go on."""
    with _lock:
        wholes = set(_within.values())
        return tuple(
            each for key, each in _running.items() if key not in wholes and each.what not in wholes
        )


def _change(change: Callable[[Activity], Activity]) -> None:
    key = _current.get()
    if key is None:
        return
    with _lock:
        if key in _running:
            _running[key] = change(_running[key])
