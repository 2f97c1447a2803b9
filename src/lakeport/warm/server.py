"""The first process of a warm session: it takes up command lines, and forks a process for each.

```
client ─▶ run: arguments, environment, streams ─▶ fork, which is the run ─▶ exit code
       ─▶ signal, or its end ──────────────────▶ the run's process
```
It has a single thread and all modules imported, and touches neither Spark nor any data: what a run
does can't reach another one here.
"""

from __future__ import annotations

import gc
import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from typing import Any, Final, NoReturn

import lakeport
from lakeport.host.process import is_there
from lakeport.host.warm.channel import PASSED_ON, Channel, listen
from lakeport.host.warm.folder import Session
from lakeport.warm.child import Command, become

_BESIDE: Final = ("google.rpc.error_details_pb2", "py4j.clientserver", "rich.console")
_LEISURE_SECONDS: Final = 0.3  # without a wish, after which there is time to prepare
_MESSAGE_SECONDS: Final = 5.0  # for the rest of one that has begun
_OBEYED: Final = frozenset({*PASSED_ON, signal.SIGSTOP, signal.SIGCONT})


@dataclass(eq=False)
class _Run:
    """A run under way."""

    channel: Channel
    process: int
    words: str
    begun: float = field(default_factory=time.time)


class Server:
    """Serves until nobody has needed the session for a while, or it is asked to end.

    Args:
        session: what it is.
        keeper: the number of the process that keeps Spark.
        leases: tells how many runs have Spark: each byte `+` or `-` is one more or less.
        starter: number of the process that is to have the cores to itself; 0 for none.
    """

    def __init__(
        self, session: Session, keeper: int, leases: socket.socket, starter: int = 0
    ) -> None:
        self._session = session
        self._keeper = keeper
        self._leases = leases
        self._starter = starter
        self._lent = 0
        self._runs: dict[int, _Run] = {}
        self._served = 0
        self._ending = False
        self._preparing = _preparation()
        self._leisure = _LEISURE_SECONDS
        self._last = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._listener = listen(session.runs)
        self._wake, self._woken = socket.socketpair()

    def serve(self) -> None:
        """Take up runs. Returns in this process; forks end with their run."""
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)
        self._leases.setblocking(False)
        for watched, answer in (
            (self._listener, self._greet),
            (self._woken, self._reap),
            (self._leases, self._count),
        ):
            self._selector.register(watched, selectors.EVENT_READ, answer)
        while not self._ending or self._runs or self._lent:
            leisure = math.inf if self._runs else self._leisure
            ready = self._selector.select(min(self._patience(), leisure))
            for event, _ in ready:
                event.data()
            if self._patience() == 0:
                self._end()
            elif not ready:
                self._prepare()
        with suppress(OSError):
            self._session.runs.unlink()

    def _patience(self) -> float:
        """Seconds until the session has been idle for long enough."""
        if self._runs or self._lent:
            self._last = time.monotonic()
        return max(0.0, self._last + self._session.idle - time.monotonic())

    def _prepare(self) -> None:
        """Go on to prepare for the runs that are forked from here on, while nobody is waiting."""
        if self._runs or is_there(self._starter):
            return
        done = next(self._preparing, True)
        self._leisure = math.inf if done else 0.0

    def _hear(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            self._end()

    def _end(self) -> None:
        """Take up no more runs; those under way go on."""
        if not self._ending:
            self._ending = True
            self._selector.unregister(self._listener)
            self._listener.close()
            with suppress(OSError):
                self._session.runs.unlink()

    def _count(self) -> None:
        with suppress(BlockingIOError):
            told = self._leases.recv(4096)
            if not told:  # the keeper has ended
                self._selector.unregister(self._leases)
                self._lent = 0
            self._lent += told.count(b"+") - told.count(b"-")
            self._served += told.count(b"+")
            self._last = time.monotonic()

    def _greet(self) -> None:
        """Wait for what somebody who has just connected wants."""
        channel = Channel(self._listener.accept()[0])
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._listen_to(channel))

    def _listen_to(self, channel: Channel) -> None:
        self._selector.unregister(channel)
        files: list[int] = []
        try:
            message, files = channel.greeting(self._session.token)
            if message is not None:
                self._answer(channel, message, files)
                return
        except (OSError, ValueError, LookupError, TypeError):
            pass  # none of ours
        finally:
            for file in files:
                os.close(file)
        channel.close()

    def _answer(self, channel: Channel, message: dict[str, Any], files: list[int]) -> None:
        if message["do"] == "run":
            self._start(channel, Command.of(message, files))
            return
        if message["do"] == "stop":
            self._end()
        with suppress(OSError):
            channel.send(self._status())
        channel.close()

    def _status(self) -> dict[str, Any]:
        return {
            "runs": [
                {"process": run.process, "command": run.words, "begun": run.begun}
                for run in self._runs.values()
            ],
            "lent": self._lent,
            "served": self._served,
            "idle_for": time.monotonic() - self._last,
        }

    def _start(self, channel: Channel, command: Command) -> None:
        self._last = time.monotonic()
        # What is sent to the run before it is one must not be taken for a signal to this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OBEYED)
        process = os.fork()
        if not process:
            self._become(channel, command)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        run = _Run(channel, process, command.shown)
        self._runs[process] = run
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._obey(run))

    def _become(self, channel: Channel, command: Command) -> NoReturn:
        """Be the run, in the process that was forked for it."""
        signal.set_wakeup_fd(-1)
        for other in [*self._selector.get_map().values()]:
            os.close(other.fd)
        self._selector.close()
        self._wake.close()
        become(command, channel, os.getppid())

    def _obey(self, run: _Run) -> None:
        """Pass on what the client was told, to the run's process; kill it with the client."""
        message = None
        with suppress(OSError, ValueError):
            message, files = run.channel.receive(_MESSAGE_SECONDS)
            for file in files:
                os.close(file)
        number = message.get("signal") if isinstance(message, dict) else signal.SIGKILL
        if message is None:
            self._selector.unregister(run.channel)
        if number in _OBEYED or number == signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.kill(run.process, number)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            if process == self._keeper:
                self._end()  # runs that have lost Spark say so themselves
            elif process in self._runs:
                self._dismiss(self._runs.pop(process), os.waitstatus_to_exitcode(status))

    def _dismiss(self, run: _Run, code: int) -> None:
        self._last = time.monotonic()
        with suppress(KeyError, ValueError):
            self._selector.unregister(run.channel)
        with suppress(OSError):
            run.channel.send({"exit": code} if code >= 0 else {"killed": -code})
        run.channel.close()


def _preparation() -> Iterator[None]:
    """Import what runs import, once, in steps: a run that comes between them need not wait."""
    ours = (each.name for each in walk_packages(lakeport.__path__, "lakeport.", _pass_over))
    for name in chain(ours, _BESIDE):
        if not name.endswith("__main__"):
            with suppress(ImportError):  # an extra that is not installed
                import_module(name)
            yield
    from lakeport.storage.sdks import preload  # not before: the session has to start quickly

    preload()
    yield
    gc.collect()
    gc.freeze()


def _pass_over(name: str) -> None:
    """A package that can't be imported, as an extra is absent: runs that need it say so."""
