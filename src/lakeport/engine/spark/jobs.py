"""Spark jobs: tasks over items and frames, their outcomes, and how an interrupt ends them."""

from __future__ import annotations

import pickle
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakeport.engine.spark.failures import translate
from lakeport.engine.tasks import Outcome, Policy, gather
from lakeport.host.activity import carried, reached_share, working_for

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lakeport.engine.spark.session import DriverSession

T = TypeVar("T")
R = TypeVar("R")

_COLUMN: Final = "outcome"
_LEAVE_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class JobLabel:
    """Name a job in Spark's UI and event log: its description and its group.

    Attributes:
        step: what its tasks do, such as `write orders to s3://lake/orders`.
        run: name of the run that it is of; empty for a command. All jobs of a run have one group.
    """

    step: str
    run: str = ""

    @property
    def description(self) -> str:
        """The job's description.

        >>> JobLabel("write orders to s3://lake/orders", "nightly").description
        'lakeport: write orders to s3://lake/orders, run nightly'
        """
        return f"lakeport: {self.step}" + (f", run {self.run}" if self.run else "")

    @property
    def group(self) -> str:
        """The job's group."""
        return f"lakeport {self.run}" if self.run else "lakeport"


def run_tasks(
    session: DriverSession,
    label: JobLabel,
    function: Callable[[T], list[R]],
    items: Sequence[T],
    *,
    discard: Callable[[list[R]], None] | None = None,
) -> list[R]:
    """Run `function` on every item, one Spark task each; see `Engine.run_tasks`."""
    if not items:
        return []
    context = session.context
    with shared_folder(session) as flags:
        policy = Policy(session.attempts, flags, session.surroundings)
        task = partial(_run_items, function, policy)

        def job() -> list[Outcome]:
            numbered = context.parallelize(list(enumerate(items)), len(items))
            # `collect` would name the stage by a line of this file.
            found: list[Outcome] = context.runJob(numbered, task)
            return found

        outcomes = in_group(session, label, job)
    return gather(outcomes, discard)


def run_frame(
    session: DriverSession,
    label: JobLabel,
    df: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch], int], list[R]],
    *,
    discard: Callable[[list[R]], None] | None = None,
) -> tuple[list[R], int]:
    """Run `function` on every partition of a DataFrame; see `SparkEngine.run_frame`.

    Returns:
        The results, and the number of partitions.
    """
    with shared_folder(session) as flags:
        names = df.columns
        policy = Policy(session.attempts, flags, session.surroundings)
        task = partial(_run_batches, function, policy, names)

        def job() -> list[Outcome]:
            rows = mapped(df, task, f"{_COLUMN} binary").collect()
            return [pickle.loads(row[0]) for row in rows]  # noqa: S301  # of our own tasks

        outcomes = in_group(session, label, job)
        return gather(outcomes, discard), len(outcomes)


@contextmanager
def shared_folder(session: DriverSession) -> Iterator[str]:
    """A folder that the tasks of one job share, empty text where they share no disk."""
    place = session.job_folder()
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


def mapped(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Return what `DataFrame.mapInArrow` does, which asks for pandas and makes no use of it.

    The function gets the columns under their numbers.
    """
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    # A dot or backtick in a name would be taken for a part of an expression.
    numbers = [str(number) for number in range(len(frame.columns))]
    plain = frame.toDF(*numbers) if numbers else frame
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column: Any = UserDefinedFunction(function, schema, evalType=kind)(
        *map(plain.__getitem__, numbers)
    )
    return DataFrame(plain._jdf.mapInArrow(column._jc, False, None), plain.sparkSession)


def in_group(
    session: DriverSession, label: JobLabel, job: Callable[[], R], *, seconds: float | None = None
) -> R:
    """Run `job` in a thread, in the run's job group; cancel what it does on an interrupt.

    The caller waits where an interrupt reaches it at once and can't break a conversation with the
    JVM in the middle.

    Args:
        session: where to run.
        label: what Spark says of it.
        job: what to run.
        seconds: time limit of a job that leaves nothing to tidy up; nobody waits for its end.

    Raises:
        TimeoutError: the time limit has passed.
        LakeportError: what `failures.translate` makes of the failure.
    """
    context = session.context
    tag, pool = f"lakeport-{uuid.uuid4()}", working_for() or "default"
    found: list[R] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            context.setJobGroup(label.group, label.description, seconds is not None)
            context.addJobTag(tag)
            for name, value in (
                ("spark.scheduler.pool", pool),  # each of several loads has its own
                ("callSite.short", label.description),
                ("callSite.long", label.description),
                # Scopes name boxes in the UI. Spark writes each as JSON: 60 ms of a cold start.
                ("spark.rdd.scope.noOverride", "true"),
            ):
                context.setLocalProperty(name, value)
            found.append(job())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name=tag, daemon=True).start()
    threading.Thread(target=carried(_follow), args=(context, tag, done), daemon=True).start()
    try:
        if not done.wait(seconds):
            raise TimeoutError
    except BaseException:
        threading.Thread(target=_cancel, args=(context, tag, done), daemon=True).start()
        done.wait(_LEAVE_SECONDS if seconds is None else 0)
        raise
    if failed:
        failure = translate(failed[0], session.secrets)
        raise failure from failure.__cause__
    return found[0]


def _cancel(context: SparkContext, tag: str, done: threading.Event) -> None:
    """Cancel a tag's jobs until `done`, as the next one may be submitted after the first call."""
    with suppress(Exception):  # in a thread: a JVM that is busy, or gone, may not answer
        context.cancelJobsWithTag(tag)
        while not done.wait(_LOOK_SECONDS):
            context.cancelJobsWithTag(tag)


def _follow(context: SparkContext, tag: str, done: threading.Event) -> None:
    """Tell, until the job is done, which share of its tasks has ended."""
    with suppress(Exception):  # the job says what is wrong with Spark
        tracker = context.statusTracker()
        while not done.wait(_LOOK_SECONDS):
            jobs = filter(None, map(tracker.getJobInfo, _jobs_of(context, tag)))
            found = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
            stages = [stage for stage in found if stage is not None and stage.numTasks]
            if stages:
                tasks = sum(stage.numTasks for stage in stages)
                reached_share(sum(stage.numCompletedTasks for stage in stages) / tasks)


def _jobs_of(context: SparkContext, tag: str) -> list[int]:
    """The ids of a tag's jobs."""
    return list(context._jsc.sc().statusTracker().getJobIdsForTag(tag))
