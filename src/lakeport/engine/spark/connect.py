"""The engine that runs tasks on a Spark Connect server, by `mapInArrow`.

Only DataFrames and their plans reach the server: it has no RDDs, and its JVM can't be called. Files
and plain Delta tables are committed from this process, so nothing else is needed.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from weakref import WeakKeyDictionary, finalize

from lakeport.engine.base import SessionRequest, is_connect
from lakeport.engine.failures import translate_errors
from lakeport.engine.spark import workers
from lakeport.engine.spark.active_context import find_context, silence_context_loggers
from lakeport.engine.spark.engine import JobEngine, has_custom_hook
from lakeport.engine.spark.session import number_columns
from lakeport.engine.spark.settings import task_attempts
from lakeport.engine.tasks import JobLabel
from lakeport.errors import ConfigError, SourceError, SparkFailure
from lakeport.host.activity import activity
from lakeport.host.packages import missing_extra_error, show_pandas
from lakeport.host.scratch import ScratchFolder
from lakeport.model import EngineReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")
R = TypeVar("R")

_ADDRESS: Final = re.compile(r"sc://(\[[^\]]+\]|[^:/;]+)(?::(\d+))?(?:/.*)?")
_PORT: Final = 15002
_ANSWER_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ServerWorkers:
    """Cores of a Spark Connect server's workers, and the folder that they share with this process.

    Attributes:
        cores: number of tasks that run at once.
        folder: a folder of this machine that all of them see; None if one does not.
    """

    cores: int
    folder: Path | None


_found: WeakKeyDictionary[SparkSession, ServerWorkers] = WeakKeyDictionary()


class ConnectSession:
    """A Spark Connect session as `jobs.JobSession`: one of the user's, or of a remote URL."""

    process_context: None = None

    def __init__(self, session: SparkSession | str) -> None:
        """Use a session, or make one for a URL when it is first needed."""
        self._given = session
        self._lock = threading.RLock()
        self.secrets: set[str] = set()
        if isinstance(session, str):
            self.secrets.update(re.findall(r";token=([^;]+)", session))

    @cached_property
    def spark(self) -> SparkSession:
        """The session of PySpark; for a URL it is made at first use.

        Raises:
            MissingDependency: gRPC is not installed.
            SparkFailure: no server answers.
            SourceError: the session was stopped.
        """
        with self._lock:
            if not isinstance(self._given, str):
                given: Any = self._given
                if given.is_stopped:
                    raise SourceError(
                        "the frame's Spark session was stopped",
                        "make the frame anew in one that runs.",
                    )
                return self._given
            with activity("reaching", "the Spark Connect server"), translate_errors(self.secrets):
                _check_answer(self._given)
                silence_context_loggers()
                show_pandas()
                from pyspark.sql import SparkSession

                try:
                    return SparkSession.builder.remote(self._given).getOrCreate()
                except ImportError as error:
                    words = "PySpark lacks what its client of Spark Connect takes"
                    raise missing_extra_error(f"{words}: {error}", "connect") from error

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Settings of the session that the server tells."""
        with suppress(AttributeError), translate_errors(self.secrets):
            return self.spark.conf.getAll
        return {}  # Spark 3.5 can't tell them

    @cached_property
    def facts(self) -> tuple[str, str, str]:
        """Version, master URL and application id of the server's Spark; empty where not told."""
        conf, found = self.spark.conf, ["", ""]
        for number, key in enumerate(("spark.master", "spark.app.id")):
            with suppress(Exception):  # a managed server keeps them to itself
                found[number] = conf.get(key, None) or ""
        with translate_errors(self.secrets):
            return str(self.spark.version), found[0], found[1]

    @cached_property
    def attempts(self) -> int:
        """Number of times that Spark tries a task; once if the server does not tell its master."""
        master = self.facts[1]
        return task_attempts({"spark.master": master, **self.settings}) if master else 1

    @property
    def identity(self) -> object:
        """The session of PySpark, which other loads may use as well."""
        return self.spark

    @property
    def python(self) -> str:
        """The workers' Python, where the session sets it."""
        return self.spark.conf.get("spark.sql.execution.pyspark.python", None) or ""

    @property
    def cores(self) -> int:
        """Number of tasks that run at once; asks the server."""
        return self._workers.cores

    @property
    def is_local(self) -> bool:
        """Whether all tasks see this machine's disk; asks the server."""
        return self._workers.folder is not None

    def job_folder(self) -> Path | None:
        """Return a folder that driver and tasks share; None if they share no disk."""
        return self._workers.folder

    @property
    def _workers(self) -> ServerWorkers:
        """Cores and shared folder of the server's workers, found by a job once for each session."""
        with self._lock:
            found = _found.get(self.spark)
            if found is None:
                scratch = ScratchFolder("jobs")
                name = str(scratch.path)

                def ask() -> list[bool]:
                    rows = self.spark.range(0, 1 << 16).mapInArrow(_look_for(name), "found boolean")
                    return [row[0] for row in rows.collect()]

                answers = workers.ask_workers(self, "look for the workers", ask)
                is_local = bool(answers) and all(answers)
                found = ServerWorkers(len(answers), scratch.path if is_local else None)
                if is_local:
                    finalize(self.spark, scratch.remove)
                else:
                    scratch.remove()
                _found[self.spark] = found
            return found

    def wait_for_start(self) -> None:
        """Make the session; raise SparkFailure if no server answers."""
        _ = self.spark

    def label_jobs(
        self, label: JobLabel, tag: str, pool: str, *, interrupt_on_cancel: bool
    ) -> None:
        """Tag this thread's jobs, also with their description; `pool` is the server's matter."""
        self.spark.addTag(tag)
        self.spark.addTag(label.description.replace(",", ";"))

    def cancel_jobs(self, tag: str) -> None:
        """Cancel the running jobs of a tag."""
        self.spark.interruptTag(tag)

    def ended_share(self, tag: str) -> None:
        """Return None: the server does not tell."""

    def run_partitions(
        self, items: Sequence[T], function: Callable[[Iterable[T]], Iterable[R]]
    ) -> list[R]:
        """Run `function` on each item, as the only one of a partition, in a job of this thread."""
        numbers = self.spark.range(0, len(items), 1, len(items))
        rows = numbers.mapInArrow(_on_items(function, list(items)), "results binary").collect()
        return [result for row in rows for result in pickle.loads(row[0])]  # noqa: S301  # our own

    def map_in_arrow(
        self,
        frame: DataFrame,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: StructType | str,
    ) -> DataFrame:
        """Return a lazy frame: `function` on each partition's Arrow batches, columns by number."""
        return number_columns(frame)[0].mapInArrow(function, schema)


def _look_for(folder: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for `mapInArrow` that yields once whether a worker may read `folder`."""

    def look(_: Iterable[Any]) -> Iterator[Any]:  # nested, so it needs no lakeport
        import os

        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"found": [os.access(folder, os.R_OK | os.W_OK)]})

    return look


def _on_items(
    function: Callable[[Iterable[T]], Iterable[R]], items: list[T]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for `mapInArrow` that runs `function` on items by their numbers."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:  # nested, so it needs no lakeport
        import pickle

        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                results = pickle.dumps(list(function([items[number]])))
                yield pa.RecordBatch.from_pydict({"results": [results]})

    return run


class ConnectEngine(JobEngine):
    """Runs tasks on a Spark Connect server; this process commits, and has no JVM."""

    name: ClassVar[str] = "connect"
    commits_any_table = False

    def __init__(self, session: SparkSession | str, request: SessionRequest) -> None:
        """Use a session, or make one for a URL when it is first needed.

        Raises:
            ConfigError: the request asks for a warm session.
        """
        if request.warm == "require":
            raise ConfigError(
                "`warm: require` asks for a warm session's Spark, and this process uses Spark "
                "Connect, which has none",
                "leave `warm` out, or unset SPARK_REMOTE.",
            )
        self.session = ConnectSession(session)
        super().__init__(self.session)
        self.adopted = not isinstance(session, str)

    @property
    def commits_by_log(self) -> bool:  # type: ignore[override]
        """Whether no setting of the session names a log store or commit hook of its own."""
        return not has_custom_hook(self.session.settings)

    @property
    def is_local(self) -> bool:
        """Whether tasks see this machine's disk; asks the server."""
        return self.session.is_local

    @property
    def has_own_workers(self) -> bool:
        """False: the server started them."""
        return False

    def describe(self, is_configured: bool) -> str:
        """Return a phrase for messages: that a Spark Connect server runs the tasks, and why."""
        why = "as the session is one of Spark Connect" if self.adopted else "as SPARK_REMOTE says"
        return f"Spark Connect, {why}"

    def check_workers(self, packages: Sequence[str]) -> None:
        """Check that the workers can import what tasks need; see `Engine.check_workers`."""
        workers.check_packages(self.session, packages)

    def begin(self) -> None:
        """Do nothing: the server runs."""

    def report(self) -> EngineReport:
        """Return Spark's version, master and application id, once a job has run, and counts."""
        version, master, application = self.session.__dict__.get("facts", ("", "", ""))
        return EngineReport(self.name, version, master, application, self._jobs, self._tasks)

    def stop(self, *, for_all: bool = False) -> None:
        """Do nothing: an interrupt cancels the jobs, and the server ends idle sessions."""

    def close(self) -> None:
        """Do nothing: other loads may use the session."""


def find_session(frame: object, settings: Mapping[str, str]) -> SparkSession | str | None:
    """Return the Spark Connect session that a load uses, or a URL to make one; None without both.

    It is the session of the frame that is landed, the active one, or that of `spark.remote` or
    SPARK_REMOTE. A classic frame or an active classic session comes first. Imports no PySpark.
    """
    if is_connect(frame):
        session: SparkSession = frame.sparkSession  # type: ignore[attr-defined]
        return session
    if type(frame).__module__.startswith("pyspark.sql."):
        return None
    if (module := sys.modules.get("pyspark.sql.connect.session")) is not None:
        active: SparkSession | None = module.SparkSession.getActiveSession()
        if active is not None:
            return active
    if find_context() is not None:
        return None
    return settings.get("spark.remote") or os.environ.get("SPARK_REMOTE") or None


def _check_answer(url: str) -> None:
    """Raise SparkFailure if nothing listens at a URL's host: PySpark would try for ten minutes."""
    if (found := _ADDRESS.fullmatch(url)) is None:
        return
    host, port = found[1].strip("[]"), int(found[2] or _PORT)
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise SparkFailure(
            f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}",
            "start one there (`$SPARK_HOME/sbin/start-connect-server.sh`), correct SPARK_REMOTE, "
            "or unset it to use a Spark of this machine.",
        ) from error
