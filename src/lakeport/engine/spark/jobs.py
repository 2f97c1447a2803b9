"""Spark jobs: tasks over items and frames, their outcomes, and their end by an interrupt."""

from __future__ import annotations

import heapq
import pickle
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from lakeport.engine.failures import translate
from lakeport.engine.tasks import FailurePolicy, JobLabel, TaskOutcome, gather_results
from lakeport.errors import LakeportError
from lakeport.host.activity import bind_activity, current_load, set_progress_share

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakeport.engine.spark.session import DriverSession
    from lakeport.host.process import ProcessContext

T = TypeVar("T")
R = TypeVar("R")

_COLUMN: Final = "outcome"
_CANCEL_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 1.0
_JOBS_AT_ONCE: Final = 4
_SMALL_BYTES: Final = 8 << 20
_JOBS_BEFORE_SMALL: Final = 2  # fewer jobs at once are larger ones


class JobSession(Protocol):
    """A Spark session as jobs use it: a classic one, or one of Spark Connect."""

    secrets: set[str]

    @property
    def spark(self) -> SparkSession:
        """The session of PySpark; waits for Spark."""

    @property
    def attempts(self) -> int:
        """Number of times that Spark tries a task."""

    @property
    def cores(self) -> int:
        """Number of tasks that run at once."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""

    @property
    def python(self) -> str:
        """Program that runs the tasks; empty if unknown."""

    @property
    def identity(self) -> object:
        """Context or Connect session that loads share; the check of its workers is kept by it."""

    @property
    def process_context(self) -> ProcessContext | None:
        """Environment for the tasks; None for the workers' own."""

    def wait_for_start(self) -> None:
        """Wait until Spark runs; raise if it did not start."""

    def job_folder(self) -> Path | None:
        """Return a folder that driver and tasks share; None if they share no disk."""

    def label_jobs(
        self, label: JobLabel, tag: str, pool: str, *, interrupt_on_cancel: bool
    ) -> None:
        """Set label, tag and scheduler pool of all jobs that this thread starts."""

    def cancel_jobs(self, tag: str) -> None:
        """Cancel the running jobs of a tag."""

    def ended_share(self, tag: str) -> float | None:
        """Return the share of a tag's tasks that have ended; None if unknown."""

    def run_partitions(
        self, items: Sequence[T], function: Callable[[Iterable[T]], Iterable[R]]
    ) -> list[R]:
        """Run `function` on each item, as the only one of a partition, in a job of this thread.

        Return all that it yields, in the items' order.
        """

    def map_in_arrow(
        self,
        frame: DataFrame,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: StructType | str,
    ) -> DataFrame:
        """Return a lazy frame: `function` on each partition's Arrow batches.

        The function gets the columns named by their numbers.
        """


@dataclass(eq=False)
class TaskRequest:
    """A function to run on items in Spark tasks, and a future for the items' outcomes.

    Attributes:
        items: each is a task, or part of one.
        sizes: bytes that each item reads; empty if unknown.
        outcomes: the items' outcomes, in any order.
    """

    step: str
    function: Callable[[Any], list[Any]]
    items: Sequence[Any]
    sizes: Sequence[int] = ()
    outcomes: Future[list[TaskOutcome]] = field(default_factory=Future)

    @property
    def is_small(self) -> bool:
        """Whether the items read less than 8 MiB, so that a job costs about as much as its work."""
        return bool(self.sizes) and min(self.sizes) >= 0 and sum(self.sizes) < _SMALL_BYTES


class JobQueue:
    """Runs task requests as Spark jobs, at most four at once; small ones share a job.

    So a thousand streams of a few records take some dozen jobs, and the first streams are committed
    while others are written.

    Args:
        count: called with the number of tasks of each job.
    """

    def __init__(self, session: JobSession, count: Callable[[int], None]) -> None:
        """Begin without requests."""
        self._session, self._count = session, count
        self._changed = threading.Condition()
        self._waiting: list[TaskRequest] = []
        self._running = 0

    def run_request(self, request: TaskRequest, run_name: str) -> list[TaskOutcome]:
        """Queue a request, wait until a Spark job has run it, and return its outcomes.

        Raises:
            LakeportError: the job failed; see `run_in_group`.
        """
        most = _JOBS_BEFORE_SMALL if request.is_small else _JOBS_AT_ONCE
        with self._changed:
            self._waiting.append(request)
            try:
                self._changed.wait_for(lambda: self._running < most or request not in self._waiting)
                taken = self._take_shared(request) if request in self._waiting else []
                self._running += bool(taken)
            except BaseException:
                self._waiting = [each for each in self._waiting if each is not request]
                raise
        if taken:
            try:
                self._run_requests(taken, run_name)
            except BaseException as error:  # an interrupt: other threads must not wait on
                for each in taken:
                    if not each.outcomes.done():
                        each.outcomes.set_exception(error)
                raise
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()
        return request.outcomes.result()

    def _take_shared(self, request: TaskRequest) -> list[TaskRequest]:
        """Remove `request` from the queue, and all small ones if it is small; return them."""
        taken = [
            each
            for each in self._waiting
            if each is request or (each.is_small and request.is_small)
        ]
        self._waiting = [each for each in self._waiting if each not in taken]
        return taken

    def _run_requests(self, requests: Sequence[TaskRequest], run_name: str) -> None:
        """Run requests as one job and set their futures; if it fails, run each by itself."""
        others = len(requests) - 1
        step = requests[0].step + (f", and {others:,} more" if others else "")
        try:
            found = run_job(self._session, JobLabel(step, run_name), requests, self._count)
        except LakeportError as error:
            if not others:
                requests[0].outcomes.set_exception(error)
            else:  # separate jobs show whose failure it was
                for each in requests:
                    self._run_requests([each], run_name)
        else:
            for each, outcomes in zip(requests, found, strict=True):
                each.outcomes.set_result(outcomes)


def run_tasks(
    session: JobSession,
    label: JobLabel,
    function: Callable[[T], list[R]],
    items: Sequence[T],
    *,
    discard: Callable[[list[R]], None] | None = None,
) -> list[R]:
    """Run `function` on each item in one Spark job; return all results in item order."""
    (outcomes,) = run_job(session, label, [TaskRequest(label.step, function, items)])
    return gather_results(outcomes, discard)


def run_job(
    session: JobSession,
    label: JobLabel,
    requests: Sequence[TaskRequest],
    count_tasks: Callable[[int], None] = lambda tasks: None,
) -> list[list[TaskOutcome]]:
    """Run requests as one Spark job; return a list of outcomes per request. Waits for Spark.

    Args:
        count_tasks: called with the number of tasks before they run.
    """
    session.wait_for_start()  # or its error is raised, before tasks are counted
    tasks = _assign_items(requests, session.cores)
    count_tasks(len(tasks))
    with ExitStack() as stack:
        folders = [
            stack.enter_context(shared_folder(session)) if len(each.items) > 1 else ""
            for each in requests
        ]
        policies = [
            FailurePolicy(session.attempts, each, session.process_context) for each in folders
        ]
        work = [(each.function, policy) for each, policy in zip(requests, policies, strict=True)]
        task = partial(_run_items, work)
        outcomes = run_in_group(session, label, partial(session.run_partitions, tasks, task))
    found: list[list[TaskOutcome]] = [[] for _ in requests]
    for place, outcome in outcomes:
        found[place].append(outcome)
    return found


def _assign_items(requests: Sequence[TaskRequest], cores: int) -> list[list[tuple[int, int, Any]]]:
    """Spread requests' items over tasks of similar bytes: (request index, item index, item).

    Each item of a single request is a task. The items of several requests become as many tasks as
    there are cores, or as the largest request has items.
    """
    total, most = sum(len(each.items) for each in requests), max(len(r.items) for r in requests)
    tasks: list[list[tuple[int, int, Any]]] = [[] for _ in range(min(total, max(cores, most)))]
    lightest = [(0, place) for place in range(len(tasks))]
    for place, request in enumerate(requests):
        for number, item in enumerate(request.items):
            weight, at = lightest[0]
            tasks[at].append((place, number, item))
            size = request.sizes[number] if request.sizes else 0
            heapq.heapreplace(lightest, (weight + max(size, 1), at))
    return tasks


def run_frame(
    session: JobSession,
    label: JobLabel,
    df: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch], int], list[R]],
    *,
    discard: Callable[[list[R]], None] | None = None,
) -> tuple[list[R], int]:
    """Run `function` on each partition of a frame; return all results, and how many partitions.

    See `SparkEngine.run_frame` for the arguments.
    """
    with shared_folder(session) as flags:
        names = df.columns
        policy = FailurePolicy(session.attempts, flags, session.process_context)
        task = partial(_run_batches, function, policy, names)

        def job() -> list[TaskOutcome]:
            rows = session.map_in_arrow(df, task, f"{_COLUMN} binary").collect()
            return [pickle.loads(row[0]) for row in rows]  # noqa: S301  # of our own tasks

        outcomes = run_in_group(session, label, job)
        return gather_results(outcomes, discard), len(outcomes)


@contextmanager
def shared_folder(session: JobSession) -> Iterator[str]:
    """Yield the path of a temporary folder for all tasks of a job; empty on a cluster."""
    place = session.job_folder()
    folder = "" if place is None else tempfile.mkdtemp(dir=place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_items(
    work: Sequence[tuple[Callable[[Any], list[Any]], FailurePolicy]],
    tasks: Iterable[list[tuple[int, int, Any]]],
) -> Iterator[tuple[int, TaskOutcome]]:
    """In a Spark task: run its items; yield the request index and the outcome of each."""
    attempt = attempt_number()
    for task in tasks:
        for place, number, item in task:
            function, policy = work[place]
            yield place, policy.run_task(number, attempt, partial(function, item))


def _run_batches(
    function: Callable[[Iterator[pa.RecordBatch], int], list[R]],
    policy: FailurePolicy,
    names: list[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In a Spark task: run `function` on a partition; yield its outcome, pickled, as a batch."""
    import pyarrow as pa
    from pyspark import TaskContext

    number = 0 if (context := TaskContext.get()) is None else context.partitionId()
    named = (batch.rename_columns(names) for batch in batches)
    outcome = policy.run_task(number, attempt_number(), partial(function, named, number))
    yield pa.RecordBatch.from_pydict({_COLUMN: [pickle.dumps(outcome)]})


def attempt_number() -> int:
    """Return the current Spark task's attempt number, from 0; 0 outside of tasks."""
    from pyspark import TaskContext

    return 0 if (context := TaskContext.get()) is None else int(context.attemptNumber())


def run_in_group(
    session: JobSession,
    label: JobLabel,
    job: Callable[[], R],
    *,
    timeout_seconds: float | None = None,
) -> R:
    """Run `job` in a labelled thread; return its result. On Ctrl-C or timeout, cancel its jobs.

    So an interrupt reaches the waiting caller at once, and never breaks a call to the JVM.

    Args:
        session: the Spark session; waits for its start.
        timeout_seconds: time limit of a job that needs no clean-up; the job is abandoned then.
            None for no limit.

    Raises:
        TimeoutError: the time limit has passed.
        LakeportError: the failure, as `failures.translate` returns it.
    """
    session.wait_for_start()
    tag, pool = f"lakeport-{uuid.uuid4()}", current_load() or "default"
    found: list[R] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            session.label_jobs(label, tag, pool, interrupt_on_cancel=timeout_seconds is not None)
            with keep_call_sites():
                found.append(job())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name=tag, daemon=True).start()
    threading.Thread(
        target=bind_activity(_report_progress), args=(session, tag, done), daemon=True
    ).start()
    try:
        if not done.wait(timeout_seconds):
            raise TimeoutError
    except BaseException:
        threading.Thread(target=_cancel_jobs, args=(session, tag, done), daemon=True).start()
        done.wait(_CANCEL_SECONDS if timeout_seconds is None else 0)
        raise
    if failed:
        failure = translate(failed[0], session.secrets)
        raise failure from failure.__cause__
    return found[0]


@contextmanager
def keep_call_sites() -> Iterator[None]:
    """Context manager in which PySpark does not relabel jobs with file and line numbers."""
    from pyspark.traceback_utils import SCCallSiteSync

    SCCallSiteSync._spark_stack_depth += 1
    try:
        yield
    finally:
        SCCallSiteSync._spark_stack_depth -= 1


def _cancel_jobs(session: JobSession, tag: str, done: threading.Event) -> None:
    """Cancel a tag's Spark jobs, each second until `done`, as later ones may be submitted."""
    with suppress(Exception):  # a JVM that is busy or gone may not answer
        session.cancel_jobs(tag)
        while not done.wait(_POLL_SECONDS):
            session.cancel_jobs(tag)


def _report_progress(session: JobSession, tag: str, done: threading.Event) -> None:
    """Each second until `done`, set this thread's progress to the tag's share of ended tasks."""
    with suppress(Exception):  # the job itself meets the error
        while not done.wait(_POLL_SECONDS):
            share = session.ended_share(tag)
            if share is not None:
                set_progress_share(share)


class ReadingFrame(Generic[T]):
    """Lazy Spark frame in which one task reads each item. Call `check` for its errors.

    A failed task ends as if there were no more rows, as Spark would log its error. So call `check`
    after the frame was run, and before its rows are used.

    Args:
        schema: the columns, of types that tables have.
        items: pickled into the tasks.
        read: pickled into the tasks; yields an item's rows, with exactly these columns.

    Attributes:
        frame: the frame, which has not run yet.
    """

    def __init__(
        self,
        session: DriverSession,
        spark: SparkSession,
        schema: pa.Schema,
        items: Sequence[T],
        read: Callable[[T], Iterator[pa.RecordBatch]],
    ) -> None:
        from pyspark.accumulators import AccumulatorParam

        from lakeport.engine.sql.frames import spark_schema

        class Outcomes(AccumulatorParam[list[TaskOutcome]]):
            def zero(self, value: list[TaskOutcome]) -> list[TaskOutcome]:
                return []

            def addInPlace(  # noqa: N802  # as pyspark calls it
                self, one: list[TaskOutcome], other: list[TaskOutcome]
            ) -> list[TaskOutcome]:
                return one + other

        self._failed: Accumulator[list[TaskOutcome]] = session.context.accumulator([], Outcomes())
        policy = FailurePolicy(session.attempts, process_context=session.process_context)
        task = partial(_read_items, read, list(items), policy, self._failed)
        count = max(1, len(items))
        columns = spark_schema(schema)
        self.frame: DataFrame = session.map_in_arrow(spark.range(0, count, 1, count), task, columns)

    def check(self) -> None:
        """Raise the error of the first failed task, if one has failed so far."""
        for outcome in sorted(self._failed.value, key=lambda outcome: outcome.task):
            outcome.check()

    def close(self) -> None:
        """Free the accumulator that collects task errors; the frame must not run afterwards."""
        from pyspark.accumulators import _accumulatorRegistry

        _accumulatorRegistry.pop(self._failed.aid, None)


def _read_items(
    read: Callable[[T], Iterator[pa.RecordBatch]],
    items: list[T],
    policy: FailurePolicy,
    failed: Accumulator[list[TaskOutcome]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In a Spark task: yield the rows of numbered items; record the first error and stop."""
    if policy.process_context is not None:
        policy.process_context.apply()
    for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
        if number >= len(items):
            return
        try:
            yield from read(items[number])
        except Exception as error:
            failed += [policy.failed_outcome(number, attempt_number(), error)]
            return


def start_python_workers(session: DriverSession) -> None:
    """Run a job that starts a Python worker on each core, and imports pyarrow in it."""
    run_tasks(session, JobLabel("start Python workers"), _import_in_worker, range(session.cores))


def _import_in_worker(number: int) -> list[int]:
    """Load pyarrow in a Python worker by writing a tiny Parquet file; return [number]."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1], "b": ["x"]}), pa.BufferOutputStream())
    return [number]
