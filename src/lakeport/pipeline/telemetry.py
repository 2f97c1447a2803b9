"""Telemetry of a lake file's runs; that of their loads is `lakeport.loading.telemetry`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
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
    log, error_type = _RunLog(run), None
    describe: Callable[..., None] | None = None
    text = f"run {run} begins: {', '.join(loads)} of {file}"
    log_event(logging.INFO, "run.begin", text, run=run, file=file, loads=len(loads))
    with ExitStack() as stack:
        stack.enter_context(attribute_to_run(run))
        if is_traced():
            from lakeport.loading.tracing import trace_run

            describe = stack.enter_context(trace_run(run, file))
        try:
            yield log
        except BaseException as error:
            error_type = type(error).__name__
            raise
        finally:
            sums = log.end(error_type)
            if describe is not None:
                describe(**sums)


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
        """Log the end of a load that did not begin to land."""
        if report.outcome != "left out" and report.landing is None:
            skipped = report.outcome == "skipped"
            log_event(
                logging.WARNING if skipped else logging.ERROR,
                "load.skipped" if skipped else "load.end",
                f"load {report.load}: {report.outcome} {report.reason}".rstrip(),
                parent_run=self._run,
                load=report.load,
                outcome=report.outcome,
                seconds=round(report.seconds, 3),
                error_type=report.error and report.error.type,
            )

    def on_finished(self, report: PipelineReport) -> None:
        """Keep the report until the run's end."""
        self._report = report

    def end(self, error_type: str | None) -> dict[str, int]:
        """Log the run's end, and the type of the error that ended it, if any; return its sums."""
        sums, outcome = {}, "failed" if error_type else "ok"
        if self._report is not None:
            landings = [load.landing for load in self._report.loads if load.landing]
            names = ("rows", "bytes", "rejected")
            sums = {name: sum(getattr(one, name) for one in landings) for name in names}
            sums["failed"] = len(self._report.failed)
        log_event(
            logging.ERROR if error_type else logging.INFO,
            "run.end",
            f"run {self._run} ended: {outcome}",
            run=self._run,
            outcome=outcome,
            seconds=self._report and round(self._report.seconds, 3),
            error_type=error_type,
            **sums,
        )
        return sums
