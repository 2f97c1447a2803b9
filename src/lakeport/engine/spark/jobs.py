"""Python functions run as Spark tasks: results gathered, failures typed.

A task never raises what repeating it can't cure: it hands the error back as its result, so that
Spark neither logs nor retries it, and the driver raises the same error. Everything else is raised
while Spark may still try the task again (never on a local master).
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from lakeport.engine.spark.failures import translate
from lakeport.engine.spark.sql.mapped import mapped
from lakeport.errors import LakeportError, SparkFailure
from lakeport.host.activity import carried, reached_share, working_for
from lakeport.host.cores import available_cores
from lakeport.host.surroundings import Surroundings
from lakeport.scrub import scrub

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from lakeport.engine.spark.session import Runtime

__all__ = [
    "Outcome",
    "Policy",
    "TaskTraceError",
    "attempt_number",
    "in_group",
    "run_frame",
    "run_tasks",
    "shared_folder",
]

T = TypeVar("T")
R = TypeVar("R")

_COLUMN: Final = "outcome"
_MOST_THREADS: Final = 8  # what of a task is Python, they do one after another
_LEAVE_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task hands back: its results, or the error that it ended with, or neither.

    `trace`: the stack of an error that nobody foresaw; `attempt`: how often it was tried before.
    """

    task: int
    results: tuple[Any, ...] = ()
    error: LakeportError | None = None
    trace: str = ""
    attempt: int = 0

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error from TaskTraceError(self.trace) if self.trace else None


class TaskTraceError(Exception):
    """The cause of an error that comes from a task: the stack over there, as text."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a task deals with its failure.

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
        """Do the work of one task."""
        if self.surroundings is not None:
            self.surroundings.take()
        if self.flags and any(int(flag.name) < task for flag in Path(self.flags).iterdir()):
            return Outcome(task)
        try:
            return Outcome(task, tuple(work()), attempt=attempt)
        except Exception as error:
            return self.failed(task, attempt, error)

    def failed(self, task: int, attempt: int, error: Exception) -> Outcome:
        """What a task hands back of its error, which is raised where Spark may try once more."""
        lasting = isinstance(error, LakeportError) and not error.retriable
        if attempt + 1 < self.attempts and not lasting:
            raise error
        if self.flags:
            with suppress(OSError):
                Path(self.flags, str(task)).touch()
        words = scrub("".join(traceback.format_exception(error)))
        trace = "" if isinstance(error, LakeportError) else words
        return Outcome(task, error=_portable(translate(error)), trace=trace)


def run_tasks(
    runtime: Runtime,
    function: Callable[[T], list[R]],
    items: Sequence[T],
    *,
    size: int = -1,
    discard: Callable[[list[R]], None] | None = None,
    strays: Callable[[list[R]], None] | None = None,
) -> list[R]:
    """Run `function` on every item, one Spark task each.

    May be called by several threads at once. Threads of this process take the place of tasks for
    as long as `Runtime.spares` says so.

    Args:
        runtime: where to run.
        function: pickled into the tasks (lambdas and partials are fine).
        items: pickled into the tasks, one each.
        size: bytes that the tasks read together; -1 if unknown.
        discard: called with the results of the tasks that succeeded when another one failed.
        strays: called with the results where other attempts of the same tasks may have left
            something behind: a worker was lost, or Spark speculates.

    Returns:
        All results, in the order of the items.

    Raises:
        LakeportError: what the first of the failed tasks raised, the same type and message. An
            interrupt cancels the tasks and passes.
    """
    if not items:
        return []
    numbered = list(enumerate(items))
    if runtime.spares(size):
        runtime.expect(size)
        outcomes = _until_spark(runtime, function, numbered, size, discard)
    else:
        outcomes = _by_spark(runtime, function, numbered)
    return _gather(outcomes, discard, _needed(runtime, outcomes, strays))


def _by_spark(
    runtime: Runtime, function: Callable[[T], list[R]], items: Sequence[tuple[int, T]]
) -> list[Outcome]:
    context = runtime.context
    with shared_folder(runtime) as flags:
        policy = Policy(runtime.attempts, flags, runtime.surroundings)
        task = partial(_run_items, function, policy)

        def job() -> list[Outcome]:
            numbered = context.parallelize(items, len(items))
            found: list[Outcome] = numbered.mapPartitions(task).collect()
            return found

        return in_group(runtime, job)


def _until_spark(
    runtime: Runtime,
    function: Callable[[T], list[R]],
    items: Sequence[tuple[int, T]],
    size: int,
    discard: Callable[[list[R]], None] | None,
) -> list[Outcome]:
    """Threads of this process do what they can until Spark is there, which does the rest."""
    policy = Policy(attempts=1)
    queue = _Queue(items)

    def run() -> list[Outcome]:
        found: list[Outcome] = []
        while runtime.spares(size) and (next_ := queue.take()) is not None:
            number, item = next_
            found.append(policy.outcome(number, 0, partial(function, item)))
            if found[-1].error is not None:
                queue.take_all()
        return found

    threads = min(len(items), available_cores(), _MOST_THREADS)
    with ThreadPoolExecutor(threads, "lakeport-task") as executor:
        running = [executor.submit(carried(run)) for _ in range(threads)]
        try:
            wait(running, return_when=FIRST_COMPLETED)  # nothing is left, or Spark is there
            rest = queue.take_all()
            others = _by_spark(runtime, function, rest) if rest else []
        except BaseException:
            queue.take_all()
            done = [result for each in running for one in each.result() for result in one.results]
            if discard is not None and done:
                discard(done)
            raise
        return [*others, *(outcome for each in running for outcome in each.result())]


class _Queue(Generic[T]):
    """The items of a job that nobody has begun, for several threads."""

    def __init__(self, items: Iterable[tuple[int, T]]) -> None:
        self._left = deque(items)
        self._lock = threading.Lock()

    def take(self) -> tuple[int, T] | None:
        """The next one; None if there is none."""
        with self._lock:
            return self._left.popleft() if self._left else None

    def take_all(self) -> list[tuple[int, T]]:
        """Those that are left."""
        with self._lock:
            taken = list(self._left)
            self._left.clear()
            return taken


def run_frame(
    runtime: Runtime,
    df: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch], int], list[R]],
    *,
    discard: Callable[[list[R]], None] | None = None,
    strays: Callable[[list[R]], None] | None = None,
) -> list[R]:
    """Run `function` on every partition of a DataFrame: its record batches and its number.

    See `run_tasks` for the arguments, the order of the results and the errors.
    """
    with shared_folder(runtime) as flags:
        names = df.columns
        policy = Policy(runtime.attempts, flags, runtime.surroundings)
        task = partial(_run_batches, function, policy, names)

        def job() -> list[Outcome]:
            rows = mapped(df, task, f"{_COLUMN} binary").collect()
            return [pickle.loads(row[0]) for row in rows]  # noqa: S301  # of our own tasks

        outcomes = in_group(runtime, job)
        return _gather(outcomes, discard, _needed(runtime, outcomes, strays))


@contextmanager
def shared_folder(runtime: Runtime) -> Iterator[str]:
    """A folder that the tasks of one job share, empty text where they share no disk."""
    place = runtime.job_folder()
    folder = "" if place is None else tempfile.mkdtemp(dir=place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_items(
    function: Callable[[T], list[R]], policy: Policy, items: Iterable[tuple[int, T]]
) -> Iterator[Outcome]:
    attempt = attempt_number()
    for number, item in items:
        yield policy.outcome(number, attempt, partial(function, item))


def _run_batches(
    function: Callable[[Iterator[pa.RecordBatch], int], list[R]],
    policy: Policy,
    names: list[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark import TaskContext

    number = 0 if (context := TaskContext.get()) is None else context.partitionId()
    named = (batch.rename_columns(names) for batch in batches)
    outcome = policy.outcome(number, attempt_number(), partial(function, named, number))
    yield pa.RecordBatch.from_pydict({_COLUMN: [pickle.dumps(outcome)]})


def attempt_number() -> int:
    """How often Spark has tried this task before."""
    from pyspark import TaskContext

    return 0 if (context := TaskContext.get()) is None else int(context.attemptNumber())


def _portable(error: LakeportError) -> LakeportError:
    """The error, if it survives pickling, else one that tells the same."""
    with suppress(Exception):
        if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  # of our own
            return error
    return SparkFailure(error.message, error.hint)


def _needed(
    runtime: Runtime, outcomes: list[Outcome], strays: Callable[[list[R]], None] | None
) -> Callable[[list[R]], None] | None:
    """`strays` if an attempt may have been lost, which never happens on a local master."""
    again = any(outcome.attempt for outcome in outcomes)
    return strays if again or (strays is not None and runtime.speculates) else None


def _gather(
    outcomes: list[Outcome],
    discard: Callable[[list[Any]], None] | None,
    strays: Callable[[list[Any]], None] | None,
) -> list[Any]:
    ordered = sorted(outcomes, key=lambda outcome: outcome.task)
    results = [result for outcome in ordered for result in outcome.results]
    if strays is not None and results:
        strays(results)
    for outcome in ordered:
        if outcome.error is not None:
            if discard is not None and results:
                discard(results)
            outcome.check()
    return results


def in_group(runtime: Runtime, job: Callable[[], R], *, seconds: float | None = None) -> R:
    """Run `job` in a thread with its own Spark job group; cancel the group on an interrupt.

    The caller waits where an interrupt reaches it at once and can't break a conversation with the
    JVM in the middle.

    Args:
        runtime: where to run.
        job: what to run.
        seconds: time limit of a job that leaves nothing to tidy up; nobody waits for its end.

    Raises:
        TimeoutError: the time limit has passed.
        LakeportError: what `failures.translate` makes of the failure.
    """
    context = runtime.context
    group, pool = f"lakeport-{uuid.uuid4()}", working_for() or "default"
    found: list[R] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            context.setJobGroup(group, "lakeport", interruptOnCancel=seconds is not None)
            context.setLocalProperty("spark.scheduler.pool", pool)  # each of several has its own
            found.append(job())
            if runtime.speculates:
                _settle(context, group)
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name=group, daemon=True).start()
    threading.Thread(target=carried(_follow), args=(context, group, done), daemon=True).start()
    try:
        if not done.wait(seconds):
            raise TimeoutError
    except BaseException:
        threading.Thread(target=_cancel, args=(context, group, done), daemon=True).start()
        done.wait(_LEAVE_SECONDS if seconds is None else 0)
        raise
    if failed:
        failure = translate(failed[0], runtime.secrets)
        raise failure from failure.__cause__
    return found[0]


def _cancel(context: SparkContext, group: str, done: threading.Event) -> None:
    """Cancel a group's jobs until `done`, as the next one may be submitted after the first call."""
    with suppress(Exception):  # in a thread: a JVM that is busy, or gone, may not answer
        context.cancelJobGroup(group)
        while not done.wait(_LOOK_SECONDS):
            context.cancelJobGroup(group)


def _follow(context: SparkContext, group: str, done: threading.Event) -> None:
    """Tell, until the job is done, which share of its tasks has ended."""
    with suppress(Exception):  # the job says what is wrong with Spark
        tracker = context.statusTracker()
        while not done.wait(_LOOK_SECONDS):
            jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
            found = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
            stages = [stage for stage in found if stage is not None and stage.numTasks]
            if stages:
                tasks = sum(stage.numTasks for stage in stages)
                reached_share(sum(stage.numCompletedTasks for stage in stages) / tasks)


def _settle(context: SparkContext, group: str) -> None:
    """Wait until the attempts have ended that lost a race of Spark's speculation."""
    tracker = context.statusTracker()
    end = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < end:
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        if not any(stage is not None and stage.numActiveTasks for stage in stages):
            return
        time.sleep(0.1)
