"""The process of a warm session that keeps Spark, and lends it to runs.

A run has a door of its own into the JVM (`RunGateway`), for as long as its connection to this
process stands: when that ends, however it ends, so does all that the run does there. A store's
settings are one run's, or those of several that have the same; the file system objects that were
opened with them end with the last of these runs.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn

from lakeport.engine.spark.filesystems import forget
from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.lease import open_gateway
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import LakeportError
from lakeport.host.process import is_there
from lakeport.host.warm.channel import Channel
from lakeport.host.warm.folder import Session
from lakeport.warm.claims import Claims

_LOOK_SECONDS: Final = 0.5
_LEISURE_SECONDS: Final = 3.0  # after which the run that has started the session is under way
_CALLERS: Final = 8  # threads that talk to the JVM; each has one there for good
_CALLS_MS: Final = 5_000  # for the calls of a run that has ended to end
_TRIES: Final = 24
_SETTINGS: Final = {
    "spark.scheduler.mode": "FAIR",
    # A process for each task: nothing that a run leaves in one is there for another.
    "spark.python.worker.reuse": "false",
    # What Spark remembers of jobs that have ended.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
}


def keep(session: Session, listener: socket.socket, told: socket.socket, starter: int) -> NoReturn:
    """Lend Spark until the session's first process, or the JVM, ends; then end this process.

    Args:
        session: what it is part of.
        listener: where runs ask for Spark.
        told: takes `+` for each run that has it, `-` for each that gives it back.
        starter: number of the process that is to have the cores to itself as long as it runs,
            unless it asks for Spark; 0 for none.
    """
    code = 1
    try:
        keeper = _Keeper(session, told, starter)
        threading.Thread(target=keeper.serve, args=(listener,), daemon=True).start()
        keeper.watch()
        code = 0
    finally:
        os._exit(code)


class _Keeper:
    """The session's Spark, and who has it."""

    def __init__(self, session: Session, told: socket.socket, starter: int) -> None:
        self._session = session
        self._told = told
        self._starter = starter
        self._made: DriverSession | None = None
        self._making = threading.Lock()
        self._begun = math.inf
        self._claims = Claims(self._close_store)
        self._callers = ThreadPoolExecutor(_CALLERS, "lakeport-keeper")
        self._lock = threading.Lock()
        self._pools: set[int] = set()

    @property
    def _driver(self) -> DriverSession:
        """Spark, which begins to start when it is first asked for."""
        with self._making:
            if self._made is None:
                settings = {**_SETTINGS, "spark.driver.memory": self._session.memory}
                self._made = DriverSession(jars.with_cached(()), settings, small=True)
                self._begun = time.monotonic()
            return self._made

    def watch(self) -> None:
        """Wait until the first process or the JVM ends, and end Spark."""
        self._told.settimeout(_LOOK_SECONDS)
        while self._made is None or self._made.alive:
            self._prepare()
            try:
                if not self._told.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        if self._made is not None:
            self._made.stop()

    def _prepare(self) -> None:
        """Start Spark, and have loaded what jobs and commits need, once it is in nobody's way."""
        if self._made is None:
            if not is_there(self._starter):
                self._driver.begin()
        elif not self._pools and time.monotonic() > self._begun + _LEISURE_SECONDS:
            self._made.warm()

    def serve(self, listener: socket.socket) -> None:
        """Take up runs that want Spark, each in a thread of its own."""
        while True:
            connection, _ = listener.accept()
            channel = Channel(connection)
            threading.Thread(target=self._greet, args=(channel,), daemon=True).start()

    def _greet(self, channel: Channel) -> None:
        try:
            message, _ = channel.greeting(self._session.token)
            if message is not None:
                self._lend(channel, message)
        except (OSError, ValueError, LakeportError) as error:
            with suppress(OSError):
                channel.send({"refused": str(error)})
        finally:
            channel.close()

    def _lend(self, channel: Channel, asked: dict[str, Any]) -> None:
        """Let a run have Spark until it gives it back, or is no more."""
        run = f"run-{secrets.token_hex(6)}"
        try:
            for store, settings in asked["claims"].items():
                if not self._claims.take(run, store, settings):
                    channel.send({"refused": f"another run has other settings for {store}"})
                    return
            with self._pool() as pool:
                sql = bool(asked["sql"])
                door = self._call(self._open_door, run, pool, sql)
                if sql:
                    self._driver.warm(workers=False)  # a commit, while the run reads its input
                self._told.sendall(b"+")
                try:
                    self._serve(channel, run, door)
                finally:
                    ended = self._close_door(door)
                    self._told.sendall(b"-")
                    with suppress(OSError):
                        channel.send({"ended": ended})
        finally:
            self._claims.give_back(run)

    def _serve(self, channel: Channel, run: str, door: Any) -> None:
        told = {"port": self._call(door.port), "secret": self._call(door.secret), "tag": run}
        channel.send({**told, "needs": sorted(self._driver.needs)})
        while True:
            message, _ = channel.receive()
            if message is None or "claims" not in message:
                return
            taken = all(self._claims.take(run, *each) for each in message["claims"].items())
            channel.send({"taken": taken})

    def _open_door(self, run: str, pool: str, sql: bool) -> Any:
        return open_gateway(self._driver.context, run, pool, sql=sql)

    def _close_door(self, door: Any) -> bool:
        """End what the run does in the JVM; what does not end keeps its store's settings for long.

        Returns:
            Whether everything has ended.
        """
        with suppress(Exception):
            for _ in range(_TRIES):
                if self._call(door.close, _CALLS_MS):
                    return True
        return not self._driver.alive

    def _close_store(self, store: str, names: list[str]) -> None:
        """Forget a store that no run uses any more, and how it was reached."""
        with suppress(Exception):
            self._call(forget, self._driver, store, names)

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call the JVM from one of a few threads, as each thread has its own connection to it."""
        return self._callers.submit(function, *arguments).result()

    @contextmanager
    def _pool(self) -> Iterator[str]:
        """A pool of Spark's scheduler for one run: pools share the cores, and stay for ever."""
        with self._lock:
            number = next(n for n in range(len(self._pools) + 1) if n not in self._pools)
            self._pools.add(number)
        try:
            yield f"run-{number}"
        finally:
            with self._lock:
                self._pools.discard(number)
