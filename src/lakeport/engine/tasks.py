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
from lakeport.host.process import Surroundings
from lakeport.scrub import scrub


@dataclass(frozen=True, slots=True)
class Outcome:
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
class Policy:
    """Failure policy of a job's tasks: their attempts, and the flags by which one stops the others.

    Attributes:
        attempts: how often Spark tries a task.
        flags: folder shared with the other tasks, where a failed one leaves its number; those
            behind it in line need not start. Empty where there is no shared disk.
        surroundings: what the task is to find around it; None where that is so by itself.
    """

    attempts: int
    flags: str = ""
    surroundings: Surroundings | None = None

    def outcome(self, task: int, attempt: int, work: Callable[[], list[Any]]) -> Outcome:
        """Do the work of one task; return its outcome."""
        if self.surroundings is not None:
            self.surroundings.take()
        if self.flags and any(int(flag.name) < task for flag in Path(self.flags).iterdir()):
            return Outcome(task)
        try:
            return Outcome(task, tuple(work()))
        except Exception as error:
            return self.failed(task, attempt, error)

    def failed(self, task: int, attempt: int, error: Exception) -> Outcome:
        """Return the outcome of a failed task; raise its error where Spark may try once more."""
        lasting = isinstance(error, LakeportError) and not error.retriable
        if attempt + 1 < self.attempts and not lasting:
            raise error
        if self.flags:
            with suppress(OSError):
                Path(self.flags, str(task)).touch()
        words = scrub("".join(traceback.format_exception(error)))
        trace = "" if isinstance(error, LakeportError) else words
        return Outcome(task, error=_portable(translate(error)), trace=trace)


def gather(outcomes: list[Outcome], discard: Callable[[list[Any]], None] | None) -> list[Any]:
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


def _portable(error: LakeportError) -> LakeportError:
    """The error, if it survives pickling, else one that says the same."""
    with suppress(Exception):
        if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  # of our own
            return error
    return SparkFailure(error.message, error.hint)
