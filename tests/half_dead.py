"""A store that is there and of no use: it answers 503 to everything, or a few bytes a second.

One that is `well` has the same four bytes under every key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Way = Literal["busy", "silent", "slow body", "slow headers", "well"]
BODY = b"here"
_LENGTH = 1_000_000


class HalfDead(ThreadingHTTPServer):
    """The server.

    Attributes:
        way: how it answers.
        asked: set once `enough` requests have come.
        closed: set when it is to let go of all.
    """

    daemon_threads = True

    def __init__(self, way: Way, enough: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.way = way
        self.asked, self.closed = threading.Event(), threading.Event()
        self._enough, self._count = enough, 0

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def count(self) -> None:
        """Note a request."""
        self._count += 1
        if self._count >= self._enough:
            self.asked.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HalfDead

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.count()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        with suppress(OSError):
            if self.server.way == "busy":
                self._busy()
            elif self.server.way == "silent":
                self.server.closed.wait()
            elif self.server.way == "well":
                self._found(len(BODY))
                self.wfile.write(BODY)
            else:
                self._slowly()

    do_DELETE = do_HEAD = do_POST = do_PUT = do_GET

    def _busy(self) -> None:
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _found(self, size: int) -> None:
        part = "Range" in self.headers or "x-ms-range" in self.headers
        self.send_response(206 if part else 200)
        self.send_header("Content-Range", f"bytes 0-{size - 1}/{size}")
        self.send_header("ETag", '"1"')
        for name in ("X-Goog-Generation", "x-ms-request-id"):
            self.send_header(name, "1")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.flush()

    def _slowly(self) -> None:
        if self.server.way == "slow body":
            self._found(_LENGTH)
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.server.closed.wait(0.05):
            self.wfile.write(b"a")


@contextmanager
def half_dead(way: Way, enough: int = 1) -> Iterator[HalfDead]:
    """The server, while the body runs.

    Args:
        way: how it answers.
        enough: how many requests set `asked`.
    """
    server = HalfDead(way, enough)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()
