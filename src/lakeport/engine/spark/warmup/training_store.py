"""An empty bucket for the class archive's training: enough of S3 for the connector to meet.

It answers this machine alone, for the seconds that the training takes, and keeps nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_LISTING = (
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Name>b</Name><Prefix/><KeyCount>0</KeyCount><MaxKeys>1</MaxKeys>"
    b"<IsTruncated>false</IsTruncated></ListBucketResult>"
)
_TAG = '"d41d8cd98f00b204e9800998ecf8427e"'


class _EmptyBucket(BaseHTTPRequestHandler):
    """Lists nothing, finds nothing, takes everything."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, _LISTING)

    def do_HEAD(self) -> None:
        self._answer(404)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(200)

    def do_DELETE(self) -> None:
        self._answer(204)

    def log_message(self, *_: object) -> None:
        """Say nothing: the base class writes to standard error."""

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", _TAG)
        if body:
            self.send_header("Content-Type", "application/xml")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def empty_bucket() -> Iterator[str]:
    """The endpoint, such as `http://127.0.0.1:40123`, of an S3 store with any bucket, empty."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _EmptyBucket)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="lakeport-training", daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
