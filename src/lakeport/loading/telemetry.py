"""Telemetry of loads: records for Python's `logging`, and for OpenTelemetry where it is in use.

Each record of the logger `lakeport.loading` has its values as attributes: `event`, `run`, `stream`,
`batch`, `rows` and others, which docs/monitoring.md lists. They hold no record's value.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from lakeport.host.activity import current_load
from lakeport.loading.report import LandingReport, Observer, fan_out
from lakeport.model import Landed
from lakeport.scrub import mask_known, scrub
from lakeport.units import pluralize

LOGGER: Final = "lakeport.loading"
"""Logger of all records about loads and runs. A command's own output says the same in words."""

_log = logging.getLogger(LOGGER)
_parent_run: ContextVar[str | None] = ContextVar("lakeport_run", default=None)


@contextmanager
def attribute_to_run(run: str) -> Iterator[None]:
    """Context manager: loads that begin in its body are part of a lake file's run."""
    before = _parent_run.set(run)
    try:
        yield
    finally:
        _parent_run.reset(before)


def log_event(level: int, event: str, text: str, **values: Any) -> None:
    """Log `text` with `event` and `values` as attributes of the record; leave out Nones.

    Known secrets are masked in values.
    """
    known = {
        name: mask_known(value) if isinstance(value, str) else value
        for name, value in values.items()
        if value is not None
    }
    _log.log(level, text, extra={"event": event, **known})


def is_traced() -> bool:
    """Whether this process has imported OpenTelemetry: nobody hears its API otherwise."""
    return "opentelemetry.trace" in sys.modules


def watch_load(
    run: str,
    target: str,
    source: str,
    engine: str,
    secrets: Iterable[str] = (),
    retries: Callable[[], int] = int,
) -> Observer:
    """Log that a load begins, and return the observer that logs and traces its events.

    Args:
        engine: `spark` or `threads`.
        secrets: values to mask.
        retries: returns how many requests to the store were repeated so far.
    """
    log = LoadLog(run, target, source, engine, secrets)
    if not is_traced():
        return log
    from lakeport.loading.tracing import LoadTrace

    return fan_out(log, LoadTrace(run, target, engine, retries))


class LoadLog(Observer):
    """Logs a load's events, with its run and, in a lake file's run, the load's name."""

    def __init__(
        self, run: str, target: str, source: str, engine: str, secrets: Iterable[str]
    ) -> None:
        self._secrets = tuple(secrets)
        name = current_load() or None
        self._own = {"run": run, "load": name, "parent_run": _parent_run.get()}
        source = scrub(source, self._secrets)
        self._emit(
            logging.INFO,
            "load.begin",
            f"load {run} begins: {source} to {target}, by {engine}",
            target=target,
            source=source,
            engine=engine,
        )

    def on_landed(self, landed: Landed) -> None:
        """Log a commit, or that the run had landed the batch before."""
        done = "was landed before" if landed.skipped else f"landed {pluralize(landed.rows, 'row')}"
        self._emit(
            logging.INFO,
            "batch.skipped" if landed.skipped else "batch.landed",
            f"{landed.stream}: batch {landed.sequence} {done}, {landed.seconds:.1f} s",
            stream=landed.stream,
            batch=landed.sequence,
            table=landed.table,
            rows=landed.rows,
            files=0 if landed.skipped else len(landed.files),
            bytes=0 if landed.skipped else landed.bytes,
            seconds=round(landed.seconds, 3),
            version=landed.version,
            conflicts=landed.conflicts,
        )

    def on_state(self, state: bytes) -> None:
        """Log that a STATE was handed on; its value may hold data."""
        self._emit(logging.INFO, "state.emitted", "a STATE was handed on")

    def on_warning(self, text: str) -> None:
        """Log a warning."""
        self._emit(logging.WARNING, "warning", text)

    def on_finished(self, report: LandingReport) -> None:
        """Log each stream's notes, warnings and rejected records, then the load's end."""
        for stream in report.streams:
            for text in stream.notes:
                self._emit(logging.INFO, "note", text, stream=stream.stream)
            for text in stream.warnings:
                self._emit(logging.WARNING, "warning", text, stream=stream.stream)
            if stream.rejected:
                text = f"{stream.stream}: {pluralize(stream.rejected, 'record')} rejected"
                values = {"stream": stream.stream, "rejected": stream.rejected}
                self._emit(logging.WARNING, "records.rejected", text, **values)
        failure = report.error
        rows = f"{pluralize(report.rows, 'row')}, {report.seconds:.1f} s"
        self._emit(
            logging.INFO if failure is None else logging.ERROR,
            "load.end",
            f"load {report.run_id} {'ended' if failure is None else 'failed'}: {rows}",
            outcome="ok" if failure is None else "failed",
            rows=report.rows,
            rejected=report.rejected,
            files=report.files,
            bytes=report.bytes,
            seconds=round(report.seconds, 3),
            error_type=failure and failure.type,
        )

    def _emit(self, level: int, event: str, text: str, **values: Any) -> None:
        """Log an event of this load, with secrets masked in the text."""
        log_event(level, event, scrub(text, self._secrets), **self._own, **values)
