"""A report in the making: adds up what happens during a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock

from lakeport.errors import BadRecord
from lakeport.host.process import command_line, masked
from lakeport.loading.quarantine import Rejections
from lakeport.loading.report import Failure, LandingReport, Timeline
from lakeport.model import EngineReport, ExpectationResult, Landed, StreamReport
from lakeport.native import parser


class ReportBuilder:
    """Adds up what happens during a run, from several threads.

    Args:
        run_id: the run's name.
        target: URI of the destination.
        secrets: values to mask in the error.
        now: reads the clock, UTC.
        tick: reads a clock that never steps back, in seconds.

    Attributes:
        timeline: takes down when what is done.
        engine: what ran the tasks; set before the report is finished.
    """

    def __init__(
        self,
        run_id: str,
        target: str = "",
        *,
        secrets: Iterable[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline = Timeline(tick)
        self.engine = EngineReport()
        self._now = now
        self.run_id, self._target = run_id, target
        self._secrets = tuple(secrets)
        self._started = now()
        self._command = command_line()
        self._streams: dict[str, StreamReport] = {}
        self._stray = 0
        self._quarantine: dict[str, None] = {}
        self._rejections = Rejections()
        self._warnings: dict[str, None] = {}
        self._state: bytes | None = None
        self._lock = Lock()

    def add_landed(self, landed: Landed, seconds: float = 0.0) -> None:
        """Add a batch, and the seconds that it took."""
        self._change(
            landed.stream,
            lambda old: replace(
                _with_commit(old, landed),
                rows=old.rows + landed.rows,
                batches=old.batches + 1,
                skipped_batches=old.skipped_batches + landed.skipped,
                seconds=old.seconds + seconds,
                notes=_unique(old.notes, landed.notes),
                columns={**old.columns, **landed.columns},
                source_columns={**old.source_columns, **landed.source_columns},
                merged=_added(old.merged, landed.merged),
            ),
        )

    def add_commit(self, landed: Landed) -> None:
        """Add the files and version of a commit that retired earlier versions of a stream."""
        self._change(landed.stream, lambda old: _with_commit(old, landed))

    def add_rejected(self, stream: str, count: int) -> None:
        """Add bad records of a stream that were set aside."""
        self._change(stream, lambda old: replace(old, rejected=old.rejected + count))

    def add_dropped(self, stream: str, fields: Mapping[str, int]) -> None:
        """Add undeclared fields that were left out: field -> records that held it."""
        self._change(
            stream, lambda old: replace(old, dropped=dict(Counter(old.dropped) + Counter(fields)))
        )

    def add_results(self, stream: str, results: Sequence[ExpectationResult]) -> None:
        """Add the results of a stream's expectations."""
        self._change(
            stream, lambda old: replace(old, expectations=_results(old.expectations, results))
        )

    def add_stray_lines(self, count: int) -> None:
        """Add lines that belong to no stream."""
        self._stray += count

    def add_quarantined(self, records: Iterable[BadRecord], uris: Iterable[str]) -> None:
        """Add bad records, by their reasons, and the files that hold them."""
        with self._lock:
            self._rejections.add(records)
            self._quarantine.update(dict.fromkeys(uris))

    def set_state(self, state: bytes) -> None:
        """Remember the STATE that went out."""
        self._state = state

    def add_warning(self, text: str, stream: str = "") -> None:
        """Add a sentence, once, to a stream or to the whole run."""
        if stream:
            self._change(stream, lambda old: replace(old, warnings=_unique(old.warnings, (text,))))
        else:
            self._warnings[text] = None

    def add_note(self, stream: str, table: str, text: str) -> None:
        """Add a line about a stream that had no rows."""
        self._change(
            stream, lambda old: replace(old, table=table, notes=_unique(old.notes, (text,)))
        )

    def finish(self, error: BaseException | None = None) -> LandingReport:
        """The report, of a run that failed if there is an error."""
        seconds = self.timeline.elapsed()
        spans, left_out = self.timeline.spans(seconds)
        read, written = self.timeline.paces(seconds)
        with self._lock:  # after an interrupt a batch may go on and be reported
            reasons = self._rejections.most_frequent()
        return LandingReport(
            run_id=self.run_id,
            target=self._target,
            started=self._started,
            finished=self._now(),
            seconds=seconds,
            streams=tuple(self._streams.values()),
            stray_lines=self._stray,
            quarantine=tuple(self._quarantine),
            state=self._state,
            warnings=tuple(self._warnings),
            error=Failure.of(error).scrubbed(self._secrets) if error else None,
            parser=parser(),
            command=None if self._command is None else masked(self._command, self._secrets),
            reasons=reasons,
            spans=spans,
            streams_left_out=left_out,
            pace=written,
            reading_pace=read,
            engine=self.engine,
        )

    def _change(self, stream: str, change: Callable[[StreamReport], StreamReport]) -> None:
        with self._lock:
            old = self._streams.get(stream) or StreamReport(stream)
            self._streams[stream] = change(old)


def _with_commit(old: StreamReport, landed: Landed) -> StreamReport:
    """Add a commit's files and versions to a stream's report."""
    return replace(
        old,
        table=landed.table,
        files=old.files + (0 if landed.skipped else len(landed.files)),
        bytes=old.bytes + (0 if landed.skipped else landed.bytes),
        removed_files=old.removed_files + landed.removed_files,
        first_version=_first(old.first_version, landed.version),
        last_version=_first(landed.version, old.last_version),
        warnings=_unique(old.warnings, landed.warnings),
        removed_rows=_sum(old.removed_rows, landed.removed_rows),
    )


def _first(*versions: int | None) -> int | None:
    """The first version that there is."""
    return next((version for version in versions if version is not None), None)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    """The sums of two counts; what one of them does not know is not known of both."""
    if not one or not other:
        return one or other
    return {name: one[name] + other[name] for name in one if name in other}


def _unique(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *two)))


def _results(
    one: Sequence[ExpectationResult], two: Sequence[ExpectationResult]
) -> tuple[ExpectationResult, ...]:
    """The results of two batches together, by name."""
    found = {result.name: result for result in one}
    for new in two:
        if old := found.get(new.name):
            new = replace(new, checked=old.checked + new.checked, failed=old.failed + new.failed)
        found[new.name] = new
    return tuple(found.values())
