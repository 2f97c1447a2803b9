"""An HTTP proxy in front of a store: it records requests, and has them fail the way it is told.

It speaks HTTP/1.1 with plain sockets (keep-alive, chunked bodies both ways, `100 Continue`) and
knows no SDK. `Host` goes on unchanged, as S3's signatures cover it.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from tests.faults.requests.faults import Fault, refusal
from tests.faults.requests.naming import Namer

if TYPE_CHECKING:
    from tests.faults.requests.sites import Place

_BLOCK = 1 << 16
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"}


@dataclass(frozen=True, order=True)
class Point:
    """One request of a load: its name, and its number among those of that name, from 1."""

    name: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.name}#{self.ordinal}"


@dataclass
class _Script:
    """What happens to the requests of one load.

    Attributes:
        namer: names requests.
        at: the request that fails.
        fault: how.
        seen: every request so far, in order.
        hit: whether the request came.
    """

    namer: Namer
    at: Point | None = None
    fault: Fault | None = None
    seen: list[Point] = field(default_factory=list)
    hit: bool = False
    _counts: Counter[str] = field(default_factory=Counter)
    _left: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_of(self, method: str, target: str, headers: Mapping[str, str]) -> Fault | None:
        """Note a request; return how it fails."""
        name = self.namer(method, target, headers)
        with self._lock:
            self._counts[name] += 1
            point = Point(name, self._counts[name])
            self.seen.append(point)
            if self.fault is None:
                return None
            if point == self.at:
                self.hit, self._left = True, self.fault.times
            elif not (self.hit and (self.fault.everywhere or name == self.at.name)):  # type: ignore[union-attr]
                return None
            if not self._left:
                return None
            self._left -= 1
            return self.fault


class FaultProxy:
    """Stands between a store's clients and the store; a context manager.

    Args:
        upstream: the store's address, such as `http://127.0.0.1:9000`.
        dialect: `s3`, `azure` or `gcs`: how the store words its refusals.
    """

    def __init__(self, upstream: str, dialect: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.dialect = dialect
        self._script: _Script | None = None
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.netloc = f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def endpoint(self) -> str:
        """Where clients find it."""
        return f"http://{self.netloc}"

    @contextmanager
    def script(
        self, place: Place, at: Point | None = None, fault: Fault | None = None
    ) -> Iterator[_Script]:
        """Record, and have one request fail, within the block; outside of it all pass.

        Args:
            place: where the load goes, which names its requests.
            at: which fails; None for none.
            fault: how it fails.
        """
        self._script = script = _Script(place.namer, at, fault)
        try:
            yield script
        finally:
            self._script = None

    def fault_of(self, method: str, target: str, headers: Mapping[str, str]) -> Fault | None:
        """How a request is to fail; None for not."""
        script = self._script
        return None if script is None else script.fault_of(method, target, headers)

    def rewriter(self, target: str) -> Callable[[bytes], bytes] | None:
        """What changes the body of the answer to a request; None where nothing does."""
        return None

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: FaultProxy

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Hang up on every client, so that no handler waits for one."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: clients go away whenever they like."""


class _HangUp(Exception):
    """The connection to the client is to be closed without a further word."""


class _Handler(BaseHTTPRequestHandler):
    """One client's connection, with one of its own to the store."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = _BLOCK
    server: _Server
    _store: http.client.HTTPConnection | None = None

    def log_message(self, _format: str, *_args: Any) -> None:
        """Write no access log."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (_HangUp, OSError, http.client.HTTPException):
            self.close_connection = True

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: clients wait for seconds before they send it unasked."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def finish(self) -> None:
        if self._store is not None:
            self._store.close()
        with suppress(OSError):
            super().finish()

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def _pass_on(self) -> None:
        fault = self.server.proxy.fault_of(self.command, self.path, dict(self.headers))
        if fault is not None and fault.passes:
            fault.strike(self.path)
            fault = None
        if fault is not None and not fault.forwarded:
            for _ in self._body():
                pass
            self._fail(fault, None)
            return
        answer = self._forwarded()
        if fault is None:
            self._answer(answer)
        else:
            self._fail(fault, answer)

    def _fail(self, fault: Fault, answer: http.client.HTTPResponse | None) -> None:
        fault.strike(self.path)
        body = b"" if answer is None else answer.read()
        if fault.hangs:
            with suppress(OSError):
                self.connection.recv(1, socket.MSG_PEEK)  # until the client has had enough
            raise _HangUp
        if fault.cut and answer is not None:
            self._cut(answer, body)
        if not fault.status:
            raise _HangUp
        status, headers, words = refusal(self.server.proxy.dialect, fault.status)
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(words)

    def _cut(self, answer: http.client.HTTPResponse, body: bytes) -> None:
        """Send the first half of an answer: of its body, or of its head where it has none."""
        head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        head += [f"{name}: {value}" for name, value in self._headers(answer)]
        if "Content-Length" not in answer.headers and body:
            head.append(f"Content-Length: {len(body)}")
        whole = "\r\n".join([*head, "", ""]).encode("latin-1")
        self.wfile.write(whole + body[: len(body) // 2] if body else whole[: len(whole) // 2])
        self.wfile.flush()
        raise _HangUp

    def _body(self) -> Iterator[bytes]:
        """The request's body, block by block."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            block = self.rfile.read(min(left, _BLOCK))
            if not block:
                raise _HangUp
            left -= len(block)
            yield block

    def _forwarded(self) -> http.client.HTTPResponse:
        """Send the request on; return the store's answer, its body unread."""
        if self._store is None:
            self._store = http.client.HTTPConnection(self.server.proxy.upstream, timeout=60)
            self._store.connect()
            self._store.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        store = self._store
        chunked = "Transfer-Encoding" in self.headers
        store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                store.putheader(name, value)
        if chunked:
            store.putheader("Transfer-Encoding", "chunked")
        store.endheaders()
        for block in self._body():
            store.send(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
        if chunked:
            store.send(b"0\r\n\r\n")
        return store.getresponse()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        rewrite = self.server.proxy.rewriter(self.path)
        if rewrite is not None:
            self._answer_instead(answer, rewrite(answer.read()))
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in self._headers(answer):
            self.send_header(name, value)
        bodiless = self.command == "HEAD" or answer.status in (204, 304) or answer.status < 200
        chunked = "Content-Length" not in answer.headers and not bodiless
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while block := answer.read(_BLOCK):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        if answer.will_close and self._store is not None:
            self._store.close()
            self._store = None

    def _answer_instead(self, answer: http.client.HTTPResponse, body: bytes) -> None:
        """Pass an answer on with another body."""
        self.send_response_only(answer.status, answer.reason)
        for name, value in self._headers(answer):
            if name.lower() != "content-length":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _headers(self, answer: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
        """The answer's headers; addresses in them lead through the proxy again."""
        proxy = self.server.proxy
        for name, value in answer.headers.items():
            if name.lower() == "location":
                yield name, value.replace(proxy.upstream, proxy.netloc)
            elif name.lower() not in _HOP_BY_HOP:
                yield name, value
