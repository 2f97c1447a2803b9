"""A warm session is begun, in a process that outlives this one: waited for, or beside its work."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from tempfile import TemporaryFile
from typing import Final

from lakeport.errors import ConfigError
from lakeport.host.warm import folder, identity
from lakeport.host.warm.folder import Session
from lakeport.host.warm.identity import Unfit

__all__ = ["IDLE_SECONDS", "MEMORY", "NotStarted", "begin", "begin_beside", "begun"]

IDLE_SECONDS: Final = 15 * 60.0
MEMORY: Final = "2g"
_START_SECONDS: Final = 30.0  # until it takes runs up; its Spark may still be starting then
_LOOK_SECONDS: Final = 0.01


class NotStarted(ConfigError):
    """A session can't be started."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a warm session can't be started: {reason}",
            "without `--warm`, the command does alone.",
        )


def begin(idle: float = IDLE_SECONDS, memory: str = MEMORY) -> Session:
    """The session that suits this process: the one that runs, else a new one.

    Args:
        idle: after how many seconds without a run a new one ends.
        memory: the largest heap of a new one's JVM.

    Raises:
        NotStarted: there can be none.
    """
    return _begin(*_wanted(), [str(idle), memory, "0"])


class _Beside(threading.Thread):
    """Begins to start a session, and waits for it, while this process does something else."""

    def __init__(self, key: str, environment: dict[str, str]) -> None:
        super().__init__(name="lakeport-warm-start", daemon=True)
        self._wanted = key, environment
        self._session: Session | None = None
        self._problem: NotStarted | None = None

    def run(self) -> None:
        """Body of the thread."""
        try:
            self._session = _begin(*self._wanted, [str(IDLE_SECONDS), MEMORY, str(os.getpid())])
        except NotStarted as problem:
            self._problem = problem

    def session(self) -> Session | None:
        """What came of it; waits for that."""
        self.join()
        if self._problem is not None:
            raise self._problem
        return self._session


_beside: _Beside | None = None


def begin_beside() -> None:
    """Begin to start a session beside what this process does, which `begun` waits for.

    It leaves the machine's cores to this process: its Spark starts when it is asked for, or when
    this process has ended.

    Raises:
        NotStarted: there can be none, as far as can be told at once.
    """
    global _beside
    _beside = _Beside(*_wanted())
    _beside.start()


def begun() -> Session | None:
    """The session that this process has begun to start beside its work, once it runs.

    Raises:
        NotStarted: it does not.
    """
    return None if _beside is None else _beside.session()


def _wanted() -> tuple[str, dict[str, str]]:
    """The key of the session that suits this process, and the environment that it gets."""
    try:
        return identity.key(identity.facts()), identity.environment()
    except (OSError, Unfit) as error:
        raise NotStarted(str(error)) from None


def _begin(key: str, environment: dict[str, str], further: list[str]) -> Session:
    try:
        above = folder.parent()
        above.mkdir(parents=True, mode=0o700, exist_ok=True)
        with folder.held(above / "start.lock", math.inf):  # only one process starts one at a time
            found = folder.running(key)
            if found is None:
                folder.clear(key)
                found = _launch([key, *further], environment)
            return found
    except OSError as error:
        raise NotStarted(f"{folder.parent()}: {error.strerror or error}") from None


def _launch(arguments: list[str], environment: dict[str, str]) -> Session:
    with TemporaryFile() as output:
        null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        both = [(os.POSIX_SPAWN_DUP2, output.fileno(), stream) for stream in (1, 2)]
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "lakeport.warm", *arguments],
            environment,
            file_actions=[null, *both],
            setsid=True,
        )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            session = folder.running(arguments[0])
            if session is not None:
                return session
            if os.waitpid(process, os.WNOHANG)[0]:
                break
            time.sleep(_LOOK_SECONDS)
        output.seek(0)
        words = output.read().decode(errors="replace").strip().splitlines()
    raise NotStarted(words[-1] if words else "it ended at its start, and said nothing")
