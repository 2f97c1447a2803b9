"""Spans and metrics of loads and runs, by OpenTelemetry's API.

```
run ─▶ load ─┬─▶ reading, starting Spark, writing …
             └─▶ batch ─▶ commit
```
An application's own providers receive them; the command line sets some up (`cli.telemetry`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, StatusCode

from lakeport.errors import LakeportError
from lakeport.host.activity import current_load
from lakeport.loading.report import Failure, LandingReport, Observer
from lakeport.model import Landed
from lakeport.scrub import mask_known
from lakeport.version import __version__

_NAME: Final = "lakeport"
_UNITS: Final = {
    "rows": "{row}",
    "bytes": "By",
    "files": "{file}",
    "loads": "{load}",
    "batches": "{batch}",
    "rejected": "{record}",
    "conflicts": "{commit}",
    "retries": "{request}",
}
"""Counter, without its prefix -> its unit."""


class LoadTrace(Observer):
    """Traces a load below the current span, and counts what it does.

    Args:
        retries: returns how many requests to the store this process has repeated so far.
    """

    def __init__(self, run: str, target: str, engine: str, retries: Callable[[], int]) -> None:
        self._tracer = trace.get_tracer(_NAME, __version__)
        meter = metrics.get_meter(_NAME, __version__)
        self._counters = {
            name: meter.create_counter(f"{_NAME}.{name}", unit) for name, unit in _UNITS.items()
        }
        self._seconds = meter.create_histogram(f"{_NAME}.load.duration", "s")
        self._load = {"target": target, "load": current_load()}
        self._began = time.time_ns()
        self._retries, self._conflicts = retries, 0
        self._retries_before = self._count_retries()
        values = _attributes(**self._load, run_id=run, engine=engine)
        self._span = self._tracer.start_span("lakeport load", attributes=values)

    def on_landed(self, landed: Landed) -> None:
        """Record the spans of a batch and its commit, and count its rows."""
        end = time.time_ns()
        place = {"stream": landed.stream, "table": landed.table}
        counts = {"conflicts": landed.conflicts}
        if not landed.skipped:
            counts |= {"rows": landed.rows, "bytes": landed.bytes, "files": len(landed.files)}
        own = {"batch": landed.sequence, "skipped": landed.skipped, "version": landed.version}
        values: dict[str, Any] = {**place, **counts, **own}
        begin = end - int(landed.seconds * 1e9)
        batch = self._add_span("batch", self._span, begin, end, values)
        if not landed.skipped:
            begin = end - int(landed.commit_seconds * 1e9)
            self._add_span("commit", batch, begin, end, values)
        self._conflicts += landed.conflicts
        self._count({**counts, "batches": 1}, **place)

    def on_finished(self, report: LandingReport) -> None:
        """Record the spans of the load's stages, and end its own."""
        for span in report.spans:
            if span.stage != "committing":  # each commit has a span of its own
                begin, end = (self._began + int(at * 1e9) for at in (span.start, span.end))
                self._add_span(span.stage, self._span, begin, end, {"stream": span.stream})
        counts = {
            "rejected": report.rejected,
            "retries": self._count_retries() - self._retries_before,
        }
        sums = {"rows": report.rows, "bytes": report.bytes, "files": report.files}
        self._span.set_attributes(_attributes(**counts, **sums, conflicts=self._conflicts))
        if report.error is not None:
            _mark_failed(self._span, report.error)
        self._span.end()
        outcome = "ok" if report.ok else "failed"
        self._count({**counts, "loads": 1}, outcome=outcome)
        self._seconds.record(report.seconds, _attributes(**self._load, outcome=outcome))

    def _add_span(
        self, name: str, parent: Span, begin: int, end: int, values: dict[str, Any]
    ) -> Span:
        """Record a span that has ended, by its times in nanoseconds since 1970; return it."""
        context, known = trace.set_span_in_context(parent), _attributes(**values)
        span = self._tracer.start_span(
            f"lakeport {name}", context, attributes=known, start_time=begin
        )
        span.end(end)
        return span

    def _count_retries(self) -> int:
        """Return how many requests were repeated so far; 0 while the store can't be opened."""
        try:
            return self._retries()
        except LakeportError:
            return 0  # the load says what is wrong

    def _count(self, counts: dict[str, int], **place: str) -> None:
        """Add to the counters, by name."""
        for name, count in counts.items():
            self._counters[name].add(count, _attributes(**self._load, **place))


def _attributes(**values: Any) -> dict[str, Any]:
    """Return attributes of spans and metrics, with their prefix; leave out Nones and empty ones.

    Known secrets are masked in them.
    """
    return {
        f"{_NAME}.{name}": mask_known(value) if isinstance(value, str) else value
        for name, value in values.items()
        if value not in (None, "")
    }


@contextmanager
def trace_run(run: str, file: str) -> Iterator[Callable[..., None]]:
    """Context manager: loads that begin in its body are below one span, of a lake file's run.

    Yields a function that adds values to the span, by their names.
    """
    tracer = trace.get_tracer(_NAME, __version__)
    values = _attributes(run_id=run, file=file)
    with tracer.start_as_current_span(
        "lakeport run", attributes=values, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield lambda **values: span.set_attributes(_attributes(**values))
        except BaseException as error:
            _mark_failed(span, Failure.of(error))
            raise


def _mark_failed(span: Span, failure: Failure) -> None:
    """Set a span's status and the type of its error."""
    span.set_status(StatusCode.ERROR, failure.type)
    span.set_attribute("error.type", failure.type)
