"""Outcomes of tasks, whichever engine runs these, and the results that a job gathers from them."""

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
class TaskOutcome:
    """The end of a task: its results, its error, or neither where an earlier task failed.

    Attributes:
        task: the task's number.
        results: what its function returned.
        error: what it raised.
        trace: the stack of an error that nobody foresaw.
    """

    task: int
    results: tuple[Any, ...] = ()
    error: LakeportError | None = None
    trace: str = ""

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error from TaskTraceError(self.trace) if self.trace else None


class TaskTraceError(Exception):
    """The cause of an error that comes from a task: the stack over there, as text."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Failure policy of a job's tasks: their attempts, and the flags by which one stops the others.

    Attributes:
        attempts: how often Spark tries a task.
        flags: folder shared with the other tasks, where a failed one leaves its number; those
            behind it in line need not start. Empty where there is no shared disk.
        surroundings: what the task is to find around it; None where that is so by itself.
    """

    attempts: int
    flag_folder: str = ""
    process_context: ProcessContext | None = None

    def run_task(self, task: int, attempt: int, work: Callable[[], list[Any]]) -> TaskOutcome:
        """Do the work of one task; return its outcome."""
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
        """Return the outcome of a failed task; raise its error where Spark may try once more."""
        lasting = isinstance(error, LakeportError) and not error.retriable
        if attempt + 1 < self.attempts and not lasting:
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
    """Return the results of all tasks in their order.

    Args:
        outcomes: the tasks' outcomes, in any order.
        discard: called with the results there are where a task failed.

    Raises:
        LakeportError: what the first of the failed tasks raised.
    """
    ordered = sorted(outcomes, key=lambda outcome: outcome.task)
    results = [result for outcome in ordered for result in outcome.results]
    for outcome in ordered:
        if outcome.error is not None:
            if discard is not None and results:
                discard(results)
            outcome.check()
    return results


def _make_picklable(error: LakeportError) -> LakeportError:
    """The error, if it survives pickling, else one that says the same."""
    with suppress(Exception):
        if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  # of our own
            return error
    return SparkFailure(error.message, error.hint)
