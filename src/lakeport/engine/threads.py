"""The engine that runs tasks in threads of this process, and the choice between it and Spark."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar, Final, NoReturn, TypeVar

from lakeport.engine.base import Engine, SessionRequest
from lakeport.engine.tasks import FailurePolicy, TaskOutcome, gather_results
from lakeport.errors import ConfigError
from lakeport.host.activity import bind_activity
from lakeport.host.process import available_cores
from lakeport.model import EngineReport

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS: Final = 8  # what of a task is Python, they do one after another
_AT_ONCE: Final = 4  # calls that get their threads: the memory of tasks has a bound
_HINT: Final = (
    "use `engine: spark`, the default: change the key `engine`, the option `--engine` or the "
    "variable LAKEPORT_ENGINE, whichever says `threads`."
)


class ThreadEngine(Engine):
    """Runs tasks in threads of this process; no JVM is ever started."""

    name: ClassVar[str] = "threads"
    commits_any_table = False

    def __init__(self) -> None:
        """Begin without tasks."""
        super().__init__()
        self._tasks = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE * self._most, "lakeport-task")

    def run_tasks(
        self,
        step: str,
        function: Callable[[T], list[R]],
        items: Sequence[T],
        *,
        sizes: Sequence[int] = (),
        discard: Callable[[list[R]], None] | None = None,
    ) -> list[R]:
        """Run `function` on every item; see `Engine.run_tasks`. No task is tried twice."""
        if not items:
            return []
        policy, waiting = FailurePolicy(attempts=1), deque(enumerate(items))

        def run() -> list[TaskOutcome]:
            found: list[TaskOutcome] = []
            while True:
                try:
                    number, item = waiting.popleft()
                except IndexError:
                    return found
                found.append(policy.run_task(number, 0, partial(function, item)))
                if found[-1].error is not None:
                    waiting.clear()

        threads = min(len(items), self._most)
        running = [self._pool.submit(bind_activity(run)) for _ in range(threads)]
        try:
            outcomes = [outcome for each in running for outcome in each.result()]
        except BaseException:
            waiting.clear()
            done = [one for each in running for ended in each.result() for one in ended.results]
            if discard is not None and done:
                discard(done)
            raise
        with self._lock:
            self._tasks += len(outcomes)
        return gather_results(outcomes, discard)

    def require_spark(self, what: str) -> NoReturn:
        """Refuse `what`; see `Engine.require_spark`."""
        raise ConfigError(f"{what} takes Spark, and `engine` is `threads`", _HINT)

    @property
    def _most(self) -> int:
        """How many threads the items of one call get at most."""
        return min(self.cores, _MOST_THREADS)

    @property
    def is_local(self) -> bool:
        """True: threads are of this machine."""
        return True

    @property
    def has_own_workers(self) -> bool:
        """True: threads are of this process."""
        return True

    @property
    def cores(self) -> int:
        """How many threads run at once: one for each core that this process may use."""
        return available_cores()

    def report(self) -> EngineReport:
        """Return the engine with its tasks so far."""
        return EngineReport(self.name, master=f"threads[{self.cores}]", tasks=self._tasks)

    def describe(self, chosen: bool) -> str:
        """Return which engine this is and why, in words."""
        return f"threads of this process, {self.cores} at once, as `engine` is `threads`"

    def check_workers(self, packages: Sequence[str]) -> None:
        """Find nothing wrong: what this process has, its threads have."""

    def begin(self) -> None:
        """Begin nothing: threads are there at once."""

    def stop(self, *, for_all: bool = False) -> None:
        """End nothing: tasks end when they look at their load's cancellation."""

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False)


def choose_engine(name: str, request: SessionRequest) -> Engine:
    """Return the engine that a config names: Spark, unless `name` is `threads`.

    Spark starts with `Engine.begin`, or when its session is first used.

    Args:
        name: `spark` or `threads`.
        request: the session that Spark is to have.

    Raises:
        ConfigError: a setting is wrong, or the process's Spark lacks something.
        MissingDependency: there is no Java that Spark runs on.
    """
    if name == "threads":
        return ThreadEngine()
    from lakeport.engine.spark.engine import SparkEngine

    return SparkEngine(request)
