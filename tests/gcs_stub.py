"""A Google Cloud Storage stub inside the test process: real resumable sessions, and faults.

Unlike fake-gcs-server, a session answers status queries, ignores bytes that it has, may keep only
a part of a chunk, and remembers that it was completed. Requests can be denied by permission, and
take the `Fault`s of `tests.s3_stub`, named by operation: `start`, `chunk`, `finalise`, `query`,
`simple`, `get`, `list`, `delete`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import google_crc32c

from tests.s3_stub import Fault, on_new_port

_PERMISSIONS = {"get": "storage.objects.get", "list": "storage.objects.list"}
_PERMISSIONS |= {"delete": "storage.objects.delete"}


class Answer(NamedTuple):
    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


@dataclass
class Session:
    about: dict[str, Any]
    create_only: bool
    data: bytes = b""
    done: bool = False


@dataclass
class GcsStub:
    """The stub; a context manager.

    `keeps` bytes of each chunk are kept at most; `denied` permissions get 403; with `lies`,
    preconditions are ignored; with `eager`, they are judged when a session starts.
    """

    keeps: int = 1 << 40
    denied: set[str] = field(default_factory=set)
    lies: bool = False
    eager: bool = False
    buckets: set[str] = field(default_factory=lambda: {"lake"})
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    kms: list[str] = field(default_factory=list)
    corrupts: bool = False
    requester_pays: bool = False
    lock: Any = field(default_factory=threading.RLock)

    def __enter__(self) -> GcsStub:
        self._server = on_new_port(lambda: _Server(("127.0.0.1", 0), _Handler))
        self._server.stub = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def inject(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def body(self, key: str) -> bytes:
        return bytes(self.objects["lake", key]["data"])

    def keys(self) -> list[str]:
        return sorted(key for _, key in self.objects)

    def answer(
        self, operation: str, bucket: str, key: str, query: dict[str, str], r: Any
    ) -> Answer:
        if _PERMISSIONS.get(operation, "storage.objects.create") in self.denied:
            return _error(403, "tester does not have that access")
        if self.requester_pays and r.headers["x-goog-user-project"] != "payer":
            return _error(400, "Bucket is requester pays bucket but no user project provided.")
        if bucket not in self.buckets:
            return _error(404, "The specified bucket does not exist.")
        found: Answer = getattr(self, f"_{operation}")(bucket, key, query, r)
        return found

    def _start(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        about = json.loads(r.body)
        create_only = query.get("ifGenerationMatch") == "0"
        if self.eager and create_only and (bucket, about["name"]) in self.objects:
            return _error(412, "conditionNotMet")
        name = os.urandom(8).hex()
        self.sessions[name] = Session(about, create_only)
        url = f"{self.endpoint}/upload/storage/v1/b/{bucket}/o?upload_id={name}"
        return Answer(200, None, {"Location": url})

    def _chunk(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        session = self.sessions.get(query["upload_id"])
        if session is None:
            return _error(404, "no such session")
        if session.done:
            return self._resource(bucket, session.about["name"])
        first, total = re.fullmatch(
            r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", r.headers["Content-Range"]
        ).groups()  # type: ignore[union-attr]
        if first is not None:
            fresh = r.body[len(session.data) - int(first) :]
            session.data += fresh[: self.keeps] if total == "*" else fresh
        if total == "*" or len(session.data) < int(total):
            kept = {"Range": f"bytes=0-{len(session.data) - 1}"} if session.data else {}
            return Answer(308, None, kept)
        at = (bucket, session.about["name"])
        if session.create_only and at in self.objects and not self.lies:
            return _error(412, "conditionNotMet")
        crc = _crc(session.data)
        if r.headers["X-Goog-Hash"] not in (None, f"crc32c={crc}"):
            return _error(400, "checksum mismatch")
        self.objects[at] = {**session.about, "data": session.data}
        session.done = True
        return self._resource(*at)

    _finalise = _query = _chunk

    def _cancel(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        self.sessions.pop(query["upload_id"], None)
        return Answer(499)

    def _simple(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        boundary = r.headers["Content-Type"].partition("boundary=")[2].encode()
        _, about, data, _ = r.body.split(b"--" + boundary)
        told = json.loads(about.partition(b"\r\n\r\n")[2])
        content = data.partition(b"\r\n\r\n")[2][:-2]
        at = (bucket, told["name"])
        held = self.objects[at].get("generation", "1") if at in self.objects else "0"
        if query.get("ifGenerationMatch", held) != held and not self.lies:
            return _error(412, "conditionNotMet")
        if told.get("crc32c", _crc(content)) != _crc(content):
            return _error(400, "checksum mismatch")
        self.objects[at] = {**told, "data": content, "generation": str(int(held) + 1)}
        return self._resource(*at)

    def _resource(self, bucket: str, key: str) -> Answer:
        held = dict(self.objects[bucket, key])
        data = held.pop("data")
        crc = "AAAAAA==" if self.corrupts else _crc(data)
        held |= {"size": str(len(data)), "crc32c": crc}
        held.setdefault("generation", "1")
        return Answer(200, {**held, "updated": "2026-01-01T00:00:00Z"})

    def _get(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        if (bucket, key) not in self.objects:
            return _error(404, f"No such object: {bucket}/{key}")
        if query.get("alt") != "media":
            return self._resource(bucket, key)
        data = self.objects[bucket, key]["data"]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", r.headers["Range"] or "")
        if wanted:
            data = data[int(wanted[1]) : int(wanted[2]) + 1]
        return Answer(206 if wanted else 200, data, {"X-Goog-Generation": "1"})

    def _list(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        prefix, after = query.get("prefix", ""), query.get("pageToken", "")
        delimiter = query.get("delimiter", "\0")
        names = [k for b, k in sorted(self.objects) if b == bucket and k.startswith(prefix)]
        heads = [prefix + "".join(k[len(prefix) :].partition(delimiter)[:2]) for k in names]
        names = [name for name in dict.fromkeys(heads) if name > after]
        page = names[: int(query.get("maxResults", "2"))]
        folders = [name for name in page if name.endswith(delimiter)]
        rows = [self._resource(bucket, name).body for name in page if name not in folders]
        more = {"nextPageToken": page[-1]} if len(page) < len(names) else {}
        return Answer(200, {"kind": "storage#objects", "items": rows, "prefixes": folders, **more})

    def _delete(self, bucket: str, key: str, query: dict[str, str], r: Any) -> Answer:
        if self.objects.pop((bucket, key), None) is None:
            return _error(404, "No such object")
        return Answer(204)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    stub: GcsStub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client that goes away later would be told to another test's stderr."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Write no access log."""

    def _serve(self) -> None:
        stub = self.server.stub
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        self.body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        _, bucket, key = re.fullmatch(  # type: ignore[union-attr]
            r"(/upload)?/storage/v1/b/([^/]+)/o/?(.*)", parts.path
        ).groups()
        operation = self._operation(parts.path, query, key)
        with stub.lock:
            stub.seen.append(operation)
            if "kmsKeyName" in query:
                stub.kms.append(query["kmsKeyName"])
            stub.tokens.append(self.headers["Authorization"] or "")
            fault = next((f for f in stub.faults if f.takes(operation, unquote(key))), None)
        if fault and fault.kind == "reset-before":
            return self._reset()
        if fault and fault.kind == "status":
            return self._send(_error(fault.status, "stub"))
        with stub.lock:
            answer = stub.answer(operation, bucket, unquote(key), query, self)
        if fault and fault.kind == "reset-after":
            return self._reset()
        return self._send(answer)

    do_GET = do_PUT = do_POST = do_DELETE = _serve

    def _operation(self, path: str, query: dict[str, str], key: str) -> str:
        if path.startswith("/upload"):
            if "upload_id" not in query:
                return "start" if query["uploadType"] == "resumable" else "simple"
            if self.command == "DELETE":
                return "cancel"
            sent = self.headers["Content-Range"]
            if sent.endswith("/*"):
                return "chunk"
            return "query" if sent.startswith("bytes */") and not self.body else "finalise"
        if self.command == "DELETE":
            return "delete"
        return "get" if key else "list"

    def _send(self, answer: Answer) -> None:
        raw = isinstance(answer.body, bytes)
        body = answer.body if raw else json.dumps(answer.body).encode() if answer.body else b""
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/octet-stream" if raw else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self.connection.detach())


def _crc(data: bytes) -> str:
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


def _error(status: int, words: str) -> Answer:
    return Answer(status, {"error": {"code": status, "message": words}})
