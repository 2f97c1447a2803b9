"""The proxy that the requests of loads fail at: what passes it is unchanged, what fails is told."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.requests.faults import FAULTS
from tests.faults.requests.naming import kind_of, namer
from tests.faults.requests.proxy import FaultProxy, Point

BODY = b"0123456789" * 20_000


class Store(BaseHTTPRequestHandler):
    """Says what it was asked, with a chunked body for GET and a sized one for PUT."""

    protocol_version = "HTTP/1.1"
    taken: list[tuple[str, str, bytes]]

    def log_message(self, _format: str, *_args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        if "Transfer-Encoding" in self.headers:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, self.headers["Host"], body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))


@pytest.fixture
def store() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        server.daemon_threads = True
        server.taken = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(store: ThreadingHTTPServer) -> Iterator[FaultProxy]:
    with FaultProxy(f"http://127.0.0.1:{store.server_address[1]}", "s3") as found:
        yield found


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(proxy.netloc, timeout=5)
    yield connection
    connection.close()


PLACE: Any = SimpleNamespace(namer=namer("s3", "lake", "root"))


def put(client: http.client.HTTPConnection, body: Any = b"1", **headers: str) -> tuple[int, bytes]:
    client.request("PUT", "/lake/root/a", body, headers)
    answer = client.getresponse()
    return answer.status, answer.read()


def test_what_passes_is_unchanged(
    proxy: FaultProxy, client: http.client.HTTPConnection, store: Any
) -> None:
    assert put(client, BODY) == (200, b"ok")
    assert put(client, iter([BODY, b"x"])) == (200, b"ok")  # chunked, on the same connection
    assert put(client, b"", Expect="100-continue") == (200, b"ok")
    client.request("GET", "/lake/root/a")
    assert client.getresponse().read() == BODY
    host = proxy.netloc
    assert store.taken == [("/lake/root/a", host, body) for body in (BODY, BODY + b"x", b"")]


@pytest.mark.parametrize(
    ("fault", "taken", "answer"),
    [
        ("500-before", 0, 500),
        ("500-after", 1, 500),
        ("412-after", 1, 412),
        ("lost-before", 0, None),
        ("lost-after", 1, None),
        ("cut", 1, None),
        ("expired", 0, 400),
    ],
)
def test_one_request_fails(
    proxy: FaultProxy,
    client: http.client.HTTPConnection,
    store: Any,
    fault: str,
    taken: int,
    answer: int | None,
) -> None:
    with proxy.script(PLACE, Point("PUT a", 2), FAULTS[fault]) as script:
        assert put(client) == (200, b"ok")
        if answer is None:
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                put(client)
            client.close()
        else:
            assert put(client)[0] == answer
        assert put(client)[0] == (400 if fault == "expired" else 200)
    assert put(client) == (200, b"ok")
    assert len(store.taken) == 2 + taken + (fault != "expired")
    assert script.hit
    assert script.seen == [Point("PUT a", n) for n in (1, 2, 3)]


def test_a_store_that_says_nothing(proxy: FaultProxy, store: Any) -> None:
    impatient = http.client.HTTPConnection(proxy.netloc, timeout=0.2)
    with proxy.script(PLACE, Point("PUT a", 1), FAULTS["hanging"]), pytest.raises(TimeoutError):
        put(impatient)
    impatient.close()
    assert len(store.taken) == 1


def test_names_leave_out_what_differs_from_run_to_run() -> None:
    part = "part-00001-0b7e6b62-2c5f-4f4b-8d5a-9d3c9a1e1f00.c000.snappy.parquet"
    assert kind_of(f"t/day=2/{part}") == "t/day=N/part-N-ID.cN.snappy.parquet"
    assert kind_of("t/20260101-120000.parquet") == "t/TIME.parquet"
    azure = namer("azure", "lake", "root/x")
    log = "/account/lake/root/x/t/_delta_log"
    assert azure("PUT", f"{log}/00000000000000000003.json", {}) == "PUT t/_delta_log/N.json"
    copy = {"X-Ms-Copy-Source": "http://there"}
    assert azure("PUT", f"{log}/00000000000000000003.json", copy) == "COPY t/_delta_log/N.json"
    listing = "/account/lake?restype=container&comp=list&prefix=root/x/t/_delta_log"
    assert azure("GET", listing, {}) == "LIST t/_delta_log"
    gcs = namer("gcs", "lake", "root")
    assert gcs("PUT", "/upload/storage/v1/b/lake/o?upload_id=1", {}) == "LAST session /"
