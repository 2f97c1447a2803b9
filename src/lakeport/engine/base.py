"""The engine of a load: what runs its tasks, and what the load may ask of it.

A load is given one engine when it is prepared (`threads.choose_engine`) and keeps it to its end.
Sources, writers and commands hand it tasks; only `engine.spark` calls Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from lakeport.model import EngineReport

if TYPE_CHECKING:  # also for other packages' annotations: a program that runs imports none
    from pyspark import SparkContext as SparkContext
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.streaming.query import StreamingQuery as StreamingQuery

    from lakeport.engine.spark.delta.rows import DeltaRows as DeltaRows
    from lakeport.engine.spark.delta.session import DeltaSession as DeltaSession
    from lakeport.engine.spark.delta.session import LogStoreProbe as LogStoreProbe
    from lakeport.engine.spark.engine import SparkEngine as SparkEngine
    from lakeport.engine.spark.jobs import ReadingFrame as ReadingFrame

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The Spark session that a load or command asks for.

    Attributes:
        needs: names of `jars.JARS` that it has to have if lakeport starts it.
        settings: the user's `spark:` mapping; without effect on a session that is adopted.
        small: whether the load is known to be small, so that a quick start counts most.
        keep: a context that must go on, because the source is a frame of its session.
        also: further names, which a session need not have: what they are needed for later is
            refused then.
        warm: `auto` to have a warm session's Spark where one suits, `require` to have no other.
    """

    needs: Set[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    quick_start: bool = True
    keep_context: SparkContext | None = None
    optional_needs: Set[str] = frozenset()
    warm: str = "off"


class Engine(ABC):
    """Runs the tasks of one load or command. All methods may be called from any thread.

    Use it as a context manager, or call `close` once: a load of other needs may wait for that.

    Attributes:
        name: `spark` or `threads`.
        secrets: values that were handed over and must not be in any message.
        most_streams: how many small streams of a load are landed at once; threads share one
            interpreter, and more of them take longer.
        run: name of the run whose tasks these are; empty for a command.
        adopted: whether tasks run in a Spark session that somebody else has built.
        commits_any_table: whether delta-spark is there for Delta tables that are not plain.
        commits_by_log: whether lakeport may commit to plain Delta tables by their log's files;
            False where the session or its settings name a log store, catalog, default table
            property or commit hook of their own, which only delta-spark knows of.
    """

    name: ClassVar[str]
    most_streams: ClassVar[int] = 4
    run: str = ""
    adopted: bool = False
    commits_any_table: bool = True
    commits_by_log: bool = True

    def __init__(self) -> None:
        """Begin without secrets."""
        self.secrets: set[str] = set()

    def __enter__(self) -> Self:
        """Use the engine for as long as the body runs."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the engine."""
        self.close()

    @abstractmethod
    def run_tasks(
        self,
        step: str,
        function: Callable[[T], list[R]],
        items: Sequence[T],
        *,
        sizes: Sequence[int] = (),
        discard: Callable[[list[R]], None] | None = None,
    ) -> list[R]:
        """Run `function` on every item in tasks; return all results in the items' order.

        Each item has a task of its own; small ones that several threads hand over share tasks.

        Args:
            step: what the tasks do, in words, such as `write orders to s3://lake/orders`.
            function: pickled into Spark's tasks (lambdas and partials are fine).
            items: pickled into the tasks.
            sizes: bytes that each item reads; empty where they are unknown.
            discard: called with the results of the tasks that succeeded when another one failed.

        Raises:
            LakeportError: what the first of the failed tasks raised, the same type and message. An
                interrupt cancels the tasks and passes.
        """

    @abstractmethod
    def require_spark(self, what: str) -> SparkEngine:
        """Return this engine, which is Spark, for something that only Spark can do.

        Args:
            what: what asks for Spark, such as `` `sql` ``.

        Raises:
            ConfigError: this engine is threads; the hint names `engine: spark`.
        """

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""

    @property
    @abstractmethod
    def has_own_workers(self) -> bool:
        """Whether tasks run in Python processes, or threads, that this process has made."""

    @property
    @abstractmethod
    def cores(self) -> int:
        """How many tasks run at once; waits for Spark only on a cluster."""

    @property
    def start_up(self) -> tuple[float | None, float | None]:
        """When Spark began to start and was there, by `time.monotonic`; None before."""
        return None, None

    @abstractmethod
    def report(self) -> EngineReport:
        """Return the engine with its jobs and tasks so far; never waits."""

    @abstractmethod
    def describe(self, chosen: bool) -> str:
        """Return which engine this is and why, in words.

        Args:
            chosen: whether the key `engine` was set.
        """

    @abstractmethod
    def check_workers(self, packages: Sequence[str]) -> None:
        """Check that the workers have lakeport and these packages.

        Args:
            packages: modules that they need beside those of every load.

        Raises:
            MissingDependency: one is absent; the hint has the settings that bring it.
            ConfigError: the workers' Python is another version, or there is none.
            SparkFailure: Spark did not start, or has no workers.
        """

    @abstractmethod
    def begin(self) -> None:
        """Have the engine start what its first tasks need; never waits, never fails."""

    @abstractmethod
    def stop(self, *, for_all: bool = False) -> None:
        """Stop what runs in the session, after an interrupt.

        Args:
            for_all: also where other loads use the session; never where a stream runs on it.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the session for other loads; fine when called again."""
