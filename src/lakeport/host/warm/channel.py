"""How a process talks to a warm session: JSON messages over a socket of the same user's."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
"""Signals to a client that are its run's."""

_LENGTH: Final = struct.Struct(">I")
_PEER: Final = struct.Struct("3i")  # of SO_PEERCRED: process, user, group
_LONGEST: Final = 64 << 20  # bytes of a message
_FILES: Final = 16  # descriptors that come with a message at most
_GREETING_SECONDS: Final = 5.0
_WAITING: Final = 128  # connections that nobody has taken up yet


class Channel:
    """One connection. Messages are objects that JSON can hold.

    Args:
        connection: a stream socket; closed by `close`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._socket.fileno()

    @property
    def peer(self) -> tuple[int, int]:
        """The process at the other end, and its user."""
        told = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        process, user, _ = _PEER.unpack(told)
        return process, user

    def send(self, message: object, files: Sequence[int] = ()) -> None:
        """Send a message, and open files with it.

        Raises:
            OSError: the other end has gone.
        """
        text = json.dumps(message).encode()
        head = _LENGTH.pack(len(text))
        if files:
            packed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
            self._socket.sendmsg([head], packed)
        else:
            self._socket.sendall(head)
        self._socket.sendall(text)

    def receive(self, timeout: float | None = None) -> tuple[Any, list[int]]:
        """The next message and the files that came with it, which are the caller's to close.

        Args:
            timeout: seconds.

        Returns:
            None for the message where the other end has gone.

        Raises:
            TimeoutError: no message came in time.
        """
        self._socket.settimeout(timeout)
        try:
            head, files, _, _ = socket.recv_fds(self._socket, _LENGTH.size, _FILES)
            size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
            text = self._exactly(size) if 0 < size <= _LONGEST else b""
        except ConnectionError:
            return None, []
        finally:
            self._socket.settimeout(None)
        return (json.loads(text) if text else None), files

    def greeting(self, token: str) -> tuple[dict[str, Any] | None, list[int]]:
        """The first message of somebody who has just connected, as `receive` gives it.

        Args:
            token: what it has to hold.

        Returns:
            None for the message of another user's process, or of one that does not know the token.

        Raises:
            TimeoutError: no message came in time.
            ValueError: it is no JSON.
        """
        if self.peer[1] != os.getuid():
            return None, []
        message, files = self.receive(_GREETING_SECONDS)
        known = isinstance(message, dict) and message.get("token") == token
        return (message if known else None), files

    @property
    def ended(self) -> bool:
        """Whether the other end has gone, where no message is waited for."""
        if self._socket.fileno() < 0:
            return True
        try:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            return not self._socket.recv(1, flags)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close this end in this process; others that were forked may have it, too."""
        self._socket.close()

    def hang_up(self) -> None:
        """End the connection, also for a thread that waits for a message."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = self._socket.recv(min(size - len(found), 1 << 20))
            if not part:
                return b""
            found += part
        return bytes(found)


def connect(path: Path) -> Channel:
    """Reach the process that listens at a path.

    Raises:
        OSError: nobody does, or it is another user.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with _Short(path) as short:
            connection.connect(short)
        channel = Channel(connection)
        if channel.peer[1] != os.getuid():
            raise PermissionError(f"{path} is another user's")
    except BaseException:
        connection.close()
        raise
    return channel


def listen(path: Path) -> socket.socket:
    """A socket that listens at a path, for this user only.

    Raises:
        OSError: it can't be made there.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with _Short(path) as short:
        listener.bind(short)
    path.chmod(0o600)
    listener.listen(_WAITING)
    return listener


class _Short:
    """A name for a path that is short enough for a socket's address, whatever the folder's is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = -1

    def __enter__(self) -> str:
        self._folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)
