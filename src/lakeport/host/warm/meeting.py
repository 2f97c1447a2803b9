"""Where processes of a user meet warm sessions: sockets in a folder that only this user can open.

A session's socket has the name of what its clients have in common with it (`identity.key`). The
process that starts a session listens for it, so that whoever comes can connect at once, and waits
for an answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from lakeport.errors import ConfigError
from lakeport.host.scratch import cache_folder
from lakeport.host.warm import identity
from lakeport.host.warm.identity import Unfit

IDLE_SECONDS: Final = 15 * 60.0
MEMORY: Final = "2g"
LISTENER: Final = 3
"""The descriptor of a session's socket, in the process that is to be the session."""
PROGRAM: Final = "lakeport.warm.session"
_LOCK: Final = "lock"
_LOG: Final = ".log"
_LONGEST: Final = 1 << 18  # bytes of a message
_FILES: Final = 16  # descriptors that come with a message at most
_WAITING: Final = 128  # connections that nobody has taken up yet


class NotStarted(ConfigError):
    """A session can't be started."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a warm session can't be started: {reason}",
            "without `--warm` the command starts its own Spark.",
        )


class Channel:
    """One connection. Messages are objects that JSON can hold.

    Args:
        connection: a socket that keeps messages apart; closed by `close`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, object], files: Sequence[int] = ()) -> None:
        """Send a message, and open files with it.

        Raises:
            OSError: the other end has gone.
        """
        socket.send_fds(self._socket, [json.dumps(message).encode()], files)

    def receive(self, timeout: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """Return the next message and the files that came with it, which are the caller's to close.

        Args:
            timeout: seconds.

        Returns:
            An empty message where the other end has gone.

        Raises:
            TimeoutError: no message came in time.
        """
        self._socket.settimeout(timeout)
        try:
            text, files, _, _ = socket.recv_fds(self._socket, _LONGEST, _FILES)
            return (json.loads(text) if text else {}), files
        except ConnectionError:
            return {}, []
        finally:
            self._socket.settimeout(None)

    def close(self) -> None:
        """Close this end in this process; others that were forked may have it, too."""
        self._socket.close()


def find() -> Channel | None:
    """Connect to the session that suits this process; None if none runs."""
    with suppress(OSError, Unfit):
        if any(_sockets()):  # which takes no time, as what follows does
            return _connect(_folder() / identity.key(identity.facts()))
    return None


def begin(idle: float = IDLE_SECONDS, memory: str = MEMORY) -> Channel:
    """Connect to the session that suits this process, and start it if none runs.

    Args:
        idle: after how many seconds without a run a new one ends.
        memory: the largest heap of a new one's JVM.

    Raises:
        NotStarted: there can be none.
    """
    try:
        told = {"idle": idle, "memory": memory, "facts": identity.facts()}
        place = _folder() / identity.key(identity.facts())
        place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        _check_private()
        with locked():
            with suppress(OSError):
                return _connect(place)
            place.unlink(missing_ok=True)
            with _listen(place) as listener:
                _launch(listener, place.with_suffix(_LOG), {"place": str(place), **told})
        return _connect(place)
    except Unfit as error:
        raise NotStarted(str(error)) from None
    except OSError as error:
        raise NotStarted(f"{_folder()}: {error.strerror or error}") from None


def failure() -> NotStarted:
    """The error for a session that ended before it answered, with its last words."""
    words = ""
    with suppress(OSError):
        log = (_folder() / identity.key(identity.facts())).with_suffix(_LOG)
        words = log.read_text(errors="replace").strip().rpartition("\n")[2]
    return NotStarted(words or "it ended")


def sessions() -> list[Channel]:
    """Connect to all sessions of this user; what killed ones left is removed."""
    found = []
    with suppress(OSError):
        for place in sorted(_sockets()):
            with locked():
                try:
                    found.append(_connect(place))
                except ConnectionRefusedError:
                    remove(place)
    return found


def remove(place: Path) -> None:
    """Remove a session's socket, and its log unless that says why there is none any more.

    Nobody may be starting one meanwhile (`locked`).
    """
    place.unlink(missing_ok=True)
    log = place.with_suffix(_LOG)
    if log.exists() and not log.stat().st_size:
        log.unlink()


@contextmanager
def locked() -> Iterator[None]:
    """Have nobody else start or end a session while the body runs."""
    lock = os.open(_folder() / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _launch(listener: socket.socket, log: Path, told: Mapping[str, object]) -> None:
    """Start the process that is to be a session; it outlives this one."""
    given = os.memfd_create("lakeport-warm")
    os.write(given, json.dumps(told).encode())
    os.lseek(given, 0, os.SEEK_SET)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    streams = ((given, 0), (output, 1), (output, 2), (listener.fileno(), LISTENER))
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", PROGRAM],
            identity.environment(),
            file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in streams],
            setsid=True,
        )
    finally:
        os.close(given)
        os.close(output)


def _folder() -> Path:
    return cache_folder() / "warm"


def _sockets() -> Iterator[Path]:
    """The sessions' sockets; none where the folder is not this user's alone."""
    _check_private()
    return (file for file in _folder().iterdir() if not file.suffix and file.name != _LOCK)


def _check_private() -> None:
    """Raise OSError unless the folder is there, and nobody else has a say in it."""
    found = _folder().lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{_folder()} is not this user's alone")


def _connect(place: Path) -> Channel:
    connection = _socket()
    try:
        with _short(place) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return Channel(connection)


def _listen(place: Path) -> socket.socket:
    listener = _socket()
    with _short(place) as short:
        listener.bind(short)
    listener.listen(_WAITING)
    return listener


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


@contextmanager
def _short(place: Path) -> Iterator[str]:
    """A name for a path that is short enough for a socket's address, whatever the folder's is."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
