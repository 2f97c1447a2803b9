"""Telemetry of a lake file's runs; that of their loads is `lakeport.loading.telemetry`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from lakeport.loading.telemetry import attribute_to_run, is_traced, log_event
from lakeport.pipeline.report import LoadReport, PipelineObserver, PipelineReport


@contextmanager
def watch_run(run: str, file: str, loads: Collection[str]) -> Iterator[PipelineObserver]:
    """Context manager that logs and traces a run, however it ends; yield its observer.

    Args:
        run: the run's id.
        loads: names of the loads that it has to do.
    """
    log = _RunLog(run)
    text = f"run {run} begins: {', '.join(loads)} of {file}"
    log_event(logging.INFO, "run.begin", text, run=run, file=file, loads=len(loads))
    with ExitStack() as stack:
        stack.enter_context(attribute_to_run(run))
        if is_traced():
            from lakeport.loading.tracing import trace_run

            stack.enter_context(trace_run(run, file))
        try:
            yield log
        except BaseException as error:
            log.end(type(error).__name__)
            raise
        log.end()


class _RunLog(PipelineObserver):
    """Logs what a run's loads don't log themselves."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._report: PipelineReport | None = None

    def on_warning(self, load: str, text: str) -> None:
        """Log a warning of the run; loads log their own."""
        if not load:
            log_event(logging.WARNING, "warning", text, run=self._run)

    def on_ended(self, report: LoadReport) -> None:
        """Log a load that was skipped, or failed before it began."""
        if report.outcome in ("landed", "left out") or report.landing is not None:
            return
        reason = report.reason or (report.error.type if report.error else "")
        log_event(
            logging.WARNING if report.outcome == "skipped" else logging.ERROR,
            "load.skipped" if report.outcome == "skipped" else "load.end",
            f"load {report.load}: {report.outcome}, {reason}".rstrip(", "),
            parent_run=self._run,
            load=report.load,
            outcome=report.outcome,
            seconds=round(report.seconds, 3),
            error_type=report.error and report.error.type,
        )

    def on_finished(self, report: PipelineReport) -> None:
        """Keep the report until the run's end."""
        self._report = report

    def end(self, error_type: str | None = None) -> None:
        """Log the end of the run, with the type of the error that ended it."""
        values = {}
        if (report := self._report) is not None:
            values = {"rows": report.rows, "rejected": report.rejected}
            values |= {"loads": len(report.loads), "failed": len(report.failed)}
        log_event(
            logging.ERROR if error_type else logging.INFO,
            "run.end",
            f"run {self._run} {'failed' if error_type else 'ended'}",
            run=self._run,
            outcome="failed" if error_type else "ok",
            seconds=report and round(report.seconds, 3),
            error_type=error_type,
            **values,
        )
