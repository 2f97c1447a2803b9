"""The builder of a load's report, which adds up the events of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock

from lakeport.errors import BadRecord
from lakeport.host.process import command_line, mask_command_line
from lakeport.loading.quarantine import Rejections
from lakeport.loading.report import Failure, LandingReport, Timeline
from lakeport.model import EngineReport, ExpectationResult, Landed, StreamReport
from lakeport.native import parser


class ReportBuilder:
    """Builds a load's report from its commits, counts and warnings; thread-safe.

    Args:
        secrets: values to mask in the error and the command line.
        now: reads the clock, UTC.
        tick: reads a clock that never steps back, in seconds.

    Attributes:
        timeline: records when the stages of the run were done.
        engine: the engine that ran the tasks; set before `finish`.
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

    def add_landed(self, landed: Landed) -> None:
        """Add a batch's commit, or a skipped batch, to its stream."""
        self._update_stream(
            landed.stream,
            lambda old: replace(
                _add_commit(old, landed),
                rows=old.rows + landed.rows,
                batches=old.batches + 1,
                skipped_batches=old.skipped_batches + landed.skipped,
                seconds=old.seconds + landed.seconds,
                notes=_join_unique(old.notes, landed.notes),
                columns={**old.columns, **landed.columns},
                source_columns={**old.source_columns, **landed.source_columns},
                merged=_add_counts(old.merged, landed.merged),
            ),
        )

    def add_commit(self, landed: Landed) -> None:
        """Add the files and version of a commit that retired earlier versions of a stream."""
        self._update_stream(landed.stream, lambda old: _add_commit(old, landed))

    def add_rejected(self, stream: str, count: int) -> None:
        """Add to the number of a stream's rejected records."""
        self._update_stream(stream, lambda old: replace(old, rejected=old.rejected + count))

    def add_dropped(self, stream: str, fields: Mapping[str, int]) -> None:
        """Add, for each undeclared field that was dropped, the number of records that had it."""
        self._update_stream(
            stream, lambda old: replace(old, dropped=dict(Counter(old.dropped) + Counter(fields)))
        )

    def add_results(self, stream: str, results: Sequence[ExpectationResult]) -> None:
        """Add a stream's expectation results; sum them up with earlier ones of the same name."""
        self._update_stream(
            stream, lambda old: replace(old, expectations=_add_results(old.expectations, results))
        )

    def add_stray_lines(self, count: int) -> None:
        """Add to the number of lines that belong to no stream."""
        self._stray += count

    def add_quarantined(self, records: Iterable[BadRecord], uris: Iterable[str]) -> None:
        """Count bad records by their reasons, and add the URIs of the files that hold them."""
        with self._lock:
            self._rejections.add(records)
            self._quarantine.update(dict.fromkeys(uris))

    def set_state(self, state: bytes) -> None:
        """Set the last STATE that was emitted."""
        self._state = state

    def add_warning(self, text: str, stream: str = "") -> None:
        """Add a warning to a stream, or to the load if `stream` is empty; each text once."""
        if stream:
            self._update_stream(
                stream, lambda old: replace(old, warnings=_join_unique(old.warnings, (text,)))
            )
        else:
            self._warnings[text] = None

    def add_note(self, stream: str, table: str, text: str) -> None:
        """Add a note about a stream without rows to its report, and set its table's URI."""
        self._update_stream(
            stream, lambda old: replace(old, table=table, notes=_join_unique(old.notes, (text,)))
        )

    def finish(self, error: BaseException | None = None) -> LandingReport:
        """Build the report from all that was added so far; with `error`, of a failed load."""
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
            command=None
            if self._command is None
            else mask_command_line(self._command, self._secrets),
            reasons=reasons,
            spans=spans,
            streams_left_out=left_out,
            pace=written,
            reading_pace=read,
            engine=self.engine,
        )

    def _update_stream(self, stream: str, change: Callable[[StreamReport], StreamReport]) -> None:
        """Apply `change` to a stream's report, at first an empty one, under the lock."""
        with self._lock:
            old = self._streams.get(stream) or StreamReport(stream)
            self._streams[stream] = change(old)


def _add_commit(old: StreamReport, landed: Landed) -> StreamReport:
    """Return a stream's report with a commit's files, versions, warnings and removed rows added."""
    return replace(
        old,
        table=landed.table,
        files=old.files + (0 if landed.skipped else len(landed.files)),
        bytes=old.bytes + (0 if landed.skipped else landed.bytes),
        removed_files=old.removed_files + landed.removed_files,
        first_version=_first_known(old.first_version, landed.version),
        last_version=_first_known(landed.version, old.last_version),
        warnings=_join_unique(old.warnings, landed.warnings),
        removed_rows=_add_known(old.removed_rows, landed.removed_rows),
    )


def _first_known(*versions: int | None) -> int | None:
    """Return the first version that is not None; None if there is none."""
    return next((version for version in versions if version is not None), None)


def _add_known(one: int | None, other: int | None) -> int | None:
    """Return the sum of two numbers; None if one of them is None: unknown."""
    return None if one is None or other is None else one + other


def _add_counts(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    """Add up counts by name, for names in both mappings; if one is empty, return the other."""
    if not one or not other:
        return one or other
    return {name: one[name] + other[name] for name in one if name in other}


def _join_unique(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of both, each once, in order."""
    return tuple(dict.fromkeys((*one, *two)))


def _add_results(
    one: Sequence[ExpectationResult], two: Sequence[ExpectationResult]
) -> tuple[ExpectationResult, ...]:
    """Merge expectation results of two batches by name; sum their checked and failed rows."""
    found = {result.name: result for result in one}
    for new in two:
        if old := found.get(new.name):
            new = replace(new, checked=old.checked + new.checked, failed=old.failed + new.failed)
        found[new.name] = new
    return tuple(found.values())
