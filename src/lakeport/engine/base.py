"""The interface of a load's engine, which runs its tasks, and the request for its session.

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

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """Jars, Spark settings and warm-session choice that one load or command asks for.

    Attributes:
        needs: keys of `jars.NEEDS` that the session must have if lakeport starts it.
        settings: the user's `spark:` mapping; without effect on an adopted session.
        quick_start: whether the load is small, so that a quick start matters most.
        keep_context: a context that must not end, as the source is a frame of its session; or None.
        optional_needs: further keys; a session without them refuses the work that needs them.
        frame: what is landed, if its session is to run the tasks; only Spark frames matter.
        warm: `auto` to use a suitable warm session's Spark, `require` to use no other, or `off`.
    """

    needs: Set[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    quick_start: bool = True
    keep_context: SparkContext | None = None
    optional_needs: Set[str] = frozenset()
    frame: object = None
    warm: str = "off"


class Engine(ABC):
    """Runs the tasks of one load or command. All methods may be called from any thread.

    Use it as a context manager, or call `close` once: a load with other needs may wait for that.

    Attributes:
        name: `spark`, `connect` or `threads`.
        secrets: values that must not appear in messages.
        most_streams: how many small streams of a load are landed at once. Threads share one
            interpreter, and more of them take longer.
        run: name of the run that the tasks belong to; empty for a command.
        adopted: whether tasks run in a Spark session that the user built.
        commits_any_table: whether delta-spark is available, which some Delta tables need.
        commits_by_log: whether lakeport may commit to plain Delta tables by writing their log.
            False if the session's settings name a log store, default table property or
            commit hook of their own, which only delta-spark honours.
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
        """Return this engine, which closes after the body."""
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
        """Run `function` on each item in a task; return results in item order, or raise an error.

        Each item has its own task; small items of several threads may share tasks.

        Args:
            step: what the tasks do, in words, such as `write orders to s3://lake/orders`.
            function, items: pickled into Spark's tasks (lambdas and partials are fine).
            sizes: bytes that each item reads; empty where they are unknown.
            discard: called with the results of the successful tasks if another one failed.

        Raises:
            LakeportError: as the first failed task raised it. An interrupt cancels the tasks, and
                is raised.
        """

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""

    @property
    @abstractmethod
    def has_own_workers(self) -> bool:
        """Whether tasks run in processes or threads that this process started."""

    @property
    @abstractmethod
    def cores(self) -> int:
        """Number of tasks that run at once; waits for Spark only on a cluster."""

    @property
    def start_up(self) -> tuple[float | None, float | None]:
        """Begin and end of Spark's start, by `time.monotonic`; None for what has not happened."""
        return None, None

    @abstractmethod
    def report(self) -> EngineReport:
        """Return the engine's version, master and counts of jobs and tasks so far; never waits."""

    @abstractmethod
    def describe(self, is_configured: bool) -> str:
        """Return a phrase for messages: the engine, and whether the key `engine` has chosen it."""

    @abstractmethod
    def check_workers(self, packages: Sequence[str]) -> None:
        """Raise MissingDependency unless workers import lakeport's modules and `packages`.

        Raises:
            MissingDependency: one is missing; the hint has the settings that ship it.
            ConfigError: the workers' Python is another version, or there is none.
            SparkFailure: Spark did not start, or has no workers.
        """

    @abstractmethod
    def begin(self) -> None:
        """Start in the background what the first tasks need; never waits, never raises."""

    @abstractmethod
    def stop(self, *, for_all: bool = False) -> None:
        """Stop the session unless others use it; with `for_all`, unless a stream runs on it."""

    @abstractmethod
    def close(self) -> None:
        """Release the session for other loads; may be called again."""


def is_connect(value: object) -> bool:
    """Whether a frame or session is one of Spark Connect."""
    return type(value).__module__.startswith("pyspark.sql.connect.")
