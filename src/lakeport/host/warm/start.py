"""A warm session is begun, in a process that outlives this one: waited for, or beside its work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from lakeport.errors import ConfigError
from lakeport.host.warm import folder, identity
from lakeport.host.warm.folder import Session
from lakeport.host.warm.identity import Unfit

IDLE_SECONDS: Final = 15 * 60.0
MEMORY: Final = "2g"
_START_SECONDS: Final = 30.0  # until it takes runs up; its Spark may still be starting then
_LOOK_SECONDS: Final = 0.01
ANNOUNCED: Final = 3
"""The descriptor of what `folder.announce` gave, in the process that becomes a session."""
_SAID: Final = 1 << 20  # bytes
_WAITS: Final = (
    # Waits while standard input is open, though not for ever: a load of so long does not notice
    # half a second of another core. What it imports comes after that.
    "import select, sys; select.select([0], [], [], 10); "
    "from lakeport.warm.session import serve; _, idle, memory, starter = sys.argv[1:]; "
    "sys.exit(serve(float(idle), memory, int(starter)))"
)
"""What the process runs; its first argument is for those who look at processes."""


class NotStarted(ConfigError):
    """A session can't be started."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a warm session can't be started: {reason}",
            "without `--warm` the command starts its own Spark.",
        )


@contextmanager
def _told() -> Iterator[None]:
    """Say why there can be no session."""
    try:
        yield
    except Unfit as error:
        raise NotStarted(str(error)) from None
    except OSError as error:
        raise NotStarted(f"{folder.parent()}: {error.strerror or error}") from None


def begin(idle: float = IDLE_SECONDS, memory: str = MEMORY) -> Session:
    """The session that suits this process: the one that runs, else a new one.

    Args:
        idle: after how many seconds without a run a new one ends.
        memory: the largest heap of a new one's JVM.

    Raises:
        NotStarted: there can be none.
    """
    return _launch(idle, memory).session()


@dataclass
class Beginning:
    """A process that is to become a session.

    Attributes:
        process: its number.
        waits: the pipe at whose end it waits; -1 where it waits no longer.
        output: the file that it writes to until it is one.
    """

    process: int
    waits: int
    output: int
    _words: str = ""

    def wake(self) -> None:
        """Have it become a session now, and not when this process ends."""
        if self.waits >= 0:
            os.close(self.waits)
            self.waits = -1

    def failure(self) -> str:
        """Its last words, if it has ended, and not because somebody else was quicker."""
        with suppress(ChildProcessError):  # asked before
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process and status:
                said = os.pread(self.output, _SAID, 0).decode(errors="replace").split("\n")
                words = [line for line in said if line.strip()]
                self._words = words[-1] if words else "it ended at its start, and said nothing"
        return self._words

    @_told()
    def session(self) -> Session:
        """Wake it, and wait for the session, be it somebody else's who was quicker.

        Raises:
            NotStarted: it does not come up.
        """
        key = identity.key(identity.facts())
        self.wake()
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if (session := folder.running(key)) is not None:
                return session
            if words := self.failure():
                raise NotStarted(words)
            time.sleep(_LOOK_SECONDS)
        raise NotStarted(f"it takes longer than {_START_SECONDS:g} seconds")


_beside: Beginning | None = None


def begin_beside() -> None:
    """Begin to start a session that leaves the machine's cores to this process.

    It waits until this process needs Spark (`beside`) or has ended, but not for ever.

    Raises:
        NotStarted: there can be none, as far as can be told at once.
    """
    global _beside
    _beside = _launch(IDLE_SECONDS, MEMORY, os.getpid())


def beside() -> Beginning | None:
    """The session that this process has begun to start, if it has."""
    return _beside


def settle() -> str:
    """Leave the session that this process has begun to itself; why there is none, if so."""
    if _beside is None:
        return ""
    _beside.wake()
    return _beside.failure()


@_told()
def _launch(idle: float, memory: str, starter: int = 0) -> Beginning:
    """Start the process; where there is a starter, it waits for that one."""
    environment = identity.environment()
    announced = folder.announce()
    output = os.memfd_create("lakeport-warm")
    waited, waits = os.pipe()
    streams = ((output, 1), (output, 2), (waited, 0), (announced, ANNOUNCED))
    try:
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-c", _WAITS, "lakeport.warm", str(idle), memory, str(starter)],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in streams],
            setsid=True,
        )
    finally:
        os.close(waited)
        os.close(announced)
    return Beginning(process, waits, output)
