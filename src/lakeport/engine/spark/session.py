"""The Spark session that the loads of a process share: the active one, or lakeport's own.

lakeport's own session starts in the background while the input is read. Its JVM ends with this
process, however that ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from weakref import WeakKeyDictionary, finalize

from lakeport.engine.base import SessionRequest
from lakeport.engine.failures import translate, translate_errors
from lakeport.engine.spark import active_context
from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.jvm.launch import Launch, stopped_error
from lakeport.engine.spark.jvm.versions import MASTER_PORT, find_other_master
from lakeport.engine.spark.lease import Lease, find_lease
from lakeport.engine.spark.settings import (
    OPTION_SOURCE,
    check_settings,
    heap_mb,
    is_local_master,
    local_cores,
    master_url,
    task_attempts,
)
from lakeport.errors import ConfigError, LakeportError
from lakeport.host.activity import activity
from lakeport.host.process import ProcessContext
from lakeport.host.scratch import ScratchFolder
from lakeport.scrub import is_secret_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakeport.engine.tasks import JobLabel

T = TypeVar("T")
R = TypeVar("R")

_POLL_SECONDS: Final = 1.0
_MAP_IN_ARROW: Final = 207  # PythonEvalType.SQL_MAP_ARROW_ITER_UDF, whose module varies
_python_lock = threading.Lock()


class _StartUp(threading.Event):
    """Event that is set once Spark has started or failed to start, with both times.

    Attributes:
        began: begin of the start, by `time.monotonic`; None before, and for an adopted session.
        ended: end of the start; None before.
    """

    began: float | None = None
    ended: float | None = None

    def begin(self) -> None:
        """Record the begin of the start."""
        self.began = time.monotonic()

    def set(self) -> None:
        """Record the end of the start, and wake the threads that wait for it."""
        self.ended = self.ended or time.monotonic()
        super().set()


class DriverSession:
    """The Spark session that all loads of this process share.

    Get it from `DriverSession.acquire`. All methods may be called from any thread.

    Attributes:
        needs: keys of `jars.NEEDS` that the session has.
        adopted: whether the user built the session, or holds it; no load stops it then.
        streams: number of streaming queries on it; while there are any, no session replaces it.
        secrets: values that must not appear in messages.
        start_up: the event of its start, with begin and end.
        jar_error: why a jar of the optional needs is missing; None if none is.
    """

    _current: ClassVar[DriverSession | None] = None
    _changed: ClassVar[threading.Condition] = threading.Condition()

    def __init__(self, request: SessionRequest) -> None:
        """Adopt the active session, or prepare one that `begin` starts."""
        needs, settings = frozenset(request.needs), request.settings
        self.needs = needs
        self.adopted = False
        self.streams = 0
        self.secrets: set[str] = set()
        self.jar_error: LakeportError | None = None
        self._given = dict(settings)
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._session_lock = threading.Lock()  # making a session takes a second: jobs need not wait
        self.start_up = _StartUp()
        self._begun = self._awaited = self._stopped = False
        self._warmed_up = False
        self._error: LakeportError | None = None
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None
        self._launch: Launch | Lease | None = None
        self._builder = threading.Thread(
            target=self._start_spark, name="lakeport-spark", daemon=True
        )
        self._folder: Path | None = None
        self._identity = ("", "")
        self._web_pages: tuple[str, str] | None = None
        self._optional_needs = frozenset[str]()
        self._users: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._master = master_url(settings)
        self.attempts = task_attempts({"spark.master": self._master, **settings})
        check_settings(settings)
        self._own = partial(Launch, settings=settings, quick_start=request.quick_start)
        if active_context.find_context() is None:
            self.needs, self._optional_needs = (
                jars.with_cached_needs(needs),
                jars.known_needs(request.optional_needs),
            )
            heap_mb(settings)
            self._launch = lease = find_lease(request.warm, settings, needs)
            self.needs = lease.needs if lease is not None else self.needs
        else:
            self.begin()

    @classmethod
    def acquire(cls, request: SessionRequest, user: object = None) -> DriverSession:
        """Return the process's session, or start another if it does not suit; may wait for loads.

        A process has one JVM. If its session does not suit, and loads use it, this waits for them.

        Args:
            user: a user of the session until `release`; while it has users, no other replaces it.

        Raises:
            ConfigError: a setting is wrong; the session does not suit and a stream or frame needs
                it; or no warm session suits, and one is required.
            MissingDependency: there is no Java that Spark runs on, or no jars for a need.
        """
        with cls._changed:
            if cls._current is None:
                active_context.join_submitted_session()
            while True:
                current = cls._current
                if current is not None and current._suits(request):
                    break
                if current is not None and current._held_session_ended:
                    current.stop()
                elif current is not None and not current.adopted:
                    jars.jars_for(request.needs)  # refused here, the session goes on
                    current._check_unused(request)
                    if current._users and current._is_usable:
                        current._wait_for_users()
                        continue
                    current.stop()
                    if current._builder.is_alive():
                        current._builder.join()  # pyspark knows of one JVM at a time
                current = cls._current = cls(request)
                break
            if user is not None:
                current._users[user] = threading.get_ident()
            return current

    def release(self, user: object) -> None:
        """Remove `user` from the session's users; a session without users may be replaced."""
        with self._changed:
            self._users.pop(user, None)
            self._changed.notify_all()

    @classmethod
    def hand_over(cls) -> None:
        """Let the process's running session count as the user's: no load stops or replaces it.

        Its JVM ends with this process, or when a load finds that the user has stopped the session.
        """
        with cls._changed:
            own = cls._current
            if own is not None and own._holds_running_context:
                own.adopted = True

    @classmethod
    def reset_after_fork(cls) -> None:
        """Forget the session in a forked process, as it belongs to the parent."""
        cls._current, cls._changed = None, threading.Condition()

    @classmethod
    def find_users_session(cls) -> SparkSession | None:
        """Return the classic session that the user built in this process; None without one."""
        own = cls._current
        if own is not None and own._begun and not (own.adopted or own._stopped):
            return None
        active_context.join_submitted_session()
        if active_context.find_context() is None:
            return None
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()

    @property
    def is_shared(self) -> bool:
        """Whether more than one load or command uses the session."""
        return len(self._users) > 1

    def _wait_for_users(self) -> None:
        """Wait up to 1 s for a change of users; ConfigError if only this thread uses it.

        Raises:
            ConfigError: this thread's own load uses the session, and would wait for itself.
        """
        if set(self._users.values()) == {threading.get_ident()}:
            raise ConfigError(
                "a load that goes on in this thread uses Spark with other jars or `spark` settings",
                "end it first, or give both the same `spark` settings.",
            )
        with activity("waiting for", "another load's Spark"):
            self._changed.wait(_POLL_SECONDS)

    def begin(self) -> None:
        """Start Spark in the background, or adopt the user's active session; never waits.

        Raises:
            LakeportError: as for `acquire`.
        """
        with self._lock:
            if self._begun or self._stopped:
                return
            if (running := active_context.find_context()) is not None:
                self._adopt_context(running)
            else:
                self._launch = self._launch or self._own(
                    find_java(), self.needs, optional_needs=self._optional_needs
                )
                atexit.register(self.stop)
                self.start_up.begin()
                self._builder.start()
            self._begun = True

    @property
    def context(self) -> SparkContext:
        """The SparkContext; waits until Spark has started, and raises if it did not start.

        Raises:
            MissingDependency: there is no Java, or a jar can't be downloaded.
            SparkFailure: Spark did not start, or was stopped.
        """
        self.begin()
        with activity("starting Spark"):
            self.start_up.wait()
        if self._error is not None:
            raise self._error
        if self._stopped or self._context is None:
            raise stopped_error()
        return self._context

    @property
    def spark(self) -> SparkSession:
        """The SparkSession, made at first use; waits for Spark and raises if it did not start."""
        self._awaited |= not self.start_up.is_set()
        context = self.context
        with self._session_lock:
            if self._session is None:
                from pyspark.sql import SparkSession

                lease = self._launch
                with translate_errors(self.secrets):
                    own = lease.java_session(context) if isinstance(lease, Lease) else None
                    self._session = SparkSession(context, own)
            return self._session

    @property
    def is_alive(self) -> bool:
        """Whether the JVM runs, or was not started yet."""
        return self._launch is None or self._launch.is_alive

    @property
    def process_context(self) -> ProcessContext | None:
        """Environment for the tasks of a leased warm session; None for other sessions."""
        return self._launch.process_context if isinstance(self._launch, Lease) else None

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""
        return is_local_master(self._master)

    @property
    def cores(self) -> int:
        """Number of tasks that run at once; waits for the context only on a cluster."""
        return local_cores(self._master) if self.is_local else int(self.context.defaultParallelism)

    @property
    def python(self) -> str:
        """Program that runs lakeport's tasks: on a local master this process' own interpreter.

        The jobs of a user who built the session may run another one.
        """
        program, is_python = sys.executable, "python" in Path(sys.executable).name
        return program if self.adopted and self.is_local and is_python else self.context.pythonExec

    @property
    def identity(self) -> object:
        """The SparkContext, which other sessions may share."""
        return self.context

    @property
    def master(self) -> str:
        """Spark's master URL, with the number of cores in place of `*`."""
        return f"local[{self.cores}]" if self._master == "local[*]" else self._master

    @property
    def origin(self) -> str:
        """Phrase for messages: whether the session is the user's, a warm one or a new one."""
        if self.adopted:
            return f"the session that is active in this process ({self.master})"
        if isinstance(self._launch, Lease):
            return "lent by a warm session"
        return f"a session of lakeport's own on {self.master}"

    def spark_identity(self) -> tuple[str, str]:
        """Return Spark's version, and its application id or "" before its start.

        Before the start, the version is the installed one, so that a load that fails early reports
        the same version.
        """
        context = self._context
        if context is not None and not all(self._identity):  # each commit names them
            with suppress(Exception):  # the JVM may be gone
                self._identity = str(context.version), str(context.applicationId)
        version, application = self._identity
        return version or installed("pyspark"), application

    @property
    def web_pages(self) -> tuple[str, str]:
        """URLs of Spark's UI, and of the application at its history server; "" without, or early.

        The history server is that of YARN's setting; others name none to the application.
        """
        context = self._context
        if context is not None and self._web_pages is None:
            self._web_pages = "", ""
            with suppress(Exception):  # the JVM may be gone
                conf = context.getConf()
                server = conf.get("spark.yarn.historyServer.address", "")
                history = ""
                logged = conf.get("spark.eventLog.enabled", "") == "true"
                if server and logged and "$" not in server:  # Hadoop's variables
                    server = server if "://" in server else f"http://{server}"
                    history = f"{server.rstrip('/')}/history/{context.applicationId}"
                self._web_pages = str(context.uiWebUrl or ""), history
        return self._web_pages or ("", "")

    def set_hadoop_settings(self, settings: Mapping[str, str], source: str = OPTION_SOURCE) -> None:
        """Set Hadoop options, also secret ones, on the running session; waits for Spark.

        Args:
            settings: such as `fs.s3a.bucket.NAME.secret.key`, before the bucket's first use.
            source: the name of their source, which Hadoop keeps.
        """
        self.secrets |= {value for key, value in settings.items() if is_secret_name(key) and value}
        jsc = self.context._jsc
        with translate_errors(self.secrets):
            for key, value in settings.items():
                jsc.hadoopConfiguration().set(key, value, source)

    def wait_for_start(self) -> None:
        """Wait until Spark has started; raise as `context` does if it did not."""
        _ = self.context

    def label_jobs(
        self,
        label: JobLabel,
        tag: str = "",
        pool: str = "",
        *,
        interrupt_on_cancel: bool = False,
    ) -> None:
        """Set group, description, call site and tag of all Spark jobs that this thread starts.

        Args:
            tag, pool: the jobs' tag and scheduler pool; empty to leave both as they are.
            interrupt_on_cancel: whether a cancelled job interrupts its tasks' threads.
        """
        context = self.context
        context.setJobGroup(label.group, label.description, interrupt_on_cancel)
        for name in ("callSite.short", "callSite.long"):
            context.setLocalProperty(name, label.description)
        if tag:
            context.addJobTag(tag)
            context.setLocalProperty("spark.scheduler.pool", pool)  # each load has its own
            # Spark writes the scopes of the UI as JSON, which takes 60 ms of a cold start.
            context.setLocalProperty("spark.rdd.scope.noOverride", "true")

    def cancel_jobs(self, tag: str) -> None:
        """Cancel the running jobs of a tag."""
        self.context.cancelJobsWithTag(tag)

    def ended_share(self, tag: str) -> float | None:
        """Return the share of a tag's tasks that have ended; None before its first stage."""
        context: Any = self.context
        # PySpark's own tracker asks the JVM for each field of a job and a stage.
        tagged, tracker = context._jsc.sc().statusTracker(), context._jsc.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tagged.getJobIdsForTag(tag)))
        stages = filter(None, (tracker.getStageInfo(n) for job in jobs for n in job.stageIds()))
        counts = [(stage.numCompletedTasks(), stage.numTasks()) for stage in stages]
        tasks = sum(count for _, count in counts)
        return sum(completed for completed, _ in counts) / tasks if tasks else None

    def run_partitions(
        self, items: Sequence[T], function: Callable[[Iterable[T]], Iterable[R]]
    ) -> list[R]:
        """Run `function` on each item, as the only one of a partition, in a job of this thread.

        Returns:
            All that it yields, in the items' order.
        """
        rows = self.context.parallelize(items, len(items)).mapPartitions(function)
        with self._task_python():
            rows._jrdd  # noqa: B018  # makes the job's Python function
        return rows.collect()

    def map_in_arrow(
        self,
        frame: DataFrame,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: StructType | str,
    ) -> DataFrame:
        """Return a lazy frame: `function` on each partition's Arrow batches. Needs no pandas.

        PySpark's method requires pandas and makes no use of it. The function gets the columns
        named by their numbers.
        """
        from pyspark.sql.udf import UserDefinedFunction

        plain, numbers = number_columns(frame)
        run: Any = UserDefinedFunction(function, schema, evalType=_MAP_IN_ARROW)
        with self._task_python():
            column = run(*map(plain.__getitem__, numbers))
        of_java: Any = plain._jdf
        if plain.sparkSession.version.startswith("3."):
            mapped = of_java.pythonMapInArrow(column._jc.expr(), False)
        else:
            mapped = of_java.mapInArrow(column._jc, False, None)
        return type(plain)(mapped, plain.sparkSession)

    @contextmanager
    def _task_python(self) -> Iterator[None]:
        """Context manager in which PySpark makes functions for `python`, not for the user's."""
        context, program = self.context, self.python
        with _python_lock:
            users, context.pythonExec = context.pythonExec, program
            try:
                yield
            finally:
                context.pythonExec = users

    def warm_up_workers(self, job: Callable[[DriverSession], object]) -> None:
        """Run `job` once in the background, to start Python workers; never waits or raises.

        A load that waits for Spark needs the cores, and starts the workers: no job is run then.
        """
        if isinstance(self._launch, Lease):
            return
        with self._lock:
            if self._warmed_up:
                return
            self._warmed_up = True
        threading.Thread(
            target=self._run_unless_awaited, args=(job,), name="lakeport-warm", daemon=True
        ).start()

    def _run_unless_awaited(self, job: Callable[[DriverSession], object]) -> None:
        """Run `job` after Spark's start, unless a load waits for Spark; ignore exceptions."""
        with suppress(Exception):
            self.start_up.wait()
            if not (self._awaited or self._stopped):
                job(self)

    def job_folder(self) -> Path | None:
        """Return a folder that driver and tasks share, made once; None on a cluster."""
        if not self.is_local:
            return None
        self.start_up.wait()
        with self._lock:
            jvm = self._launch.jvm if isinstance(self._launch, Launch) else None
            if self._folder is None and jvm is not None:
                self._folder = jvm.folder / "failed"
            elif self._folder is None:
                self._folder = (made := ScratchFolder("jobs")).path
                finalize(self, made.remove)
            return self._folder

    def stop(self, fast: bool = True, *, timeout: float = 20.0) -> None:
        """Stop lakeport's own session; its JVM is killed if `fast`. A user's session goes on.

        Args:
            fast: kill the JVM, as everything is durable.
            timeout: seconds to wait for an orderly end otherwise.
        """
        if os.getpid() != self._owner:
            return
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            started = self.start_up.is_set()
        self.start_up.set()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if (launch := self._launch) is None:
            return
        atexit.unregister(self.stop)
        launch.close(self._context, fast=fast, timeout=timeout)
        if started and self._error is None and isinstance(launch, Launch):
            launch.refresh_archive()

    @property
    def _is_usable(self) -> bool:
        """Whether the session runs, or may still start."""
        return self.is_alive and not self._stopped and self._error is None

    @property
    def _holds_running_context(self) -> bool:
        """Whether this process's running context is the one that this session started."""
        return self._launch is not None and self._context is active_context.find_context()

    @property
    def _held_session_ended(self) -> bool:
        """Whether the user held the session, and it has ended: stopped, or its JVM is gone."""
        held = self.adopted and self._launch is not None
        return held and (not self.is_alive or active_context.find_context() is None)

    def _suits(self, request: SessionRequest) -> bool:
        """Whether a request can use this session: alive, same settings, enough jars.

        One that the user holds suits every request, as one that the user has built.
        """
        fitting = self._begun or active_context.find_context() is None
        if not self._is_usable or not fitting:
            return False
        if self.adopted:
            return self._holds_running_context
        if request.settings != self._given:
            return False
        wanted = frozenset[str]()
        if self.jar_error is None:
            wanted = jars.known_needs(request.optional_needs) - self._optional_needs
        if not request.needs | wanted <= self.needs:
            return False
        return request.warm != ("off" if isinstance(self._launch, Lease) else "require")

    def _check_unused(self, request: SessionRequest) -> None:
        """Raise ConfigError if a streaming query or the request's frame needs this session."""
        alive = not self._stopped and self._context is not None
        if not alive or not (self.streams or request.keep_context is self._context):
            return
        bound = "a stream runs" if self.streams else "the frame was made"
        lacking = ", ".join(sorted(request.needs - self.needs))
        raise ConfigError(
            f"{bound} on a session of lakeport's own that "
            + (f"lacks the jars for {lacking}" if lacking else "has other `spark` settings"),
            "use another process for it, or build a session that has what both need: lakeport "
            "adopts it.",
        )

    def _adopt_context(self, context: SparkContext) -> None:
        """Use the SparkContext of the user's own session, which is never stopped here."""
        from pyspark.sql import SparkSession

        with translate_errors():
            active_context.check_version(context)
            self._session = SparkSession.builder.getOrCreate()
            conf = context.getConf()
        self.adopted = True
        self._context = context
        self._master = str(context.master)
        self.attempts = task_attempts(dict(conf.getAll()) | {"spark.master": self._master})
        self.start_up.set()

    def _start_spark(self) -> None:
        """Thread body: start the JVM and the SparkContext, or record the error."""
        active_context.silence_lost_calls()
        try:
            context = self._open_context()
            with self._lock:
                self._context, late = context, self._stopped
            if late and self._launch is not None:
                self._launch.close(context, fast=True, timeout=0)
        except BaseException as error:
            self._error = translate(error)
        finally:
            self.start_up.set()

    def _open_context(self) -> SparkContext:
        """Start a JVM or join a warm one; return its SparkContext and record its jars."""
        launch = self._launch
        assert launch is not None
        if self._master.startswith("spark:"):  # Spark itself would try for a minute
            port, own = self._given.get(MASTER_PORT), installed("pyspark")
            if other := find_other_master(self._master, port, own):
                raise other
        context = launch.open()
        if isinstance(launch, Launch):
            self.needs, self.jar_error = launch.needs, launch.jar_error
        return context


def number_columns(frame: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return a frame with its columns named by their numbers, and those names.

    Spark would read a dot or backtick in a name as part of an expression.
    """
    numbers = [str(number) for number in range(len(frame.columns))]
    return (frame.toDF(*numbers) if numbers else frame), numbers


os.register_at_fork(after_in_child=DriverSession.reset_after_fork)
