"""A warm session: take one command line after the other, and fork a process for each.

```
client ─▶ run ······· its turn ◀─
       ─▶ arguments, environment, streams ─▶ fork, which is the run ─▶ exit code
       ─▶ signal, or its end ──────────────▶ the run's process
Spark's process ─▶ lease: the port and secret of the JVM for the next run ─▶ that run
```
The serving process has a single thread and has imported all modules; it touches neither Spark nor
data. A second process has Spark. Both end together.
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
from typing import TYPE_CHECKING, Any, Final, NoReturn

import lakeport
from lakeport.host.process import die_with_parent, forbid_core_dumps
from lakeport.host.warm import LISTENER, Channel, lock_sessions, remove_session
from lakeport.warm.child import PASSED_ON, CommandLine, run_command

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

_PRELOADED: Final = (
    "google.rpc.error_details_pb2",
    "pyspark.sql",
    "pyspark.logger.worker_io",
    "rich.console",
)
_COMMAND_SECONDS: Final = 5.0  # that a client has to send its command, when its turn has come
_END_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.5
_CALLS_MS: Final = 10_000  # that the Java calls of a run have to end after it
_PERMITTED_SIGNALS: Final = frozenset({*PASSED_ON, signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL})
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
    """Run the server of a warm session until it ends; the main function of its process."""
    settings = json.load(sys.stdin)
    os.chdir("/")  # no folder stays in use by it
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's: a process that forks should have no thread
    forbid_core_dumps()
    listener = socket.socket(fileno=LISTENER)
    os.set_inheritable(LISTENER, False)
    here, there = (Channel(end) for end in socket.socketpair(type=socket.SOCK_SEQPACKET))
    parent = os.getpid()
    spark_process = os.fork()
    if not spark_process:
        here.close()
        listener.close()
        _run_spark(there, settings["memory"], parent)
    there.close()
    WarmSession(settings, listener, here).serve()
    here.close()
    end = time.monotonic() + _END_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < end and os.waitpid(spark_process, os.WNOHANG)[0] == 0:
            time.sleep(0.02)


class WarmSession:
    """Server that keeps Spark running and runs clients' commands one by one, until it is idle.

    Args:
        settings: the path of its socket, what its clients have to share with it, its limits.
        spark: channel to the process that has Spark.
    """

    def __init__(self, settings: dict[str, Any], listener: socket.socket, spark: Channel) -> None:
        self._settings = settings
        self._listener = listener
        self._spark = spark
        self._lease: dict[str, Any] = {}  # of the next run; empty until there is one
        self._waiting: list[Channel] = []
        self._run: Channel | None = None
        self._process = 0
        self._command = ""
        self._served = 0
        self._ending = False
        self._begun = time.time()
        self._last = time.monotonic()
        self._preparing = _preload_modules()
        self._prepared = False
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()

    def serve(self) -> None:
        """Run clients' commands until the session ends. Forked children never return from here."""
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._watch(self._listener, self._accept_client)
        self._watch(self._woken, self._collect_runs)
        self._watch(self._spark, self._take_lease)
        while not self._ending or self._run is not None:
            ready = self._selector.select(self._seconds_to_wait())
            for event, _ in ready:
                event.data()
            if not ready and not self._prepared:
                self._prepared = next(self._preparing, True)
            elif self._prepared and self._seconds_to_wait() == 0:
                self._end()

    def _on_signal(self, number: int, frame: object) -> None:
        """End the session for any signal but SIGCHLD; `serve` collects ended children."""
        if number != signal.SIGCHLD:
            self._end()

    def _seconds_to_wait(self) -> float | None:
        """Return how many seconds to wait for an event; None for no limit."""
        if self._run is not None:
            return None
        if not self._prepared:
            return 0
        if self._waiting:
            return None
        return max(0.0, self._last + float(self._settings["idle"]) - time.monotonic())

    def _watch(self, file: Any, answer: Callable[[], object]) -> None:
        """Call `answer` whenever a file can be read."""
        self._selector.register(file, selectors.EVENT_READ, answer)

    def _end(self) -> None:
        """End the session: remove its socket and drop waiting clients. The current run goes on."""
        if not self._ending:
            self._ending = True
            with lock_sessions():
                remove_session(Path(self._settings["place"]))
            self._selector.unregister(self._listener)
            self._listener.close()
            while self._waiting:
                self._close_channel(self._waiting.pop())

    def _take_lease(self) -> None:
        """Receive access to Spark for the next run; end the session if Spark has ended."""
        self._lease, _ = self._spark.receive()
        if self._lease:
            self._begin_next_run()
        else:
            self._selector.unregister(self._spark)
            self._end()  # a run that has lost Spark says so itself

    def _accept_client(self) -> None:
        """Accept a client's connection and register it for reading."""
        with suppress(OSError):  # it listens no more
            channel = Channel(self._listener.accept()[0])
            self._watch(channel, lambda: self._answer_client(channel))

    def _close_channel(self, channel: Channel) -> None:
        """Unregister a client's connection and close it."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(channel)
        channel.close()

    def _answer_client(self, channel: Channel) -> None:
        """Handle a client's message: a signal for its run, or `run`, `stop` or `status`."""
        try:
            message, files = channel.receive()
            for file in files:
                os.close(file)
            if channel is self._run:
                self._forward_signal(message)
            elif message.get("do") == "run":
                self._waiting.append(channel)
                self._begin_next_run()
                if channel in self._waiting:
                    channel.send({"wait": "for the run" if self._run else "for Spark"})
            else:
                if message.get("do") == "stop":
                    self._end()
                channel.send(self._status() if message else {})
                self._drop_client(channel)
        except (OSError, ValueError, AttributeError):  # gone, or none of ours
            self._drop_client(channel)

    def _drop_client(self, channel: Channel) -> None:
        """Close a client's connection and remove it from the queue."""
        if channel in self._waiting:
            self._waiting.remove(channel)
        self._close_channel(channel)

    def _status(self) -> dict[str, Any]:
        """Return the session's facts for `lakeport warm status`."""
        return {
            **self._settings,
            "process": os.getpid(),
            "begun": self._begun,
            "running": self._command if self._run else "",
            "served": self._served,
            "idle_for": 0.0 if self._run else time.monotonic() - self._last,
            "version": lakeport.__version__,
        }

    def _begin_next_run(self) -> None:
        """Start the next client's run if Spark is free; skip clients that have left."""
        while self._lease and self._run is None and self._waiting:
            channel = self._waiting.pop(0)
            files: Sequence[int] = ()
            try:
                channel.send({"turn": True})
                _, files = channel.receive(_COMMAND_SECONDS)
                self._fork_run(channel, CommandLine.deserialise(files))
            except (OSError, ValueError, LookupError, TypeError):
                self._close_channel(channel)  # it waits no more
            finally:
                for file in files:
                    with suppress(OSError):  # `deserialise` has closed the first one
                        os.close(file)

    def _fork_run(self, channel: Channel, command: CommandLine) -> None:
        """Fork a process that runs a client's command, and record it as the current run."""
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
                run_command(command, self._lease, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._run, self._process, self._command = channel, process, command.title
        self._served += 1

    def _forward_signal(self, message: dict[str, Any]) -> None:
        """Send a client's signal to its run; SIGKILL if the client has disconnected."""
        if not message and self._run is not None:
            self._selector.unregister(self._run)
        number = message.get("signal", signal.SIGKILL)
        if number in _PERMITTED_SIGNALS:
            with suppress(ProcessLookupError):
                os.kill(self._process, number)

    def _collect_runs(self) -> None:
        """Reap child processes that have ended, and finish the run if it is among them."""
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._process:
                    self._finish_run(os.waitstatus_to_exitcode(found[1]))

    def _finish_run(self, code: int) -> None:
        """Send the client its run's exit code or signal, and request Spark for the next run."""
        assert self._run is not None
        with suppress(OSError):
            self._run.send({"exit": code} if code >= 0 else {"killed": -code})
        self._close_channel(self._run)
        self._run, self._process, self._lease = None, 0, {}
        self._last = time.monotonic()
        with suppress(OSError):
            self._spark.send({"ended": True})


def _preload_modules() -> Iterator[bool]:
    """Import lakeport's modules and the SDKs, one per yield, so that a run can start between."""
    ours = (each.name for each in walk_packages(lakeport.__path__, "lakeport.", lambda _: None))
    for name in chain(ours, _PRELOADED):
        if not name.endswith("__main__"):
            with suppress(ImportError):  # an extra that is not installed
                import_module(name)
            yield False
    from lakeport.storage.base import preload_sdks  # not before: the session has to start quickly

    preload_sdks()
    yield False
    gc.collect()
    gc.freeze()


def _run_spark(server: Channel, memory: str, parent_id: int) -> NoReturn:
    """Start Spark in this process; send the server access to it for each run, then exit.

    A run that leaves something behind, such as a call that hangs, ends the session.
    """
    driver: DriverSession | None = None
    try:
        die_with_parent(parent_id)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        from lakeport.engine.spark.jvm.launch import start_jvm_ahead  # the server needs none of it

        settings = {**_SETTINGS, "spark.driver.memory": memory}
        start_jvm_ahead(settings)
        from lakeport.engine.base import SessionRequest
        from lakeport.engine.spark.jobs import start_python_workers
        from lakeport.engine.spark.jvm import jars
        from lakeport.engine.spark.jvm.calls import java_class
        from lakeport.engine.spark.session import DriverSession

        driver = DriverSession(SessionRequest(jars.with_cached_needs(()), settings))
        context: Any = driver.context
        open_gateway = java_class(context._jvm, "io.lakeport.warm.RunGateway")
        driver.warm_up_workers(start_python_workers)
        going_on = True
        while going_on:
            gateway = open_gateway(context._jsc.sc())
            needs = sorted(driver.needs)
            server.send({"port": gateway.port(), "secret": gateway.secret(), "needs": needs})
            going_on = _await_run_end(server, driver) and gateway.close(_CALLS_MS)
    except Exception as error:
        sys.stderr.write(f"{getattr(error, 'message', error)}\n")  # its log
    finally:
        if driver is not None:
            driver.stop()
        os._exit(1)


def _await_run_end(server: Channel, driver: DriverSession) -> bool:
    """Wait until the server reports a run's end; False if Spark or the server has ended."""
    while driver.is_alive:
        with suppress(TimeoutError):
            return bool(server.receive(_LOOK_SECONDS)[0])
    return False


if __name__ == "__main__":
    serve()
