"""A way to a server that can be cut, or go silent, once so much has come by it."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

_CHUNK = 1 << 14
_ABORT = struct.pack("ii", 1, 0)  # a close that resets the connection


class Wire:
    """Passes connections on to a port of this machine; a context manager.

    Args:
        to: the port.
        most: bytes of the server's that each connection gets, and no more.
        silent: whether it stays open then, with nothing coming any more; else it is reset.

    Attributes:
        port: where it listens.
        broken: set once a connection has had its most.
    """

    def __init__(self, to: int, most: int, *, silent: bool = False) -> None:
        self._to, self._most, self._silent = to, most, silent
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._server.getsockname()[1]
        self.broken = threading.Event()

    def mend(self) -> None:
        """Let all that comes from now on pass."""
        self._most = 1 << 60

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open += [client, server]
                for ends in ((client, server, None), (server, client, self._most)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, most: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                passed += len(data)
                if most is not None and passed > most:
                    self.broken.set()
                    if not self._silent:
                        self._reset(source, sink)
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _reset(self, *ends: socket.socket) -> None:
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)
            end.close()

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for end in self._open:
            end.close()
