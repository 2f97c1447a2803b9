"""What a task spends on each stage of its work, measured while it goes on.

What is done within a stage counts as that stage, but for what another stage within it takes:

```
encoding ━━━━┓         ┏━━━━━┓       ┏━━━━▶   seconds of each, and none counts twice
  parsing    ┗━━━━━━━━━┛     ┃       ┃
  uploading                  ┗━━━━━━━┛
```
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lakeport.model import Work

if TYPE_CHECKING:
    from lakeport.model import StageWriter

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_STEPS = 60
_TOLD_BYTES = 1 << 20


Point = tuple[float, int, int]
"""Seconds, rows, bytes."""


class Pace:
    """Rows and bytes over time. When the steps do not reach, each becomes twice as long.

    Attributes:
        step: how long each step is, in seconds.
    """

    def __init__(self, most: int, step: float = 0.05) -> None:
        """Begin with nothing; `most` is how many steps there are at the most, points one more."""
        self.step = step
        self._most = most
        self._steps: dict[int, tuple[int, int]] = {}

    def add(self, at: float, rows: int = 0, size: int = 0) -> None:
        """Add what was done since the last call, in any order.

        Args:
            at: when, in seconds since the beginning.
            rows: how many.
            size: bytes.
        """
        at = max(at, 0.0)
        while at >= self._most * self.step:
            self._halve()
        self._add(int(at / self.step), rows, size)

    def coarsen(self, step: float) -> None:
        """See that steps are at least so long, as what is added comes at such intervals."""
        while self.step < step:
            self._halve()

    def done(self) -> list[Point]:
        """What was done in each step, at its end; steps without anything are left out."""
        return [((step + 1) * self.step, *self._steps[step]) for step in sorted(self._steps)]

    def points(self) -> tuple[Point, ...]:
        """What was done in all, from nothing at 0, by the ends of steps; none if that is nothing.

        Lines from one to the next tell the rest.

        >>> pace = Pace(most=8, step=1.0)
        >>> pace.add(2.5, rows=10)
        >>> pace.add(4.5, rows=5)
        >>> pace.points()
        ((0.0, 0, 0), (2.0, 0, 0), (3.0, 10, 0), (4.0, 10, 0), (5.0, 15, 0))
        """
        found: list[Point] = [(0.0, 0, 0)] if self._steps else []
        rows = size = last = 0
        for step in sorted(self._steps):
            if step > last:
                found.append((round(step * self.step, 3), rows, size))
            more_rows, more_bytes = self._steps[step]
            rows, size, last = rows + more_rows, size + more_bytes, step + 1
            found.append((round(last * self.step, 3), rows, size))
        return tuple(found)

    def _halve(self) -> None:
        before, self._steps = self._steps, {}
        self.step *= 2
        for step, (rows, size) in before.items():
            self._add(step // 2, rows, size)

    def _add(self, step: int, rows: int, size: int) -> None:
        old_rows, old_bytes = self._steps.get(step, (0, 0))
        self._steps[step] = old_rows + rows, old_bytes + size


class Stopwatch:
    """Takes the time of one task; several threads may work for it."""

    def __init__(self) -> None:
        """Begin."""
        self._lock = threading.Lock()
        self._began = time.time()
        self._stages: dict[str, tuple[float, float, float]] = {}
        self._pace = Pace(_STEPS)

    def took(self, name: str, began: float, ended: float, seconds: float) -> None:
        """Add a stage's time."""
        with self._lock:
            first, last, total = self._stages.get(name, (began, ended, 0.0))
            self._stages[name] = min(first, began), max(last, ended), total + seconds

    def did(self, *, rows: int = 0, size: int = 0) -> None:
        """Add rows that were read, or bytes that were staged."""
        with self._lock:
            self._pace.add(time.time() - self._began, rows, size)

    def work(self) -> Work:
        """What was done so far."""
        steps = self._pace.done()
        pace = tuple((self._began + at, rows, size) for at, rows, size in steps)
        return Work(dict(self._stages), pace, self._pace.step)


class _OpenStage:
    """A stage that goes on in a thread, and the seconds that others took within it."""

    __slots__ = ("name", "watch", "within")

    def __init__(self, watch: Stopwatch, name: str = "") -> None:
        self.watch, self.name, self.within = watch, name, 0.0


_current: ContextVar[_OpenStage | None] = ContextVar("lakeport_stage", default=None)


@contextmanager
def measure_task() -> Iterator[Stopwatch]:
    """Measure what this thread does while the body runs."""
    watch, before = Stopwatch(), _current.get()
    _current.set(_OpenStage(watch))
    try:
        yield watch
    finally:
        _current.set(before)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Count what the body does as this stage; without effect where nobody measures."""
    outer = _current.get()
    if outer is None:
        yield
        return
    mine, began, tick = _OpenStage(outer.watch, name), time.time(), time.perf_counter()
    _current.set(mine)
    try:
        yield
    finally:
        seconds = time.perf_counter() - tick
        _current.set(outer)
        outer.within += seconds
        if name:
            mine.watch.took(name, began, began + seconds, seconds - mine.within)


def pause_stage() -> AbstractContextManager[None]:
    """Count the body as no stage: the threads that it waits for count for themselves."""
    return stage("")


def share_stage(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function for other threads, so that its time counts as this thread's stage."""
    outer = _current.get()
    if outer is None:
        return function

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        token = _current.set(_OpenStage(outer.watch))
        try:
            with stage(outer.name):
                return function(*args, **kwargs)
        finally:
            _current.reset(token)

    return run


def measure_items(name: str, items: Iterable[T]) -> Iterator[T]:
    """Yield the items; the time that each takes to come counts as a stage."""
    return iterate_within(partial(stage, name), items)


def iterate_within(
    enter: Callable[[], AbstractContextManager[object]], items: Iterable[T]
) -> Iterator[T]:
    """Yield the items, each fetched within a context of its own."""
    waiting_for = iter(items)
    while True:
        with enter():
            try:
                item = next(waiting_for)
            except StopIteration:
                return
        yield item


def measure_upload(out: StageWriter) -> StageWriter:
    """Wrap a stage writer, so that its time counts as a stage; itself where nobody measures."""
    open_ = _current.get()
    return out if open_ is None else _MeasuredWriter(out, open_.watch)


class _MeasuredWriter:
    """Implements `model.StageWriter`. Encoders write small pieces: each costs next to nothing."""

    def __init__(self, out: StageWriter, watch: Stopwatch) -> None:
        self._out, self._watch = out, watch
        self._began = self._seconds = 0.0
        self._size = 0

    def write(self, data: bytes | memoryview, /) -> int:
        tick = time.perf_counter()
        written = self._out.write(data)
        self._spent(time.perf_counter() - tick)
        self._size += written
        if self._size >= _TOLD_BYTES:
            self._tell()
        return written

    def finish(self) -> Mapping[str, Any]:
        tick = time.perf_counter()
        done = self._out.finish()
        self._spent(time.perf_counter() - tick)
        self._tell()
        return done

    def abort(self) -> None:
        self._out.abort()

    def _spent(self, seconds: float) -> None:
        if (stage_ := _current.get()) is not None:
            stage_.within += seconds
        self._began = self._began or time.time() - seconds
        self._seconds += seconds

    def _tell(self) -> None:
        self._watch.took("uploading", self._began, time.time(), self._seconds)
        self._watch.did(size=self._size)
        self._began = self._seconds = 0.0
        self._size = 0
