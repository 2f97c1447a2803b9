"""Measure how long a task spends in each stage of its work, and its rows and bytes over time.

Time within a stage counts as that stage, without the time of other stages within it:

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
_REPORTED_BYTES = 1 << 20


Point = tuple[float, int, int]
"""Seconds, rows, bytes."""


class Pace:
    """Rows and bytes per time step; the step doubles so that at most `max_steps` are needed.

    Attributes:
        step: length of a step in seconds.
    """

    def __init__(self, max_steps: int, step: float = 0.05) -> None:
        """Start empty; `step` is the steps' first length in seconds."""
        self.step = step
        self._max_steps = max_steps
        self._steps: dict[int, tuple[int, int]] = {}

    def add(self, seconds: float, rows: int = 0, size: int = 0) -> None:
        """Add rows and bytes `seconds` after the beginning, in any order; may double the step."""
        seconds = max(seconds, 0.0)
        while seconds >= self._max_steps * self.step:
            self._double_step()
        self._add(int(seconds / self.step), rows, size)

    def coarsen(self, step: float) -> None:
        """Double the steps until they are at least `step` seconds long."""
        while self.step < step:
            self._double_step()

    def per_step(self) -> list[Point]:
        """Return each step's end in seconds, rows and bytes, by time; omit steps without any."""
        return [((step + 1) * self.step, *self._steps[step]) for step in sorted(self._steps)]

    def cumulated(self) -> tuple[Point, ...]:
        """Return running totals as points (seconds, rows, bytes), starting at 0; () if no counts.

        The curve is linear between two points.

        >>> pace = Pace(max_steps=8, step=1.0)
        >>> pace.add(2.5, rows=10)
        >>> pace.add(4.5, rows=5)
        >>> pace.cumulated()
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

    def _double_step(self) -> None:
        """Double the step's length, and add up the counts of each two steps."""
        before, self._steps = self._steps, {}
        self.step *= 2
        for step, (rows, size) in before.items():
            self._add(step // 2, rows, size)

    def _add(self, step: int, rows: int, size: int) -> None:
        """Add rows and bytes to a step, by its number."""
        old_rows, old_bytes = self._steps.get(step, (0, 0))
        self._steps[step] = old_rows + rows, old_bytes + size


class TaskTimer:
    """Seconds per stage, and rows and bytes over time, of one task; safe for threads."""

    def __init__(self) -> None:
        """Start at the present time."""
        self._lock = threading.Lock()
        self._began = time.time()
        self._stages: dict[str, tuple[float, float, float]] = {}
        self._pace = Pace(_STEPS)

    def add_time(self, name: str, began: float, ended: float, seconds: float) -> None:
        """Add seconds to a stage's total; `began` and `ended`, Unix seconds, widen its span."""
        with self._lock:
            first, last, total = self._stages.get(name, (began, ended, 0.0))
            self._stages[name] = min(first, began), max(last, ended), total + seconds

    def add_work(self, *, rows: int = 0, size: int = 0) -> None:
        """Add rows read, or bytes staged, at the present time."""
        with self._lock:
            self._pace.add(time.time() - self._began, rows, size)

    def work(self) -> Work:
        """Return the stages' times, and rows and bytes per step with its end in Unix seconds."""
        steps = self._pace.per_step()
        pace = tuple((self._began + at, rows, size) for at, rows, size in steps)
        return Work(dict(self._stages), pace, self._pace.step)


class _OpenStage:
    """The stage that a thread is in, and the seconds spent in stages nested in it."""

    __slots__ = ("name", "timer", "within")

    def __init__(self, timer: TaskTimer, name: str = "") -> None:
        self.timer, self.name, self.within = timer, name, 0.0


_current: ContextVar[_OpenStage | None] = ContextVar("lakeport_stage", default=None)


@contextmanager
def measure_task() -> Iterator[TaskTimer]:
    """Time the stages of this thread while the body runs; yield the timer."""
    timer, before = TaskTimer(), _current.get()
    _current.set(_OpenStage(timer))
    try:
        yield timer
    finally:
        _current.set(before)


@contextmanager
def measure_stage(name: str) -> Iterator[None]:
    """Add the body's time, without nested stages, to a stage; no-op outside `measure_task`."""
    outer = _current.get()
    if outer is None:
        yield
        return
    mine, began, tick = _OpenStage(outer.timer, name), time.time(), time.perf_counter()
    _current.set(mine)
    try:
        yield
    finally:
        seconds = time.perf_counter() - tick
        _current.set(outer)
        outer.within += seconds
        if name:
            mine.timer.add_time(name, began, began + seconds, seconds - mine.within)


def pause_stage() -> AbstractContextManager[None]:
    """Count the body's time as no stage, as threads that it waits for count theirs."""
    return measure_stage("")


def share_stage(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function for use in other threads: its time counts as this thread's present stage.

    Returns the function itself outside of `measure_task`.
    """
    outer = _current.get()
    if outer is None:
        return function

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        token = _current.set(_OpenStage(outer.timer))
        try:
            with measure_stage(outer.name):
                return function(*args, **kwargs)
        finally:
            _current.reset(token)

    return run


def measure_items(name: str, items: Iterable[T]) -> Iterator[T]:
    """Yield the items; the time to fetch each counts as this stage."""
    return iterate_within(partial(measure_stage, name), items)


def iterate_within(
    enter: Callable[[], AbstractContextManager[object]], items: Iterable[T]
) -> Iterator[T]:
    """Yield the items; fetch each one inside a new context from `enter`."""
    iterator = iter(items)
    while True:
        with enter():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def measure_upload(out: StageWriter) -> StageWriter:
    """Return a stage writer whose time counts as uploading; `out` outside of `measure_task`."""
    current = _current.get()
    return out if current is None else _MeasuredWriter(out, current.timer)


class _MeasuredWriter:
    """A `model.StageWriter` that adds its time and bytes to the task's timer, after each MB."""

    def __init__(self, out: StageWriter, timer: TaskTimer) -> None:
        self._out, self._timer = out, timer
        self._began = self._seconds = 0.0
        self._size = 0

    def write(self, data: bytes | memoryview, /) -> int:
        """Write to the wrapped stage writer, and time it; return the bytes written."""
        tick = time.perf_counter()
        written = self._out.write(data)
        self._add_seconds(time.perf_counter() - tick)
        self._size += written
        if self._size >= _REPORTED_BYTES:
            self._report()
        return written

    def finish(self) -> Mapping[str, Any]:
        """Finish the wrapped stage writer, and add the remaining time and bytes to the timer."""
        tick = time.perf_counter()
        done = self._out.finish()
        self._add_seconds(time.perf_counter() - tick)
        self._report()
        return done

    def abort(self) -> None:
        self._out.abort()

    def _add_seconds(self, seconds: float) -> None:
        """Count seconds of an upload, and leave them out of the stage around it."""
        if (stage := _current.get()) is not None:
            stage.within += seconds
        self._began = self._began or time.time() - seconds
        self._seconds += seconds

    def _report(self) -> None:
        """Add the collected seconds and bytes to the timer, and reset them to 0."""
        self._timer.add_time("uploading", self._began, time.time(), self._seconds)
        self._timer.add_work(size=self._size)
        self._began = self._seconds = 0.0
        self._size = 0
