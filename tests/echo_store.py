"""A store that refuses every request, quoting all of it: the address, the headers, the body.

What a client makes of such an answer must not show what the request held. It speaks as S3, Azure
and Google do, and gives out access tokens as Google does.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from xml.sax.saxutils import escape

TOKEN = "ya29." + "canary-of-the-token-0123456789"


class EchoStore:
    """The server, for as long as the body of `with` runs.

    Attributes:
        code: of the answers, as S3's and Azure's errors have one.
        status: of the answers.
        requests: how many there were.
    """

    def __init__(self, code: str = "AccessDenied", status: int = 403) -> None:
        self.code = code
        self.status = status
        self.requests = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> EchoStore:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, google: bool, told: str) -> bytes:
        if google:
            return json.dumps({"error": {"code": self.status, "message": told}}).encode()
        quoted = escape(told)
        return f"<Error><Code>{self.code}</Code><Message>{quoted}</Message></Error>".encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path == "/token":
                    given = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
                    self._send(200, json.dumps(given).encode())
                    return
                store.requests += 1
                told = f"{self.command} {self.path} {dict(self.headers)} {body.decode('latin-1')}"
                self._send(store.status, store._answer("/storage/v1/" in self.path, told))

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _do

            def _send(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("x-ms-error-code", store.code)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
