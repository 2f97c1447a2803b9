"""When a run did what: spans of each stage in a lane for each stream, and its pace.

```
            ├── starting Spark ──────┤
            ├─ reading ─┤├─ reading ─┤
orders                   ├─ writing ────┤├─ committing ─┤
orders                    ├─ parsing ─┤
orders                    ├─ encoding ─┤
```
However long a run is, what is kept has a bound: the spans of a lane that are closest to each other
become one, and streams that took the least time are left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from lakeport.host.pace import Pace, Point
from lakeport.writers.stopwatch import within

if TYPE_CHECKING:
    from lakeport.model import Staged

T = TypeVar("T")

MOST_SPANS = 200
"""Spans that a report has at the most."""
MOST_POINTS = 120
"""Points that each pace of a report has at the most."""

_ADJACENT = 0.005
_TOO_SHORT = 0.001


@dataclass(frozen=True, slots=True)
class Span:
    """A stage of a run, from when to when; moments are seconds since the run's start.

    Attributes:
        stage: such as `reading` or `committing`; docs/reports.md lists them.
        stream: whose; empty for what is done for all of them.
        start: when it began.
        end: when it ended.
        tasks: how many tasks it was done by, that may have run at once; 0 for the driver.
        busy: seconds that were spent on it, those of all tasks added up.
    """

    stage: str
    stream: str
    start: float
    end: float
    tasks: int = 0
    busy: float = 0.0

    def with_next(self, other: Span) -> Span:
        """This one and a later one of the same lane, as one."""
        return replace(
            self,
            start=min(self.start, other.start),
            end=max(self.end, other.end),
            tasks=self.tasks + other.tasks,
            busy=self.busy + other.busy,
        )


_Lanes = dict[tuple[str, str], list[Span]]
"""Stream and stage -> its spans, in the order of time."""


class Timeline:
    """Takes down when a run does what; for several threads.

    Args:
        tick: reads a clock that never steps back, in seconds.
        clock: reads the clock that tasks read, in seconds since 1970.
    """

    def __init__(
        self,
        tick: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tick = tick
        self._began, self._since = tick(), clock()
        self._lock = threading.RLock()
        self._lanes: _Lanes = {}
        self._count = 0
        self._open: dict[object, Span] = {}
        self._read, self._written = Pace(MOST_POINTS - 1), Pace(MOST_POINTS - 1)
        self._seen: dict[str, tuple[int, int]] = {}

    def elapsed(self) -> float:
        """Seconds since the run's start."""
        return self._tick() - self._began

    @contextmanager
    def stage(self, name: str, stream: str = "") -> Iterator[float]:
        """Be at a stage for as long as the body runs; gives when it began."""
        key, start = object(), self.elapsed()
        with self._lock:
            self._open[key] = Span(name, stream, start, start)
        try:
            yield start
        finally:
            end = self.elapsed()
            with self._lock:
                del self._open[key]
                self._add(Span(name, stream, start, end, busy=end - start))

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """The same items; what each takes to come is a stage."""
        return within(partial(self.stage, name), items)

    def passed(self, name: str, began: float | None, ended: float | None) -> None:
        """Add a stage that was timed elsewhere, by the same clock; None: it has not been yet."""
        if began is None:
            return
        start = max(began - self._began, 0.0)
        end = self.elapsed() if ended is None else ended - self._began
        if end > start:
            with self._lock:
                self._add(Span(name, "", start, end, busy=end - start))

    def tasks(self, stream: str, staged: Sequence[Staged], start: float) -> None:
        """Add what tasks did that have run since `start`.

        Their machines' clocks may differ from this one's: nothing is taken to have been before
        they were started or after they ended.
        """
        end, found = self.elapsed(), dict[str, Span]()

        def within(moment: float) -> float:
            return min(max(moment - self._since, start), end)

        with self._lock:
            for work in (one.work for one in staged if one.work is not None):
                for name, (began, ended, busy) in work.stages.items():
                    span = Span(name, stream, within(began), within(ended), 1, busy)
                    found[name] = found[name].with_next(span) if name in found else span
                self._written.coarsen(work.step)
                for moment, rows, size in work.pace:
                    self._written.add(within(moment), rows, size)
            for span in found.values():
                self._add(span)

    def read(self, stream: str, records: int, size: int) -> None:
        """Note how much of a stream was read so far: records and bytes."""
        with self._lock:
            rows_before, bytes_before = self._seen.get(stream, (0, 0))
            self._seen[stream] = records, size
            self._read.add(self.elapsed(), records - rows_before, size - bytes_before)

    def spans(self, now: float) -> tuple[tuple[Span, ...], int]:
        """The spans in order, and how many streams were left out; what goes on ends `now`."""
        with self._lock:
            lanes = {lane: list(spans) for lane, spans in self._lanes.items()}
            for one in self._open.values():
                span = replace(one, end=now, busy=now - one.start)
                lanes.setdefault((one.stream, one.stage), []).append(span)
        kept, left_out = _largest(lanes)
        found = [span for spans in _closed_up(kept, MOST_SPANS).values() for span in spans]
        return tuple(sorted(found, key=lambda span: (span.start, -span.end))), left_out

    def paces(self, now: float) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
        """What was read, and what was written, by when, until `now`."""
        with self._lock:
            read, written = self._read.points(), self._written.points()
        return _until(now, read), _until(now, written)

    def _add(self, span: Span) -> None:
        lane = self._lanes.setdefault((span.stream, span.stage), [])
        if lane and span.start - lane[-1].end < _ADJACENT:
            lane[-1] = lane[-1].with_next(span)
            return
        if lane and not span.tasks and span.end - span.start < _TOO_SHORT:
            return
        lane.append(span)
        self._count += 1
        if self._count > 2 * max(MOST_SPANS, len(self._lanes)):
            self._lanes = _closed_up(self._lanes, max(MOST_SPANS, len(self._lanes)))
            self._count = sum(map(len, self._lanes.values()))


def _largest(lanes: _Lanes) -> tuple[_Lanes, int]:
    """The lanes of the streams that took the most time, and how many streams have no room."""
    by_stream: dict[str, _Lanes] = {}
    for (stream, stage), spans in lanes.items():
        by_stream.setdefault(stream, {})[stream, stage] = spans

    def order(stream: str) -> tuple[bool, float]:
        return stream != "", -sum(s.busy for spans in by_stream[stream].values() for s in spans)

    kept: _Lanes = {}
    for place, stream in enumerate(sorted(by_stream, key=order)):
        if len(kept) + len(by_stream[stream]) > MOST_SPANS:
            return kept, len(by_stream) - place
        kept |= by_stream[stream]
    return kept, 0


def _closed_up(lanes: _Lanes, most: int) -> _Lanes:
    """The same lanes with at most so many spans, the smallest gaps between neighbours closed."""
    gaps = [
        (after.start - before.end, lane, place)
        for lane, spans in lanes.items()
        for place, (before, after) in enumerate(pairwise(spans), 1)
    ]
    surplus = len(lanes) + len(gaps) - most
    closed = {(lane, place) for _, lane, place in sorted(gaps)[: max(surplus, 0)]}
    found: _Lanes = {}
    for lane, spans in lanes.items():
        found[lane] = []
        for place, span in enumerate(spans):
            if (lane, place) in closed:
                found[lane][-1] = found[lane][-1].with_next(span)
            else:
                found[lane].append(span)
    return found


def _until(end: float, points: Sequence[Point]) -> tuple[Point, ...]:
    """Points whose last step may not have been over yet."""
    return tuple((min(at, end), rows, size) for at, rows, size in points)
