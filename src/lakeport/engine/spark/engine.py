"""The engine that runs tasks on Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from lakeport.engine.base import Engine, SessionRequest, is_connect
from lakeport.engine.spark import active_context, jobs, workers
from lakeport.engine.spark.filesystems import configure_store, connect_store
from lakeport.engine.spark.jobs import JobSession, ReadingFrame
from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.tasks import JobLabel, gather_results
from lakeport.model import EngineReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.engine.spark.delta.session import DeltaSession

T = TypeVar("T")
R = TypeVar("R")

_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
_HOOKS: Final = ("spark.delta.logStore.", _DEFAULTS, "spark.databricks.delta.commitCoordinator")
_KNOWN_LOG_STORES: Final = (
    "io.lakeport.",
    "io.delta.storage.",
    "org.apache.spark.sql.delta.storage.",
)
_OWN_LOG_STORES: Final = ("DynamoDB",)


class JobEngine(Engine):
    """Runs tasks as jobs of a Spark session, classic or of Spark Connect."""

    most_streams: ClassVar[int] = 64  # those that wait share jobs

    def __init__(self, session: JobSession) -> None:
        """Run jobs in `session`; none has run yet."""
        self._session = session
        self._counted = threading.Lock()
        self._jobs = self._tasks = 0
        self._queue = jobs.JobQueue(session, self._count)
        self.secrets = session.secrets

    def run_tasks(
        self,
        step: str,
        function: Callable[[T], list[R]],
        items: Sequence[T],
        *,
        sizes: Sequence[int] = (),
        discard: Callable[[list[R]], None] | None = None,
    ) -> list[R]:
        """Run `function` on each item in Spark tasks; return all results in item order."""
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
        """Run `function` on each partition's record batches and index; return all results.

        See `Engine.run_tasks` for the arguments, the order of the results and the errors.
        """
        label = JobLabel(step, self.run)
        found, tasks = jobs.run_frame(self._session, label, frame, function, discard=discard)
        self._count(tasks)
        return found

    @property
    def cores(self) -> int:
        """Number of tasks that run at once; waits for Spark only on a cluster."""
        return self._session.cores

    @property
    def spark(self) -> SparkSession:
        """The PySpark session; waits for Spark's start, and raises if it did not start."""
        return self._session.spark

    def owns(self, frame: DataFrame) -> bool:
        """Whether a frame is of this engine's session, or of another one on its context."""
        session = frame.sparkSession
        own = session if is_connect(frame) else session.sparkContext
        return own is self._session.identity

    def count_streams(self, change: int) -> None:
        """Do nothing: no load replaces the session."""

    def _count(self, tasks: int) -> None:
        """Add one job with this number of tasks to the counts of `report`."""
        with self._counted:
            self._jobs += 1
            self._tasks += tasks


class SparkEngine(JobEngine):
    """Runs tasks on Spark: in the user's active session, a warm session, or a new one.

    Raises:
        LakeportError: as `DriverSession.acquire`.
    """

    name: ClassVar[str] = "spark"

    def __init__(self, request: SessionRequest) -> None:
        """Acquire the session of this process; wait if other loads use one that does not suit."""
        self._thread, self._named = threading.get_ident(), ExitStack()
        self.session = DriverSession.acquire(request, user=self)
        super().__init__(self.session)
        self.adopted = self.session.adopted
        options = request.settings
        if self.adopted:
            with suppress(Exception):  # an ended session raises where it is used
                spark = self.session.spark
                by_sql = not hasattr(spark.conf, "getAll")  # which came with Spark 4.0
                # Both have the context's settings, too.
                options = dict(spark.sql("SET").collect()) if by_sql else spark.conf.getAll
        self.commits_by_log = not has_custom_hook(options)

    def read_frame(
        self,
        session: SparkSession,
        schema: pa.Schema,
        items: Sequence[T],
        read: Callable[[T], Iterator[pa.RecordBatch]],
    ) -> ReadingFrame[T]:
        """Return a lazy frame in which one Spark task calls `read` for each item."""
        return ReadingFrame(self.session, session, schema, items, read)

    def run_job(
        self, step: str, job: Callable[[], R], *, timeout_seconds: float | None = None
    ) -> R:
        """Run `job`, which calls Spark, in a thread; return its result. Ctrl-C cancels it.

        Args:
            timeout_seconds: time limit of a job that needs no clean-up; None for no limit.

        Raises:
            TimeoutError: the time limit has passed.
            LakeportError: Spark's failure, translated.
        """
        return jobs.run_in_group(
            self.session, JobLabel(step, self.run), job, timeout_seconds=timeout_seconds
        )

    @property
    def context(self) -> SparkContext:
        """The Spark context; waits for its start, and raises like `DriverSession.context`."""
        return self.session.context

    def delta_session(
        self,
        step: str,
        needs: frozenset[str] = frozenset(),
        root: str = "",
        settings: Mapping[str, str] | None = None,
        *,
        commits: bool = True,
    ) -> DeltaSession:
        """Return access to a store's Delta tables; set Hadoop's options and the job label.

        Args:
            step: its purpose in words, which labels the jobs of this thread.
            needs: keys of `jars.NEEDS` that the session must have.
            root: URI of the store's root, as Hadoop names it; empty for a local folder.
            settings: Hadoop options for that root, secrets included; None for a local folder.
            commits: whether it may commit there while others do.

        Raises:
            ConfigError: the session lacks a class or setting; the hint has the settings to build it
                with.
            MissingDependency: a need has no jars on this Spark, or one can't be downloaded.
        """
        from lakeport.engine.spark.delta.session import DeltaSession

        if self.session.adopted:
            active_context.check_session(self.session.spark, needs, commits=commits)
        self.check_jars(needs)
        if self.session.context and not needs <= self.session.needs and self.session.jar_error:
            raise self.session.jar_error
        if settings is not None:
            configure_store(self.session, root, settings, commits=commits)
        self.name_jobs(step)
        return DeltaSession(self.session.spark, self.secrets)

    def check_jars(self, needs: frozenset[str]) -> None:
        """Raise MissingDependency if a session of our own has no jars for needs on this Spark."""
        if not self.session.adopted:
            jars.jars_for(needs)

    def open_lake(
        self, needs: frozenset[str], root: str, settings: Mapping[str, str], *, commits: bool
    ) -> SparkSession:
        """Connect the session to a store, and return it for the user to keep.

        See `delta_session` for the arguments and the errors, and `DriverSession.hand_over`.
        """
        spark = self.session.spark
        active_context.check_session(spark, needs, commits=commits, schemes=("s3a", "s3"))
        connect_store(self.session, root, settings)
        DriverSession.hand_over()
        return spark

    def name_jobs(self, step: str) -> None:
        """Label this thread's Spark jobs with `step`, but not on a user's own thread."""
        if not self.adopted or self._thread != threading.get_ident():
            self._named.enter_context(jobs.keep_call_sites())
            self.session.label_jobs(JobLabel(step, self.run))

    def configure_store(self, root: str, settings: Mapping[str, str]) -> None:
        """Configure Hadoop's connector for a store; see `filesystems.configure_store`."""
        configure_store(self.session, root, settings)

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""
        return self.session.is_local

    @property
    def has_own_workers(self) -> bool:
        """Whether tasks run in Python processes of lakeport's own session on this machine."""
        return self.session.is_local and not self.session.adopted

    def describe(self, is_configured: bool) -> str:
        """Return a phrase for messages: that Spark runs the tasks, whose session it is, and why."""
        why = "as `engine` is `spark`" if is_configured else "the default"
        return f"Spark, {self.session.origin}, {why}"

    def check_workers(self, packages: Sequence[str]) -> None:
        """Check that Spark's workers can import what tasks need; see `Engine.check_workers`."""
        workers.check_packages(self.session, packages)

    @property
    def start_up(self) -> tuple[float | None, float | None]:
        """Begin and end of Spark's start, by `time.monotonic`; None for what has not happened."""
        return self.session.start_up.began, self.session.start_up.ended

    def begin(self) -> None:
        """Start Spark and its Python workers in the background; never waits."""
        self.session.begin()
        if self.has_own_workers:
            self.session.warm_up_workers(jobs.start_python_workers)

    def report(self) -> EngineReport:
        """Return Spark's version, master, application, job counts and pages; never waits."""
        version, application = self.session.spark_identity()
        ui, history = self.session.web_pages
        return EngineReport(
            self.name,
            version,
            self.session.master,
            application,
            self._jobs,
            self._tasks,
            ui,
            history,
        )

    def stop(self, *, for_all: bool = False) -> None:
        """Stop lakeport's own session, unless others use it; see `Engine.stop`."""
        session = self.session
        if not (session.adopted or session.streams) and (for_all or not session.is_shared):
            session.stop()

    def count_streams(self, change: int) -> None:
        """Add to the number of streams on the session, which is not replaced while it has any."""
        self.session.streams += change

    def close(self) -> None:
        """Release the session, so that another load may replace it; may be called again."""
        self._named.close()
        self.session.release(self)


def has_custom_hook(settings: Mapping[str, str]) -> bool:
    """Whether Spark settings replace Delta's own log store or commit handling."""
    return any(_is_custom_hook(key, value) for key, value in settings.items())


def _is_custom_hook(key: str, value: str) -> bool:
    """Whether a Spark setting replaces Delta's own log store or commit handling.

    A catalog does not: lakeport's tables are folders, and one whose catalog commits is not plain.

    >>> _is_custom_hook("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    True
    >>> _is_custom_hook("spark.sql.catalog.spark_catalog", "io.unitycatalog.spark.UCSingleCatalog")
    False
    """
    if not key.startswith(_HOOKS):
        return False
    delta = value.startswith(_KNOWN_LOG_STORES) and not any(x in value for x in _OWN_LOG_STORES)
    return not (key.startswith("spark.delta.logStore.") and delta)
