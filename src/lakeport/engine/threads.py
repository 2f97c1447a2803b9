"""The engine that runs tasks in threads of this process, and the choice between it and Spark."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, cast

from lakeport.engine.base import Engine, SessionRequest
from lakeport.engine.tasks import FailurePolicy, TaskOutcome, gather_results
from lakeport.errors import ConfigError
from lakeport.host.activity import bind_activity
from lakeport.host.process import available_cores
from lakeport.model import EngineReport

if TYPE_CHECKING:
    from lakeport.engine.spark.engine import JobEngine, SparkEngine

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS: Final = 8  # the Python of their tasks runs one at a time
_CALLS_AT_ONCE: Final = 4  # bounds the memory of tasks
_HINT: Final = (
    "use `engine: spark`, the default: change the key `engine`, the option `--engine` or the "
    "variable LAKEPORT_ENGINE, whichever says `threads`."
)
_CLASSIC_HINT: Final = (
    "run it in a process that has no session of Spark Connect, without SPARK_REMOTE: lakeport then "
    "starts a Spark there, or uses the classic session that it finds."
)


class ThreadEngine(Engine):
    """Runs tasks in threads of this process, without a JVM."""

    name: ClassVar[str] = "threads"
    commits_any_table = False

    def __init__(self) -> None:
        """Begin without tasks."""
        super().__init__()
        self._tasks = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_CALLS_AT_ONCE * self._threads_per_call, "lakeport-task")

    def run_tasks(
        self,
        step: str,
        function: Callable[[T], list[R]],
        items: Sequence[T],
        *,
        sizes: Sequence[int] = (),
        discard: Callable[[list[R]], None] | None = None,
    ) -> list[R]:
        """Run `function` once on each item, in up to eight threads; return all results."""
        if not items:
            return []
        policy, queue = FailurePolicy(attempts=1), deque(enumerate(items))

        def run() -> list[TaskOutcome]:
            found: list[TaskOutcome] = []
            while True:
                try:
                    number, item = queue.popleft()
                except IndexError:
                    return found
                found.append(policy.run_task(number, 0, partial(function, item)))
                if found[-1].error is not None:
                    queue.clear()

        threads = min(len(items), self._threads_per_call)
        running = [self._pool.submit(bind_activity(run)) for _ in range(threads)]
        try:
            outcomes = [outcome for each in running for outcome in each.result()]
        except BaseException:
            queue.clear()
            done = [one for each in running for ended in each.result() for one in ended.results]
            if discard is not None and done:
                discard(done)
            raise
        with self._lock:
            self._tasks += len(outcomes)
        return gather_results(outcomes, discard)

    @property
    def _threads_per_call(self) -> int:
        """The most threads for the items of one call."""
        return min(self.cores, _MOST_THREADS)

    @property
    def is_local(self) -> bool:
        """True: threads run on this machine."""
        return True

    @property
    def has_own_workers(self) -> bool:
        """True: threads belong to this process."""
        return True

    @property
    def cores(self) -> int:
        """Number of cores that this process may use, so of threads for a load."""
        return available_cores()

    def report(self) -> EngineReport:
        """Return the engine with its number of tasks so far."""
        return EngineReport(self.name, master=f"threads[{self.cores}]", tasks=self._tasks)

    def describe(self, is_configured: bool) -> str:
        """Return a phrase for messages: that threads run the tasks, and why."""
        return f"threads of this process, {self.cores} at once, as `engine` is `threads`"

    def check_workers(self, packages: Sequence[str]) -> None:
        """Do nothing: threads import what this process imports."""

    def begin(self) -> None:
        """Do nothing: threads need no start."""

    def stop(self, *, for_all: bool = False) -> None:
        """Do nothing: tasks end when they notice their load's cancellation."""

    def close(self) -> None:
        """End the threads once they are idle; never waits."""
        self._pool.shutdown(wait=False)


def choose_engine(name: str, request: SessionRequest) -> Engine:
    """Return a ThreadEngine if `name` is `threads`, else one of Spark. Nothing starts yet.

    It is a ConnectEngine where `find_session` finds a session of Spark Connect, else a SparkEngine:
    Spark starts with `Engine.begin`, or when its session is first used.

    Raises:
        ConfigError: a setting is wrong, or the process's Spark lacks something.
        MissingDependency: there is no Java that Spark runs on.
    """
    if name == "threads":
        return ThreadEngine()
    from lakeport.engine.spark.connect import ConnectEngine, find_session
    from lakeport.engine.spark.engine import SparkEngine

    remote = find_session(request.frame, request.settings)
    return SparkEngine(request) if remote is None else ConnectEngine(remote, request)


def require_spark(engine: Engine, feature: str) -> SparkEngine:
    """Return `engine` as a SparkEngine; raise ConfigError naming `feature` if it is another.

    Raises:
        ConfigError: the engine is threads or Spark Connect; the hint names one that can do it.
    """
    require_jobs(engine, feature)
    if engine.name != "spark":
        raise ConfigError(
            f"{feature} takes a classic Spark session, and this process uses Spark Connect",
            _CLASSIC_HINT,
        )
    return cast("SparkEngine", engine)


def require_jobs(engine: Engine, feature: str) -> JobEngine:
    """Return `engine` as one that runs Spark's jobs; raise ConfigError if it is threads.

    Raises:
        ConfigError: the engine is threads; the hint names `engine: spark`.
    """
    if engine.name == "threads":
        raise ConfigError(f"{feature} takes Spark, and `engine` is `threads`", _HINT)
    return cast("JobEngine", engine)
