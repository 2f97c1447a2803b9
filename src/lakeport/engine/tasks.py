"""Outcomes of tasks, for both engines: how a task ends, and the results of all."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeport.engine.failures import translate
from lakeport.errors import LakeportError, SparkFailure
from lakeport.host.process import ProcessContext
from lakeport.scrub import scrub


@dataclass(frozen=True, slots=True)
class JobLabel:
    """Description and group of a run's jobs in Spark's UI and event log.

    Attributes:
        step: what its tasks do, such as `write orders to s3://lake/orders`.
        run: name of its run, whose jobs form one group; empty for a command.
    """

    step: str
    run: str = ""

    @property
    def description(self) -> str:
        """Text that Spark's UI shows for the job.

        >>> JobLabel("write orders to s3://lake/orders", "nightly").description
        'lakeport: write orders to s3://lake/orders, run nightly'
        """
        return f"lakeport: {self.step}" + (f", run {self.run}" if self.run else "")

    @property
    def group(self) -> str:
        """The job's group."""
        return f"lakeport {self.run}" if self.run else "lakeport"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """A task's results or error; it has neither if the task was skipped after a failure.

    Attributes:
        trace: the stack trace of an unexpected error; else empty.
    """

    task: int
    results: tuple[Any, ...] = ()
    error: LakeportError | None = None
    trace: str = ""

    def check(self) -> None:
        """Raise the task's error, if there is one."""
        if self.error is not None:
            raise self.error from TaskTraceError(self.trace) if self.trace else None


class TaskTraceError(Exception):
    """Cause of a task's error: the stack trace in the worker, as text."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Number of attempts of a job's tasks, and the folder where failed tasks leave flags.

    Attributes:
        flag_folder: folder that all tasks share. A failed task leaves its number there, and those
            with higher numbers do not start. Empty without a shared disk.
        process_context: environment to run the task in; None for the worker's own.
    """

    attempts: int
    flag_folder: str = ""
    process_context: ProcessContext | None = None

    def run_task(self, task: int, attempt: int, work: Callable[[], list[Any]]) -> TaskOutcome:
        """Run `work` and return its outcome. Skip it if a lower-numbered task has failed.

        Args:
            attempt: how often Spark has tried it before.
        """
        if self.process_context is not None:
            self.process_context.apply()
        if self.flag_folder and any(
            int(flag.name) < task for flag in Path(self.flag_folder).iterdir()
        ):
            return TaskOutcome(task)
        try:
            return TaskOutcome(task, tuple(work()))
        except Exception as error:
            return self.failed_outcome(task, attempt, error)

    def failed_outcome(self, task: int, attempt: int, error: Exception) -> TaskOutcome:
        """Return a failed task's outcome and leave a flag; raise if Spark may retry."""
        is_final = isinstance(error, LakeportError) and not error.retriable
        if attempt + 1 < self.attempts and not is_final:
            raise error
        if self.flag_folder:
            with suppress(OSError):
                Path(self.flag_folder, str(task)).touch()
        words = scrub("".join(traceback.format_exception(error)))
        trace = "" if isinstance(error, LakeportError) else words
        return TaskOutcome(task, error=_make_picklable(translate(error)), trace=trace)


def gather_results(
    outcomes: list[TaskOutcome], discard: Callable[[list[Any]], None] | None
) -> list[Any]:
    """Return all results in task order. After a failure, pass them to `discard`, then raise."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.task)
    results = [result for outcome in ordered for result in outcome.results]
    for outcome in ordered:
        if outcome.error is not None:
            if discard is not None and results:
                discard(results)
            outcome.check()
    return results


def _make_picklable(error: LakeportError) -> LakeportError:
    """Return `error`; if pickle can't copy it, a SparkFailure with its message and hint."""
    with suppress(Exception):
        if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  # of our own
            return error
    return SparkFailure(error.message, error.hint)
