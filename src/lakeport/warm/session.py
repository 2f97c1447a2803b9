"""A warm session: it takes one command line after the other, and forks a process for each.

```
client ─▶ run ······· its turn ◀─
       ─▶ arguments, environment, streams ─▶ fork, which is the run ─▶ exit code
       ─▶ signal, or its end ──────────────▶ the run's process
keeper ─▶ the next run's door into the JVM ─▶ that run
```
The process that serves has a single thread and all modules imported, and touches neither Spark nor
any data. A second one keeps Spark. Both end together.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final, NoReturn

import lakeport
from lakeport.host.process import die_with_parent, forbid_core_dumps
from lakeport.host.warm import LISTENER, Channel, lock_sessions, remove_session
from lakeport.warm.child import PASSED_ON, Command, become

_BESIDE: Final = (
    "google.rpc.error_details_pb2",
    "pyspark.sql",
    "pyspark.logger.worker_io",
    "rich.console",
)
_COMMAND_SECONDS: Final = 5.0  # until a client whose turn it is has sent its command
_END_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.5
_CALLS_MS: Final = 10_000  # for the calls of a run that has ended to end
_OBEYED: Final = frozenset({*PASSED_ON, signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL})
_SETTINGS: Final = {
    # A process for each task: nothing that a run leaves in one is there for another.
    "spark.python.worker.reuse": "false",
    # What Spark remembers of jobs that have ended.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
}


def serve() -> None:
    """Be a warm session until it ends; see `host.warm.begin` for what this process has."""
    told = json.load(sys.stdin)
    os.chdir("/")  # no folder stays in use by it
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's: a process that forks should have no thread
    forbid_core_dumps()
    listener = socket.socket(fileno=LISTENER)
    os.set_inheritable(LISTENER, False)
    here, there = (Channel(end) for end in socket.socketpair(type=socket.SOCK_SEQPACKET))
    parent = os.getpid()
    keeper = os.fork()
    if not keeper:
        here.close()
        listener.close()
        _keep(there, told["memory"], parent)
    there.close()
    WarmSession(told, listener, here).serve()
    here.close()
    end = time.monotonic() + _END_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < end and os.waitpid(keeper, os.WNOHANG)[0] == 0:
            time.sleep(0.02)


class WarmSession:
    """Serves until nobody has needed it for a while, or it is asked to end, or Spark is lost.

    Args:
        told: where its socket is, what it has in common with its clients, its limits.
        listener: the socket.
        keeper: to the process that keeps Spark.
    """

    def __init__(self, told: dict[str, Any], listener: socket.socket, keeper: Channel) -> None:
        self._told = told
        self._listener = listener
        self._keeper = keeper
        self._door: dict[str, Any] = {}  # of the next run; empty until it is open
        self._waiting: list[Channel] = []
        self._run: Channel | None = None
        self._process = 0
        self._command = ""
        self._served = 0
        self._ending = False
        self._begun = time.time()
        self._last = time.monotonic()
        self._preparing = _preparation()
        self._prepared = False
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()

    def serve(self) -> None:
        """Take up runs. Returns in this process; forks end with their run."""
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to)
        self._watch(self._listener, self._accept)
        self._watch(self._woken, self._reap)
        self._watch(self._keeper, self._open_door)
        while not self._ending or self._run is not None:
            ready = self._selector.select(self._patience())
            for event, _ in ready:
                event.data()
            if not ready and not self._prepared:
                self._prepared = next(self._preparing, True)
            elif self._prepared and self._patience() == 0:
                self._end()

    def _told_to(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            self._end()

    def _patience(self) -> float | None:
        """Seconds until there is something to do; None where others have to act."""
        if self._run is not None:
            return None
        if not self._prepared:
            return 0
        if self._waiting:
            return None
        return max(0.0, self._last + float(self._told["idle"]) - time.monotonic())

    def _watch(self, file: Any, answer: Callable[[], object]) -> None:
        self._selector.register(file, selectors.EVENT_READ, answer)

    def _end(self) -> None:
        """Take up no more runs; the one under way goes on."""
        if not self._ending:
            self._ending = True
            with lock_sessions():
                remove_session(Path(self._told["place"]))
            self._selector.unregister(self._listener)
            self._listener.close()
            while self._waiting:
                self._drop(self._waiting.pop())

    def _open_door(self) -> None:
        """Have a door for the next run, or end, as Spark has."""
        self._door, _ = self._keeper.receive()
        if self._door:
            self._offer()
        else:
            self._selector.unregister(self._keeper)
            self._end()  # a run that has lost Spark says so itself

    def _accept(self) -> None:
        with suppress(OSError):  # it listens no more
            channel = Channel(self._listener.accept()[0])
            self._watch(channel, lambda: self._hear(channel))

    def _drop(self, channel: Channel) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(channel)
        channel.close()

    def _hear(self, channel: Channel) -> None:
        """Answer a client; the end of one that waits for its run is the end of that run."""
        try:
            message, files = channel.receive()
            for file in files:
                os.close(file)
            if channel is self._run:
                self._obey(message)
            elif message.get("do") == "run":
                self._waiting.append(channel)
                self._offer()
                if channel in self._waiting:
                    channel.send({"wait": "for the run" if self._run else "for Spark"})
            else:
                if message.get("do") == "stop":
                    self._end()
                channel.send(self._status() if message else {})
                self._forget(channel)
        except (OSError, ValueError, AttributeError):  # gone, or none of ours
            self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        if channel in self._waiting:
            self._waiting.remove(channel)
        self._drop(channel)

    def _status(self) -> dict[str, Any]:
        return {
            **self._told,
            "process": os.getpid(),
            "begun": self._begun,
            "running": self._command if self._run else "",
            "served": self._served,
            "idle_for": 0.0 if self._run else time.monotonic() - self._last,
            "version": lakeport.__version__,
        }

    def _offer(self) -> None:
        """Begin the next run, if there is one and its turn has come."""
        while self._door and self._run is None and self._waiting:
            channel = self._waiting.pop(0)
            files: Sequence[int] = ()
            try:
                channel.send({"turn": True})
                _, files = channel.receive(_COMMAND_SECONDS)
                self._start(channel, Command.of(files))
            except (OSError, ValueError, LookupError, TypeError):
                self._drop(channel)  # it waits no more
            finally:
                for file in files:
                    with suppress(OSError):  # the first one is closed by who has read it
                        os.close(file)

    def _start(self, channel: Channel, command: Command) -> None:
        # What is sent to the run before it is one must not be taken for a signal to this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        parent = os.getpid()
        try:
            process = os.fork()
            if not process:
                signal.set_wakeup_fd(-1)
                for other in [*self._selector.get_map().values()]:
                    os.close(other.fd)
                self._selector.close()
                self._wake.close()
                become(command, self._door, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._run, self._process, self._command = channel, process, command.shown
        self._served += 1

    def _obey(self, message: dict[str, Any]) -> None:
        """Pass on what the client was told, to the run's process; kill it with the client."""
        if not message and self._run is not None:
            self._selector.unregister(self._run)
        number = message.get("signal", signal.SIGKILL)
        if number in _OBEYED:
            with suppress(ProcessLookupError):
                os.kill(self._process, number)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._process:
                    self._dismiss(os.waitstatus_to_exitcode(found[1]))

    def _dismiss(self, code: int) -> None:
        """Tell the client how its run ended, and have a door for the next one."""
        assert self._run is not None
        with suppress(OSError):
            self._run.send({"exit": code} if code >= 0 else {"killed": -code})
        self._drop(self._run)
        self._run, self._process, self._door = None, 0, {}
        self._last = time.monotonic()
        with suppress(OSError):
            self._keeper.send({"ended": True})


def _preparation() -> Iterator[bool]:
    """Import what runs import, once, in steps: a run that comes between them need not wait."""
    ours = (each.name for each in walk_packages(lakeport.__path__, "lakeport.", lambda _: None))
    for name in chain(ours, _BESIDE):
        if not name.endswith("__main__"):
            with suppress(ImportError):  # an extra that is not installed
                import_module(name)
            yield False
    from lakeport.storage.base import preload_sdks  # not before: the session has to start quickly

    preload_sdks()
    yield False
    gc.collect()
    gc.freeze()


def _keep(server: Channel, memory: str, parent: int) -> NoReturn:
    """Keep Spark, and open a door for one run after the other, until the session ends.

    What can't be ended of a run, such as a call that hangs, ends the session.
    """
    driver: Any = None
    try:
        die_with_parent(parent)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        from lakeport.engine.spark.jvm.launch import start_jvm_ahead  # the server needs none of it

        settings = {**_SETTINGS, "spark.driver.memory": memory}
        start_jvm_ahead(settings)
        from lakeport.engine.base import SessionRequest
        from lakeport.engine.spark.jvm import jars
        from lakeport.engine.spark.jvm.calls import java_class
        from lakeport.engine.spark.session import DriverSession

        driver = DriverSession(SessionRequest(jars.with_cached_needs(()), settings))
        context: Any = driver.context
        gateway = java_class(context._jvm, "io.lakeport.warm.RunGateway")
        driver.warm()
        going_on = True
        while going_on:
            door = gateway(context._jsc.sc())
            needs = sorted(driver.needs)
            server.send({"port": door.port(), "secret": door.secret(), "needs": needs})
            going_on = _await_end(server, driver) and door.close(_CALLS_MS)
    except Exception as error:
        sys.stderr.write(f"{getattr(error, 'message', error)}\n")  # its log
    finally:
        if driver is not None:
            driver.stop()
        os._exit(1)


def _await_end(server: Channel, driver: Any) -> bool:
    """Wait for the end of a run; return whether there may be another one."""
    while driver.is_alive:
        with suppress(TimeoutError):
            return bool(server.receive(_LOOK_SECONDS)[0])
    return False


if __name__ == "__main__":
    serve()
