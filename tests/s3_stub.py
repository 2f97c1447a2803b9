"""An S3 stub inside the test process: a store that lies, and a store that fails on demand.

`BrokenS3()` ignores `If-None-Match` and always overwrites: a suite that stays green on it does
not test create-only writes. `BrokenS3(honours_conditions=True)` behaves rightly. Both take a
script of `Fault`s: statuses, connections reset before or after the object is stored (the lost
acknowledgement), slow answers, and 200 answers with an error inside.

Not here: signatures, policies, versions. MinIO (`tests.emulators.Minio`) has those.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

Kind = Literal["status", "reset-before", "reset-after", "error-body"]

_CODES = {403: "AccessDenied", 409: "ConditionalRequestConflict", 429: "TooManyRequests"}
_CODES |= {500: "InternalError", 503: "SlowDown"}
_OPERATIONS = {
    ("PUT", "key", "partNumber"): "UploadPart",
    ("PUT", "key", ""): "PutObject",
    ("PUT", "bucket", ""): "CreateBucket",
    ("GET", "key", ""): "GetObject",
    ("GET", "bucket", "location"): "GetBucketLocation",
    ("GET", "bucket", "uploads"): "ListMultipartUploads",
    ("GET", "bucket", ""): "ListObjects",
    ("HEAD", "key", ""): "HeadObject",
    ("HEAD", "bucket", ""): "HeadBucket",
    ("DELETE", "key", "uploadId"): "AbortMultipartUpload",
    ("DELETE", "key", ""): "DeleteObject",
    ("POST", "bucket", "delete"): "DeleteObjects",
    ("POST", "key", "uploads"): "CreateMultipartUpload",
    ("POST", "key", "uploadId"): "CompleteMultipartUpload",
}


@dataclass
class Fault:
    """One line of the script: what to do to the next `times` requests which match.

    `on` names an operation as S3 does ("PutObject"; empty: any), `key` is a part of the key,
    `skip` lets that many matching requests pass first, `delay` is slept before answering, `meet`
    seconds are waited for another such request of the same key, and `meanwhile` is called when the
    request has arrived and nothing is done about it yet.
    """

    kind: Kind | None = None
    times: int = 1
    on: str = ""
    key: str = ""
    skip: int = 0
    status: int = 503
    code: str = ""
    delay: float = 0.0
    meet: float = 0.0
    meanwhile: Callable[[], None] | None = None
    met: dict[str, threading.Barrier] = field(default_factory=dict)

    def wait(self, key: str) -> None:
        """Keep the request waiting as long as it is told to."""
        time.sleep(self.delay)
        if self.meanwhile is not None:
            self.meanwhile()
        if self.meet:
            with suppress(threading.BrokenBarrierError):
                self.met.setdefault(key, threading.Barrier(2)).wait(self.meet)

    def takes(self, operation: str, key: str) -> bool:
        """Say whether this fault hits the request, and count it."""
        if self.times < 1 or self.on not in ("", operation) or self.key not in key:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class Seen(NamedTuple):
    """A request the stub received; `status` is 0 where the connection was reset."""

    operation: str
    bucket: str
    key: str
    headers: dict[str, str]
    status: int


_S = TypeVar("_S", bound=ThreadingHTTPServer)
_PORTS: set[int] = set()


def on_new_port(make: Callable[[], _S]) -> _S:
    """A server on a port that none before it had: a client remembers what it knew of an address."""
    server = make()
    while server.server_address[1] in _PORTS:
        server.server_close()
        server = make()
    _PORTS.add(server.server_address[1])
    return server


class Stored(NamedTuple):
    """An object: its bytes, quoted ETag, and the `x-amz-meta-*` and content type headers."""

    body: bytes
    etag: str
    headers: dict[str, str]
    modified: float


class Answer(NamedTuple):
    """What goes back on the wire."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


@dataclass
class Upload:
    """A multipart upload which is neither completed nor aborted."""

    bucket: str
    key: str
    headers: dict[str, str]
    parts: dict[int, bytes] = field(default_factory=dict)


class BrokenS3:
    """The stub; a context manager. Objects are at `.objects[bucket, key]`, open to the test."""

    access_key = "stub"
    secret_key = "stub"
    region = "us-east-1"

    def __init__(self, *, honours_conditions: bool = False, faults: Iterable[Fault] = ()) -> None:
        self.honours_conditions = honours_conditions
        self.faults = list(faults)
        self.buckets: set[str] = set()
        self.objects: dict[tuple[str, str], Stored] = {}
        self.uploads: dict[str, Upload] = {}
        self.seen: list[Seen] = []
        self.lock = threading.RLock()
        self._server = on_new_port(lambda: _Server(("127.0.0.1", 0), _Handler))
        self._server.store = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> BrokenS3:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def create_bucket(self, name: str) -> str:
        """Create the bucket `name`, as a PUT of it would."""
        self.buckets.add(name)
        return name

    def inject(self, *faults: Fault) -> None:
        """Add faults to the end of the script; the first that matches a request is used."""
        with self.lock:
            self.faults.extend(faults)

    def body(self, bucket: str, key: str) -> bytes:
        """Return what is stored, without a request."""
        return self.objects[bucket, key].body

    def keys(self, bucket: str) -> list[str]:
        """Return the keys of a bucket in S3's order (by UTF-8 bytes), without a request."""
        return sorted((k for b, k in list(self.objects) if b == bucket), key=str.encode)

    def count(self, operation: str) -> int:
        """Count the requests seen for an operation, those reset included."""
        return sum(1 for seen in list(self.seen) if seen.operation == operation)

    def client(self, **options: Any) -> Any:
        """Return a boto3 client of this store."""
        from tests.emulators import s3_client

        return s3_client(self.endpoint, self.access_key, self.secret_key, **options)

    # -- the operations: each is called under the lock, so a condition and its write are one step

    def answer(self, operation: str, request: _Handler) -> Answer:
        """Carry out one request."""
        with self.lock:
            if operation == "CreateBucket":
                self.create_bucket(request.bucket)
                return Answer(200)
            if request.bucket not in self.buckets:
                return _error(404, "NoSuchBucket")
            return _ACTIONS[operation](self, request)

    def _refused(self, request: _Handler) -> Answer | None:
        """Apply If-None-Match and If-Match of a write, where this store honours them."""
        held = self.objects.get((request.bucket, request.key))
        none_match, match = request.headers["If-None-Match"], request.headers["If-Match"]
        if not self.honours_conditions or (none_match is None and match is None):
            return None
        if none_match == "*" and held is not None:
            return _error(412, "PreconditionFailed")
        if match is not None and held is None:
            return _error(404, "NoSuchKey")
        if match is not None and held is not None and match.strip('"') != held.etag.strip('"'):
            return _error(412, "PreconditionFailed")
        return None

    def _put(self, request: _Handler) -> Answer:
        if refused := self._refused(request):
            return refused
        source = request.headers["x-amz-copy-source"]
        body, kept = request.body, _kept_headers(request)
        if source:
            bucket, _, key = unquote(source.split("?")[0]).lstrip("/").partition("/")
            if (bucket, key) not in self.objects:
                return _error(404, "NoSuchKey")
            body, kept = self.objects[bucket, key].body, self.objects[bucket, key].headers
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        self.objects[request.bucket, request.key] = Stored(body, etag, kept, time.time())
        copied = f"<ETag>{escape(etag)}</ETag><LastModified>{_iso(time.time())}</LastModified>"
        return _xml("CopyObjectResult", copied) if source else Answer(200, b"", {"ETag": etag})

    def _get(self, request: _Handler) -> Answer:
        held = self.objects.get((request.bucket, request.key))
        if held is None:
            return _error(404, "NoSuchKey")
        headers = {"ETag": held.etag, "Accept-Ranges": "bytes", **held.headers}
        headers["Last-Modified"] = formatdate(held.modified, usegmt=True)
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers["Range"] or "")
        if not wanted or request.command == "HEAD":
            return Answer(200, held.body, headers)
        size = len(held.body)
        first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2] or 0))
        last = min(int(wanted[2]), size - 1) if wanted[1] and wanted[2] else size - 1
        if first >= size or first > last:
            return _error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return Answer(206, held.body[first : last + 1], headers)

    def _delete(self, request: _Handler) -> Answer:
        self.objects.pop((request.bucket, request.key), None)
        return Answer(204)

    def _delete_many(self, request: _Handler) -> Answer:
        deleted = ""
        for element in ElementTree.fromstring(request.body).iter():
            if element.tag.rpartition("}")[2] == "Key":
                self.objects.pop((request.bucket, element.text or ""), None)
                deleted += f"<Deleted><Key>{escape(element.text or '')}</Key></Deleted>"
        return _xml("DeleteResult", deleted)

    def _list(self, request: _Handler) -> Answer:
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        limit = int(query.get("max-keys", "1000"))
        after = query.get("continuation-token") or query.get("start-after") or ""
        after = after or query.get("marker", "")
        rows: dict[str, str] = {}
        more = False
        for key in self.keys(request.bucket):
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            name = prefix + head + cut if cut else key
            if not key.startswith(prefix) or name.encode() <= after.encode() or name in rows:
                continue
            more = len(rows) == limit
            if more:
                break
            held = self.objects[request.bucket, key]
            rows[name] = (
                f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
                if cut
                else f"<Contents><Key>{escape(name)}</Key><ETag>{escape(held.etag)}</ETag>"
                f"<Size>{len(held.body)}</Size><LastModified>{_iso(held.modified)}</LastModified>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        last = escape(next(reversed(rows), ""))
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if more else ""
        token += f"<NextMarker>{last}</NextMarker>" if more and "list-type" not in query else ""
        facts = f"<Name>{request.bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
        facts += f"<KeyCount>{len(rows)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
        facts += f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return _xml("ListBucketResult", facts + "".join(rows.values()))

    def _create_upload(self, request: _Handler) -> Answer:
        upload_id = os.urandom(8).hex()
        self.uploads[upload_id] = Upload(request.bucket, request.key, _kept_headers(request))
        facts = f"<Bucket>{request.bucket}</Bucket><Key>{escape(request.key)}</Key>"
        return _xml("InitiateMultipartUploadResult", f"{facts}<UploadId>{upload_id}</UploadId>")

    def _upload_part(self, request: _Handler) -> Answer:
        upload = self.uploads.get(request.query.get("uploadId", ""))
        if upload is None:
            return _error(404, "NoSuchUpload")
        upload.parts[int(request.query["partNumber"])] = request.body
        digest = hashlib.md5(request.body, usedforsecurity=False).hexdigest()
        return Answer(200, b"", {"ETag": f'"{digest}"'})

    def _complete(self, request: _Handler) -> Answer:
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None:
            return _error(404, "NoSuchUpload")
        if refused := self._refused(request):
            return refused
        elements = ElementTree.fromstring(request.body).iter()
        numbers = [int(e.text or 0) for e in elements if e.tag.endswith("PartNumber")]
        if not numbers or any(number not in upload.parts for number in numbers):
            return _error(400, "InvalidPart")
        parts = [upload.parts[number] for number in numbers]
        hashes = b"".join(hashlib.md5(p, usedforsecurity=False).digest() for p in parts)
        etag = f'"{hashlib.md5(hashes, usedforsecurity=False).hexdigest()}-{len(parts)}"'
        stored = Stored(b"".join(parts), etag, upload.headers, time.time())
        self.objects[request.bucket, request.key] = stored
        del self.uploads[request.query["uploadId"]]
        facts = f"<Bucket>{request.bucket}</Bucket><Key>{escape(request.key)}</Key>"
        return _xml("CompleteMultipartUploadResult", f"{facts}<ETag>{escape(etag)}</ETag>")

    def _abort(self, request: _Handler) -> Answer:
        found = self.uploads.pop(request.query["uploadId"], None)
        return Answer(204) if found else _error(404, "NoSuchUpload")

    def _list_uploads(self, request: _Handler) -> Answer:
        mine = ((i, u) for i, u in self.uploads.items() if u.bucket == request.bucket)
        rows = (
            f"<Upload><Key>{escape(upload.key)}</Key><UploadId>{upload_id}</UploadId></Upload>"
            for upload_id, upload in mine
            if upload.key.startswith(request.query.get("prefix", ""))
        )
        facts = "<IsTruncated>false</IsTruncated>"
        return _xml("ListMultipartUploadsResult", facts + "".join(rows))


_ACTIONS: dict[str, Callable[[BrokenS3, _Handler], Answer]] = {
    "PutObject": BrokenS3._put,
    "GetObject": BrokenS3._get,
    "HeadObject": BrokenS3._get,
    "DeleteObject": BrokenS3._delete,
    "DeleteObjects": BrokenS3._delete_many,
    "ListObjects": BrokenS3._list,
    "CreateMultipartUpload": BrokenS3._create_upload,
    "UploadPart": BrokenS3._upload_part,
    "CompleteMultipartUpload": BrokenS3._complete,
    "AbortMultipartUpload": BrokenS3._abort,
    "ListMultipartUploads": BrokenS3._list_uploads,
    "HeadBucket": lambda _store, _request: Answer(200),
    "GetBucketLocation": lambda _store, _request: _xml("LocationConstraint", ""),
}


class _Server(ThreadingHTTPServer):
    """The listening socket, with the store its handlers serve."""

    daemon_threads = True
    request_queue_size = 128
    store: BrokenS3

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client which gives up, and our own resets, are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    """One connection: parse, apply the script, answer."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, _format: str, *_args: Any) -> None:
        """Write no access log."""

    def _serve(self) -> None:
        store, parts = self.server.store, urlsplit(self.path)
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.bucket, _, self.key = unquote(parts.path).lstrip("/").partition("/")
        self.body = self._read_body()
        target = "key" if self.key else "bucket"
        flags = (flag for method, at, flag in _OPERATIONS if (method, at) == (self.command, target))
        flag = next((flag for flag in flags if flag and flag in self.query), "")
        operation = _OPERATIONS.get((self.command, target, flag), "")
        with store.lock:
            fault = next((f for f in store.faults if f.takes(operation, self.key)), Fault())
        fault.wait(self.key)
        answer = Answer(0)
        if fault.kind == "status":
            answer = _error(fault.status, fault.code)
        elif fault.kind == "error-body":
            answer = _error(fault.status, fault.code)._replace(status=200)
        elif fault.kind != "reset-before":
            known = operation in _ACTIONS or operation == "CreateBucket"
            answer = store.answer(operation, self) if known else _error(501, "NotImplemented")
        reset = fault.kind in ("reset-before", "reset-after")
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = 0 if reset else answer.status
        with store.lock:
            store.seen.append(Seen(operation, self.bucket, self.key, headers, status))
        if reset:
            self._reset()
        else:
            self._send(answer)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve

    def _read_body(self) -> bytes:
        """Read the body, undoing HTTP's chunks and then those of the AWS SDKs."""
        coded = "decoded" in " ".join(self.headers.keys()).lower()
        if self.headers["Transfer-Encoding"] == "chunked":
            body = _chunks(self.rfile)
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        return _chunks(io.BytesIO(body)) if coded else body

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD" and answer.status != HTTPStatus.NO_CONTENT:
            self.wfile.write(answer.body)

    def _reset(self) -> None:
        """Close with a TCP RST, as a machine that dies does, not with an orderly FIN."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self.connection.detach())


def _chunks(stream: Any) -> bytes:
    """Join chunks `<hex size>[;extension]` up to the one of size 0; trailers stay unread."""
    joined = bytearray()
    while size := int(stream.readline().split(b";")[0], 16):
        joined += stream.read(size)
        stream.readline()
    return bytes(joined)


def _kept_headers(request: _Handler) -> dict[str, str]:
    """Pick the request headers which S3 gives back when the object is read."""
    kept = {n.lower(): v for n, v in request.headers.items()}
    return {n: v for n, v in kept.items() if n.startswith("x-amz-meta-") or n == "content-type"}


def _xml(root: str, inner: str, status: int = 200) -> Answer:
    space = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"' if root != "Error" else ""
    text = f'<?xml version="1.0" encoding="UTF-8"?><{root}{space}>{inner}</{root}>'
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})


def _error(status: int, code: str = "") -> Answer:
    code = code or _CODES.get(status, HTTPStatus(status).phrase.replace(" ", ""))
    return _xml("Error", f"<Code>{code}</Code><Message>stub: {code}</Message>", status)


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment))
