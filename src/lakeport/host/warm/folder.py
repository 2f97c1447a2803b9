"""Where warm sessions live on this machine: a folder each, in a folder that only its user can open.

A session holds a lock in its folder for as long as it lives, so that what a killed one left is
known for what it is.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from lakeport.host.cache import cache_folder
from lakeport.host.warm import identity
from lakeport.host.warm.identity import Unfit

_STATE: Final = "session.json"
_LOCK: Final = "lock"
_STARTING: Final = "start.lock"
_ANNOUNCED: Final = "announced.lock"
_PATIENCE_SECONDS: Final = 15.0
_LOOKED_AT_SECONDS: Final = 0.4
_AGAIN_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Session:
    """A warm session that runs.

    Attributes:
        folder: its folder.
        process: the number of its first process.
        token: what whoever uses it has to show.
        begun: when it was started, in Unix seconds.
        idle: after how many seconds without a run it ends.
        memory: the largest heap of its JVM, such as `2g`.
        version: lakeport's.
        facts: see `identity.facts`.
    """

    folder: Path
    process: int
    token: str
    begun: float
    idle: float
    memory: str
    version: str
    facts: dict[str, str]

    @property
    def runs(self) -> Path:
        """The socket at which command lines are taken."""
        return self.folder / "runs"

    @property
    def spark(self) -> Path:
        """The socket at which Spark is lent."""
        return self.folder / "spark"

    def write(self) -> None:
        """Tell of it in its folder."""
        told = asdict(self) | {"folder": str(self.folder)}
        part = self.folder / f"{_STATE}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(told, file)
        part.replace(self.folder / _STATE)

    @classmethod
    def read(cls, folder: Path) -> Session | None:
        """The session of a folder, None where none runs."""
        try:
            told: dict[str, Any] = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            found = cls(**told | {"folder": folder})
        except (OSError, ValueError, TypeError):
            return None
        return found if _locked(folder / _LOCK) else None


def parent() -> Path:
    """The folder of all sessions' folders; it need not exist."""
    return cache_folder() / "warm"


def make_parent() -> Path:
    """Make that folder if need be.

    Raises:
        OSError: it can't be made, or others have a say in it.
    """
    above = parent()
    above.mkdir(parents=True, mode=0o700, exist_ok=True)
    if not _private(above):
        raise PermissionError(f"{above} is not this user's alone")
    return above


def any_session() -> bool:
    """Whether there may be a session at all: asked first, as it takes no time."""
    try:
        with os.scandir(parent()) as entries:
            return any(entry.is_dir() for entry in entries)
    except OSError:
        return False


def fitting(*, patient: bool = False) -> Session | None:
    """The session that suits this process, if one runs.

    Args:
        patient: wait for one that somebody has begun to start.
    """
    if not any_session() and not (patient and _announced()):
        return None
    try:
        key = identity.key(identity.facts())
    except Unfit:
        return None
    look = partial(running, key)
    return _while_announced(look) if patient else look()


def announce() -> int:
    """Tell that a session is going to start; the file that tells it, until `withdraw`.

    It goes with the last process that has it open, too.

    Raises:
        OSError: it can't be told.
    """
    descriptor = os.open(make_parent() / _ANNOUNCED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def withdraw(announced: int) -> None:
    """Take back what `announce` told, as the session is there."""
    fcntl.flock(announced, fcntl.LOCK_UN)
    os.close(announced)


def await_announced() -> None:
    """Wait until no session is going to start, but not for long."""
    _while_announced(lambda: None)


def _while_announced(look: Callable[[], Session | None]) -> Session | None:
    """What a look finds, again and again while there may be more to see, but not for long."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        coming = time.monotonic() < end and _announced()
        if (found := look()) is not None or not coming:
            return found
        time.sleep(_AGAIN_SECONDS)


def _announced() -> bool:
    return _locked(parent() / _ANNOUNCED)


def running(key: str) -> Session | None:
    """The session of those that have this key, if one runs."""
    folder = parent() / key
    return Session.read(folder) if _private(folder.parent) and _private(folder) else None


def sessions() -> list[Session]:
    """All sessions of this user that run; what killed ones left is removed."""
    found = []
    with suppress(FileNotFoundError):
        for folder in sorted(parent().iterdir()):
            session = Session.read(folder)
            if session is not None:
                found.append(session)
            else:
                _remove(folder)
    return found


def clear(key: str) -> None:
    """Remove what a killed session left, before another one is started in its place.

    Once that one has its lock, what it had not written would be taken for its own.
    """
    _remove(parent() / key, _LOOKED_AT_SECONDS)


@contextmanager
def turn() -> Iterator[Callable[[], None]]:
    """Wait until nobody else is starting a session; others wait until the function is called."""
    with _held(make_parent() / _STARTING, math.inf) as descriptor:
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)  # of this process and its forks


@contextmanager
def place(key: str) -> Iterator[Path]:
    """A session's folder, made and locked while the body runs, and removed afterwards.

    Raises:
        OSError: it can't be made, or a session has it.
    """
    folder = make_parent() / key
    folder.mkdir(mode=0o700, exist_ok=True)
    with _held(folder / _LOCK, _LOOKED_AT_SECONDS):  # somebody may be looking
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path, seconds: float = 0.0) -> None:
    """Remove a folder of ours in which no session runs; `seconds` as for `_held`."""
    if _private(folder):
        with suppress(OSError), _held(folder / _LOCK, seconds):
            shutil.rmtree(folder)


def _private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and not stat.S_IMODE(found.st_mode) & 0o077


@contextmanager
def _held(lock: Path, seconds: float = 0.0) -> Iterator[int]:
    """Hold a lock while the body runs; the file that holds it is given.

    Args:
        lock: its file, made if need be.
        seconds: how long to wait for whoever holds it.

    Raises:
        BlockingIOError: somebody still does.
        OSError: the file can't be made.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise
                time.sleep(_AGAIN_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(lock: Path) -> bool:
    try:
        with _held(lock):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False
