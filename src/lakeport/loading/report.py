"""The observer that hears of a load, the timeline of its stages, and its report.

`LandingReport.to_json` writes one JSON object; docs/reports.md lists its keys.

```
            ├── starting Spark ──────┤
            ├─ reading ─┤├─ reading ─┤
orders                   ├─ writing ────┤├─ committing ─┤
orders                    ├─ parsing ─┤
orders                    ├─ encoding ─┤
```
The size of a report has a bound, however long the run is. The spans of a lane that are closest to
each other are joined, and the streams that took the least time are left out.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from lakeport.errors import LakeportError
from lakeport.host.activity import activity
from lakeport.model import EngineReport, Landed, Rejection, Span, StreamReport
from lakeport.scrub import mask_known, scrub
from lakeport.writers.timing import Pace, Point, iterate_within

if TYPE_CHECKING:
    from lakeport.model import Staged, Storage

Kind = TypeVar("Kind")

T = TypeVar("T")

MOST_SPANS = 200
"""Most spans of a report."""
MOST_POINTS = 120
"""Most points of each pace of a report."""
MOST_SHORT = 50
"""Most streams, warnings, reasons and files of a short report."""

_ADJACENT_SECONDS: Final = 0.005  # a smaller gap between two spans of a lane joins them
_SHORTEST_SECONDS: Final = 0.001  # shorter spans of the driver are left out
_LONG: Final = frozenset({"state", "command", "spans", "pace", "reading_pace"})
_WIDE: Final = frozenset({"columns", "source_columns"})

_Lanes = dict[tuple[str, str], list[Span]]
"""Stream and stage -> the spans of this lane, in the order of time."""


class Observer(Protocol):
    """Observer of one load; its methods are called from several threads.

    A class that derives from it ignores the events for which it has no method.
    """

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """Hear how many records and bytes of a stream were read so far; -1 if unknown."""
        return

    def on_landed(self, landed: Landed) -> None:
        """Hear of a batch that is durable and visible, or that the same run had landed before."""
        return

    def on_state(self, state: bytes) -> None:
        """Receive a Singer STATE as raw JSON; all rows before it are durable by now.

        Raises:
            LakeportError: the observer can't hand it on; the load fails.
        """
        return

    def on_warning(self, text: str) -> None:
        """Hear a sentence that the user should read, although the load goes on."""
        return

    def on_finished(self, report: LandingReport) -> None:
        """Hear that the load is over, with its report."""
        return


class _ObserverGroup:
    """Passes each call on to several observers, in order."""

    def __init__(self, observers: Iterable[object]) -> None:
        self._observers = [each for each in observers if each is not None]

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call_each(*arguments: object) -> None:
            for each in self._observers:
                getattr(each, name)(*arguments)

        return call_each


def fan_out(*observers: Kind | None) -> Kind:
    """Return one observer that passes each call on to all of these, in order; skip Nones."""
    return cast(Kind, _ObserverGroup(observers))


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as reports and `--json` show it."""

    type: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception; leave out messages of other libraries, which may quote data."""
        name = type(error).__name__
        if isinstance(error, LakeportError):
            return cls(name, error.message, error.hint)
        reason = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        return cls(name, f"unexpected {name}{_code_location(error)}{reason}")

    def scrubbed(self, secrets: Iterable[str]) -> Failure:
        """Return the failure with these secrets masked in message and hint."""
        known = tuple(secrets)
        return Failure(self.type, scrub(self.message, known), scrub(self.hint, known))


@dataclass(frozen=True, slots=True)
class LandingReport:
    """Report of one load. docs/reports.md describes each value."""

    run_id: str
    target: str
    started: datetime
    finished: datetime
    seconds: float
    streams: tuple[StreamReport, ...] = ()
    stray_lines: int = 0
    quarantine: tuple[str, ...] = ()
    state: bytes | None = None
    warnings: tuple[str, ...] = ()
    parser: str = ""
    engine: EngineReport = field(default_factory=EngineReport)
    error: Failure | None = None
    command: tuple[str, ...] | None = None
    reasons: tuple[Rejection, ...] = ()
    spans: tuple[Span, ...] = ()
    streams_left_out: int = 0
    pace: tuple[Point, ...] = ()
    reading_pace: tuple[Point, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the run ended without an error."""
        return self.error is None

    @property
    def rows(self) -> int:
        """Rows that this run landed, over all streams."""
        return sum(stream.rows for stream in self.streams)

    @property
    def rejected(self) -> int:
        """Bad records that were quarantined or skipped, stray lines included."""
        return sum(stream.rejected for stream in self.streams) + self.stray_lines

    @property
    def files(self) -> int:
        """Files that this run wrote, over all streams."""
        return sum(stream.files for stream in self.streams)

    @property
    def bytes(self) -> int:
        """Bytes of the files that this run wrote, over all streams."""
        return sum(stream.bytes for stream in self.streams)

    def __repr__(self) -> str:
        """Return the run, its target, its counts, and the type of its error, in one line."""
        failed = "" if self.error is None else f", {self.error.type}"
        return (
            f"LandingReport(run_id={self.run_id!r}, target={self.target!r}, "
            f"streams={len(self.streams)}, rows={self.rows}, rejected={self.rejected}{failed})"
        )

    def _repr_html_(self) -> str:
        """Return the report as notebooks show it: figures, streams, and where the time went."""
        import msgspec

        from lakeport.html.document import build_notebook_part
        from lakeport.html.facts import RunFacts
        from lakeport.html.run import render_run_part

        return build_notebook_part(render_run_part(msgspec.convert(self.to_dict(), RunFacts)))

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Return the report as a dict of JSON values; docs/reports.md describes them.

        Without `whole` it is short: without spans, paces, STATE and columns, and no list has more
        than 50 items; `streams_left_out` is the number of streams beyond.
        """
        facts = asdict(self, dict_factory=_plain_fields)
        if not whole:
            facts = {
                name: value[:MOST_SHORT] if isinstance(value, list) else value
                for name, value in facts.items()
                if name not in _LONG
            }
            facts["streams_left_out"] = len(self.streams) - len(facts["streams"])
            facts["streams"] = [
                {name: value for name, value in stream.items() if name not in _WIDE}
                for stream in facts["streams"]
            ]
        names = ("run_id", "target", "started", "finished", "seconds")
        run = {name: facts.pop(name) for name in names}
        sums = {name: getattr(self, name) for name in ("rows", "rejected", "files", "bytes")}
        return {"report": 1, "ok": self.ok, **run, **sums, **facts}

    def to_json(self) -> str:
        """Return the report as one JSON object on one line."""
        return json.dumps(self.to_dict())


def save_report(report: LandingReport, storage: Storage) -> None:
    """Write a report to a new file below `_lakeport/reports`; ignore errors of the store."""
    stamp = report.started.strftime("%Y%m%d-%H%M%S")
    key = f"_lakeport/reports/{stamp}-{secrets.token_hex(4)}.json"
    with suppress(LakeportError):
        storage.put(key, mask_known(report.to_json()).encode() + b"\n")


def _plain_fields(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a dataclass with plain values, for `asdict`."""
    return {name: plain_value(value) for name, value in fields}


def plain_value(value: Any) -> Any:
    """Convert a value for JSON: floats to 3 digits, times in UTC, bytes parsed as JSON."""
    match value:
        case tuple():
            return [plain_value(each) for each in value]
        case float():
            return round(value, 3)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case bytes():
            return json.loads(value)
    return value


def _code_location(error: BaseException) -> str:
    """Return ` in FILE, line N` of where an exception was raised; empty if it was not raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


class Timeline:
    """Records the times of a run's stages, and its pace of rows and bytes; thread-safe.

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
        """Return the seconds since the run's start."""
        return self._tick() - self._began

    @contextmanager
    def stage(self, name: str, stream: str = "") -> Iterator[float]:
        """Record the body as a stage; yield its start, in seconds since the run's start."""
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

    @contextmanager
    def show_stage(
        self, name: str, stream: str, total: int = -1, rows_total: int = -1
    ) -> Iterator[float]:
        """Record a stage like `stage`, and show it in the progress display meanwhile.

        `total` and `rows_total` are the bytes and rows to process; -1 if unknown.
        """
        shown = activity(name, stream, total=total, rows_total=rows_total)
        with self.stage(name, stream) as start, shown:
            yield start

    def time_items(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; record the time until each comes as a stage."""
        return iterate_within(partial(self.stage, name), items)

    def add_stage(self, name: str, began: float | None, ended: float | None) -> None:
        """Add a stage by clock readings: none without `began`, until now without `ended`."""
        if began is None:
            return
        start = max(began - self._began, 0.0)
        end = self.elapsed() if ended is None else ended - self._began
        if end > start:
            with self._lock:
                self._add(Span(name, "", start, end, busy=end - start))

    def add_tasks(self, stream: str, staged: Sequence[Staged], start: float) -> None:
        """Add the stages and the writing pace of a stream's tasks, which have just ended.

        The tasks' machines may have other clocks: times before `start`, in seconds of the run, or
        after now are clipped.
        """
        end, found = self.elapsed(), dict[str, Span]()

        def clip(timestamp: float) -> float:
            return min(max(timestamp - self._since, start), end)

        with self._lock:
            for work in (one.work for one in staged if one.work is not None):
                for name, (began, ended, busy) in work.stages.items():
                    span = Span(name, stream, clip(began), clip(ended), 1, busy)
                    found[name] = found[name].with_next(span) if name in found else span
                self._written.coarsen(work.step)
                for timestamp, rows, size in work.pace:
                    self._written.add(clip(timestamp), rows, size)
            for span in found.values():
                self._add(span)

    def add_progress(self, stream: str, records: int, size: int) -> None:
        """Record the records and bytes of a stream that were read since the run's start."""
        with self._lock:
            rows_before, bytes_before = self._seen.get(stream, (0, 0))
            self._seen[stream] = records, size
            self._read.add(self.elapsed(), records - rows_before, size - bytes_before)

    def spans(self, now: float) -> tuple[tuple[Span, ...], int]:
        """Return at most 200 spans, sorted by start, and the number of streams left out.

        Spans that are still open end `now`.
        """
        with self._lock:
            lanes = {lane: list(spans) for lane, spans in self._lanes.items()}
            for one in self._open.values():
                span = replace(one, end=now, busy=now - one.start)
                lanes.setdefault((one.stream, one.stage), []).append(span)
        kept, left_out = _keep_largest(lanes)
        found = [span for spans in _join_neighbours(kept, MOST_SPANS).values() for span in spans]
        return tuple(sorted(found, key=lambda span: (span.start, -span.end))), left_out

    def paces(self, now: float) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
        """Return the points (seconds, rows, bytes so far) of reading and of writing."""
        with self._lock:
            read, written = self._read.cumulated(), self._written.cumulated()
        return _clip_points(now, read), _clip_points(now, written)

    def _add(self, span: Span) -> None:
        """Add a span; join it with the last one of its stream and stage if under 5 ms apart.

        Driver spans below a millisecond are left out; too many spans are joined.
        """
        lane = self._lanes.setdefault((span.stream, span.stage), [])
        if lane and span.start - lane[-1].end < _ADJACENT_SECONDS:
            lane[-1] = lane[-1].with_next(span)
            return
        if lane and not span.tasks and span.end - span.start < _SHORTEST_SECONDS:
            return
        lane.append(span)
        self._count += 1
        if self._count > 2 * max(MOST_SPANS, len(self._lanes)):
            self._lanes = _join_neighbours(self._lanes, max(MOST_SPANS, len(self._lanes)))
            self._count = sum(map(len, self._lanes.values()))


def _keep_largest(lanes: _Lanes) -> tuple[_Lanes, int]:
    """Keep the streams that took the most time, up to 200 lanes; also return how many are cut."""
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


def _join_neighbours(lanes: _Lanes, max_spans: int) -> _Lanes:
    """Join the spans with the smallest gaps until at most `max_spans` are left."""
    gaps = [
        (after.start - before.end, lane, place)
        for lane, spans in lanes.items()
        for place, (before, after) in enumerate(pairwise(spans), 1)
    ]
    surplus = len(lanes) + len(gaps) - max_spans
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


def _clip_points(end: float, points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points with times of at most `end`: the last step may go on."""
    return tuple((min(at, end), rows, size) for at, rows, size in points)
