"""The engine that runs a load's tasks on Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from lakeport.engine.base import Engine, SessionRequest
from lakeport.engine.spark import active_context, jobs, workers
from lakeport.engine.spark.filesystems import configure_store
from lakeport.engine.spark.jobs import JobLabel, ReadingFrame
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.tasks import gather_results
from lakeport.model import EngineReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.engine.spark.delta.session import DeltaSession

T = TypeVar("T")
R = TypeVar("R")

_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
_HOOKS: Final = ("spark.delta.logStore.", _DEFAULTS, "spark.databricks.delta.commitCoordinator")
_KNOWN_LOG_STORES: Final = ("io.lakeport.", "io.delta.storage.")
_OWN_LOG_STORES: Final = ("DynamoDB",)


class SparkEngine(Engine):
    """Runs tasks as Spark's: in the active session, a warm one's, or one that lakeport starts.

    Args:
        request: the session that it asks for.

    Raises:
        LakeportError: as `DriverSession.acquire`.
    """

    name: ClassVar[str] = "spark"
    most_streams: ClassVar[int] = 64  # those that wait share jobs

    def __init__(self, request: SessionRequest) -> None:
        """Use the session of this process; waits where others use one that does not suit."""
        self._counted, self._thread = threading.Lock(), threading.get_ident()
        self._named = ExitStack()
        self._jobs = self._tasks = 0
        self.session = DriverSession.acquire(request, user=self)
        self._queue = jobs.JobQueue(self.session, self._count)
        self.secrets = self.session.secrets
        self.adopted = self.session.adopted
        told = request.settings
        if self.adopted:
            with suppress(Exception):  # a session that has ended is told of where it is used
                told = self.session.spark.conf.getAll  # what the context was given is in it, too
        self.commits_by_log = not any(_is_custom_hook(key, value) for key, value in told.items())

    def run_tasks(
        self,
        step: str,
        function: Callable[[T], list[R]],
        items: Sequence[T],
        *,
        sizes: Sequence[int] = (),
        discard: Callable[[list[R]], None] | None = None,
    ) -> list[R]:
        """Run `function` on every item in Spark tasks; see `Engine.run_tasks`."""
        if not items:
            return []
        request = jobs.TaskRequest(step, function, items, sizes)
        outcomes = self._queue.run_request(request, self.run)
        return gather_results(outcomes, discard)

    def run_frame(
        self,
        step: str,
        frame: DataFrame,
        function: Callable[[Iterator[pa.RecordBatch], int], list[R]],
        *,
        discard: Callable[[list[R]], None] | None = None,
    ) -> list[R]:
        """Run `function` on the record batches and the number of every partition of a frame.

        See `Engine.run_tasks` for the arguments, the order of the results and the errors.
        """
        label = JobLabel(step, self.run)
        found, tasks = jobs.run_frame(self.session, label, frame, function, discard=discard)
        self._count(tasks)
        return found

    def read_frame(
        self,
        session: SparkSession,
        schema: pa.Schema,
        items: Sequence[T],
        read: Callable[[T], Iterator[pa.RecordBatch]],
    ) -> ReadingFrame[T]:
        """Return a Spark frame whose tasks read one item each; see `Reading`."""
        return ReadingFrame(self.session, session, schema, items, read)

    def run_job(self, step: str, job: Callable[[], R], *, seconds: float | None = None) -> R:
        """Run a function that calls Spark itself, in a thread; return its result.

        Args:
            step: what it does, in words.
            job: calls Spark.
            seconds: time limit of a job that leaves nothing to tidy up; nobody waits for its end.

        Raises:
            TimeoutError: the time limit has passed.
            LakeportError: what Spark's failure means.
        """
        return jobs.run_in_group(self.session, JobLabel(step, self.run), job, seconds=seconds)

    def require_spark(self, what: str) -> SparkEngine:
        """Return this engine, whatever asks for Spark."""
        return self

    @property
    def spark(self) -> SparkSession:
        """The Spark session; waits for it, and raises like `context`."""
        return self.session.spark

    @property
    def context(self) -> SparkContext:
        """The Spark context; waits for it.

        Raises:
            MissingDependency: a jar or Java can't be had.
            SparkFailure: Spark did not start, or was stopped.
        """
        return self.session.context

    def delta_session(
        self,
        step: str,
        needs: frozenset[str] = frozenset(),
        root: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> DeltaSession:
        """Return the Spark session, able to reach Delta tables in a store; waits for it.

        Args:
            step: what it is asked for, in words, by which Spark names the jobs of this thread.
            needs: names of `jars.JARS` that the session must have.
            root: the store's root as Hadoop names it; empty for a local folder.
            settings: what Hadoop's connector needs for that root, secrets included.

        Raises:
            ConfigError: the session lacks something; the hint has the settings to build it with.
        """
        from lakeport.engine.spark.delta.session import DeltaSession

        if self.session.adopted:
            active_context.check_session(self.session.spark, needs)
        elif self.session.context and not needs <= self.session.needs and self.session.jar_error:
            raise self.session.jar_error
        if settings is not None:
            configure_store(self.session, root, settings, commits=True)
        self.name_jobs(step)
        return DeltaSession(self.session.spark, self.secrets)

    def name_jobs(self, step: str) -> None:
        """Have Spark name the jobs that this thread starts; a user's thread and session stay."""
        if not self.adopted or self._thread != threading.get_ident():
            self._named.enter_context(jobs.keep_call_sites())
            JobLabel(step, self.run).name_jobs(self.session.context)

    def configure_store(self, root: str, settings: Mapping[str, str]) -> None:
        """Have Spark's file systems reach a store; waits for Spark.

        Args:
            root: the store's root, or a folder in it, as Hadoop names it.
            settings: what Hadoop's connector needs for that root, secrets included.
        """
        configure_store(self.session, root, settings)

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""
        return self.session.is_local

    @property
    def has_own_workers(self) -> bool:
        """Whether tasks run in Python processes that lakeport's own session starts here."""
        return self.session.is_local and not self.session.adopted

    def describe(self, chosen: bool) -> str:
        """Return which engine this is, where its session comes from, and why, in words."""
        why = "as `engine` is `spark`" if chosen else "the default"
        return f"Spark, {self.session.origin}, {why}"

    def check_workers(self, packages: Sequence[str]) -> None:
        """See that Spark's workers have what tasks import; see `Engine.check_workers`."""
        workers.check_packages(self.session, packages)

    @property
    def cores(self) -> int:
        """How many tasks run at once; waits for Spark only on a cluster."""
        return self.session.cores

    @property
    def start_up(self) -> tuple[float | None, float | None]:
        """When Spark began to start and was there, by `time.monotonic`; None before."""
        return self.session.start_up.began, self.session.start_up.ended

    def begin(self) -> None:
        """Have Spark and its Python workers start; never waits."""
        self.session.begin()
        if self.has_own_workers:
            self.session.warm_up_workers()

    def report(self) -> EngineReport:
        """Return the engine with its jobs and tasks so far; never waits."""
        version, application = self.session.spark_identity()
        return EngineReport(
            self.name, version, self.session.master, application, self._jobs, self._tasks
        )

    def stop(self, *, for_all: bool = False) -> None:
        """End a session of lakeport's own, unless others use it; see `Engine.stop`."""
        if not self.session.streams and (for_all or not self.session.is_shared):
            self.session.stop()

    def count_streams(self, change: int) -> None:
        """Tell that so many more streams run on the session, which nothing replaces then."""
        self.session.streams += change

    def close(self) -> None:
        """Let a load of other needs have the JVM; fine when called again."""
        self._named.close()
        self.session.release(self)

    def _count(self, tasks: int) -> None:
        with self._counted:
            self._jobs += 1
            self._tasks += tasks


def _is_custom_hook(key: str, value: str) -> bool:
    """Whether a setting of Spark's names something that commits go through, which is not Delta's.

    >>> _is_custom_hook("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    True
    >>> _is_custom_hook("spark.sql.catalog.spark_catalog", _DELTA_CATALOG)
    False
    """
    if key == _CATALOG:
        return value != _DELTA_CATALOG
    if not key.startswith(_HOOKS):
        return False
    delta = value.startswith(_KNOWN_LOG_STORES) and not any(x in value for x in _OWN_LOG_STORES)
    return not (key.startswith("spark.delta.logStore.") and delta)
