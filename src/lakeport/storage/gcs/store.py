"""Google Cloud Storage as keys below one prefix."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeport.errors import DestinationError, LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.base import (
    BackgroundUploads,
    CloudStorage,
    Page,
    folder_names,
    join_key,
    start_of_keys,
    under,
)
from lakeport.storage.checks import CheckItem
from lakeport.storage.checksums import Chunker, crc32c_text
from lakeport.storage.gcs.client import (
    GcpSettings,
    GcsCheck,
    GcsConnection,
    Request,
    connect,
    with_credentials,
)
from lakeport.storage.gcs.errors import may_have_succeeded
from lakeport.storage.retry import NotFound, RetryPolicy, already_exists, condition_of, found

ID_KEY = "lakeport-id"
_CREATE = "storage.objects.create"
_UNIT = 256 << 10  # what all parts but the last have to be multiples of
_CHUNK = 8 << 20
_BRIEF = RetryPolicy(deadline=10)
_INCOMPLETE = 308
_STALLS = 3  # answers in a row that tell of no new bytes


def resource(
    key: str, content_type: str, metadata: Mapping[str, str], settings: GcpSettings
) -> tuple[dict[str, str], dict[str, Any]]:
    """Query and body that describe a new object."""
    query = {"kmsKeyName": settings.kms_key_name} if settings.kms_key_name else {}
    return query, {"name": key, "contentType": content_type, "metadata": dict(metadata)}


class GcsStageWriter:
    """Sends chunks of 8 MiB while the encoder goes on; at most two are in memory.

    What lies behind the last whole 256 KiB stays in the token, so that the object is complete, and
    thus visible, only when the driver sends it.

    Args:
        bucket: the bucket's name.
        key: the full key.
        settings: how to reach it.
        content_type: the object's MIME type.
    """

    def __init__(
        self,
        bucket: str,
        key: str,
        settings: GcpSettings,
        content_type: str,
    ) -> None:
        self._bucket, self._key, self._settings = bucket, key, settings
        self._name = f"gs://{bucket}/{key}"
        self._id = uuid.uuid4().hex
        self._content_type = content_type
        self._metadata = {ID_KEY: self._id}
        self._chunker = Chunker(lambda number: _CHUNK)
        self._session = ""
        self._taken = False
        self._sent = 0
        self._uploads = BackgroundUploads(1)
        self._uploads.submit(self._begin)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; waits while a chunk is under way."""
        for chunk in self._chunker.feed(data):
            self._uploads.submit(self._send, chunk)
        return memoryview(data).nbytes

    def finish(self) -> Mapping[str, Any]:
        """Send all but the last bytes and wait until they are stored."""
        rest = self._chunker.rest()
        whole = len(rest) // _UNIT * _UNIT
        if whole:
            self._uploads.submit(self._send, rest[:whole])
        self._uploads.drain()
        checksum = self._chunker.checksum
        token = {
            "session": "" if self._taken else self._session,
            "offset": self._sent,
            "tail": base64.b64encode(rest[whole:]).decode(),
            "id": self._id,
            "crc32c": checksum,
        }
        return {"token": token, "bytes": self._chunker.bytes, "checksum": f"crc32c:{checksum}"}

    def abort(self) -> None:
        """Cancel the upload. Never raises."""
        self._uploads.cancel()
        cancel(self._session, self._settings)

    def _begin(self) -> None:
        """Open the session. If the name is taken, that is said when the object is published."""
        query, body = resource(self._key, self._content_type, self._metadata, self._settings)
        try:
            answer = connect(self._settings).send(
                Request(
                    "POST",
                    self._settings.upload_url(self._bucket),
                    _CREATE,
                    self._name,
                    accept=(200, 201),
                    condition="absent",
                    params={"uploadType": "resumable", "ifGenerationMatch": "0", **query},
                    headers={
                        "Content-Type": "application/json; charset=UTF-8",
                        "X-Upload-Content-Type": self._content_type,
                    },
                    data=json.dumps(body).encode(),
                    carries="Location",
                )
            )
        except ObjectExists:
            self._taken = True
        else:
            self._session = str(answer.headers["Location"])

    def _send(self, chunk: bytes) -> None:
        """Send a chunk; what the store did not keep of it is sent again."""
        begin, end = self._sent, self._sent + len(chunk)
        stalled = 0
        while self._sent < end and not self._taken:
            try:
                kept = self._kept(chunk[self._sent - begin :], end)
            except ObjectExists:
                self._taken = True
                return
            stalled = stalled + 1 if kept == self._sent else 0
            if kept < self._sent or kept > end or stalled > _STALLS:
                raise DestinationError(
                    f"{self._name}: the store keeps {kept} of {end} bytes",
                    "run it again; nothing of this object is visible.",
                )
            self._sent = kept

    def _kept(self, data: bytes, end: int) -> int:
        """Send bytes from where the store is; return how many it has afterwards."""
        answer = connect(self._settings).send(
            Request(
                "PUT",
                self._session,
                _CREATE,
                self._name,
                accept=(_INCOMPLETE,),
                condition="absent",
                headers={"Content-Range": f"bytes {self._sent}-{end - 1}/*"},
                data=data,
            )
        )
        kept = answer.headers.get("Range", "")
        return int(kept.rpartition("-")[2]) + 1 if kept else 0


def finalise(bucket: str, key: str, staged: Staged, settings: GcpSettings) -> None:
    """Send the bytes held back, which makes the object visible if nothing has its name.

    A lost answer is made up for by asking the session, which knows whether it was completed.

    Raises:
        ObjectExists: something else has that name.
        DestinationError: the checksum of what was stored is not that of what was sent.
    """
    token, name = staged.token, f"gs://{bucket}/{key}"
    if not token["session"]:
        raise already_exists(name)
    tail = base64.b64decode(token["tail"])
    connection = connect(settings)
    transient_failures: list[Exception] = []
    try:
        answer = connection.send(
            Request(
                "PUT",
                token["session"],
                _CREATE,
                name,
                accept=(200, 201),
                condition="absent",
                headers={**_range(staged, len(tail)), "X-Goog-Hash": f"crc32c={token['crc32c']}"},
                data=tail,
                carries="generation",
            ),
            transient_failures=transient_failures,
        )
    except (ObjectExists, NotFound) as error:
        lost = any(map(may_have_succeeded, transient_failures))
        said = isinstance(error, ObjectExists)
        if not _finalised(connection, bucket, key, staged, lost, said):
            raise
        return
    _check(answer, staged, name)


def _check(answer: Any, staged: Staged, name: str) -> None:
    """Compare the checksum of what was stored, where the store tells it, with what was sent."""
    sent = staged.token["crc32c"]
    stored = answer.json().get("crc32c", sent)
    if stored != sent:
        raise DestinationError(
            f"{name} was stored with CRC32C {stored}, but {sent} was sent",
            "remove the object and run again; look for a proxy that changes requests.",
        )


def _range(staged: Staged, tail: int) -> dict[str, str]:
    offset = int(staged.token["offset"])
    sent = f"{offset}-{offset + tail - 1}" if tail else "*"
    return {"Content-Range": f"bytes {sent}/{staged.bytes}"}


def _finalised(
    connection: GcsConnection, bucket: str, key: str, staged: Staged, lost: bool, said: bool
) -> bool:
    """Whether an earlier request completed the upload, with its answer `lost` or not.

    The store may have `said` that the object exists.
    """
    name = f"gs://{bucket}/{key}"
    try:
        answer = connection.send(
            Request(
                "PUT",
                staged.token["session"],
                _CREATE,
                name,
                accept=(200, 201),
                headers={"Content-Range": f"bytes */{staged.bytes}"},
                carries="generation",
            )
        )
    except LakeportError:
        pass
    else:
        _check(answer, staged, name)
        return True

    def look() -> bool:
        return is_ours(bucket, key, str(staged.token["id"]), connection.settings)

    try:
        return found(look) if said else look()
    except NotFound:
        return False
    except PermissionRefused:
        if not lost:
            return False
        raise DestinationError(
            f"{name}: the answer to the last request got lost, and it can't be told whether the "
            "object is this run's",
            "look at the object's metadata; storage.objects.get would let lakeport do so.",
        ) from None


def is_ours(bucket: str, key: str, mark: str, settings: GcpSettings) -> bool:
    """Whether the visible object carries that mark.

    Raises:
        NotFound: there is none.
        PermissionRefused: storage.objects.get is not allowed.
    """
    answer = connect(settings).send(
        Request(
            "GET",
            settings.object_url(bucket, key),
            "storage.objects.get",
            f"gs://{bucket}/{key}",
            params={"fields": "generation,metadata"},
            carries="generation",
        )
    )
    return bool(answer.json().get("metadata", {}).get(ID_KEY) == mark)


def cancel(session: str, settings: GcpSettings) -> None:
    """Cancel an upload; the store forgets one that is left alone after a week."""
    if not session:
        return
    try:
        connect(settings).send(
            Request(
                "DELETE",
                session,
                _CREATE,
                "upload",
                accept=(200, 204, 404, 410, 499),
            ),
            retry_policy=_BRIEF,
        )
    except LakeportError:
        return


_FIELDS = "kind,items(name,size,md5Hash,crc32c,etag,updated),prefixes,nextPageToken"


@dataclass(frozen=True, slots=True)
class GcsStorage(CloudStorage):
    """A prefix of a bucket.

    Writing needs storage.objects.create alone (roles/storage.objectCreator); no request asks for
    the bucket itself. The methods that read, list and delete need the permission of that name.

    Attributes:
        bucket: the bucket's name.
        prefix: clean, see `keys.clean_prefix`; empty for the whole bucket.
        settings: how to reach it.
    """

    bucket: str
    prefix: str = ""
    settings: GcpSettings = field(default_factory=GcpSettings)

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the credentials along to tasks, which may run where none can be found."""
        return GcsStorage, (self.bucket, self.prefix, with_credentials(self.settings))

    @property
    def connection(self) -> GcsConnection:
        """This process's client."""
        return connect(self.settings)

    @property
    def always_conditional(self) -> bool:
        """Whether it is Google, who honours `ifGenerationMatch`."""
        return self.settings.is_google

    def uri(self, key: str = "") -> str:
        """`gs://bucket/prefix/key`."""
        return f"gs://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def stage(self, key: str, content_type: str) -> GcsStageWriter:
        """Begin a resumable upload."""
        full = join_key(self.prefix, key)
        return GcsStageWriter(self.bucket, full, self.settings, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Send the bytes held back; see `gcs.upload.finalise`."""
        finalise(self.bucket, join_key(self.prefix, key), staged, self.settings)

    def discard(self, staged: Staged) -> None:
        """Cancel the upload. Never raises."""
        cancel(str(staged.token["session"]), self.settings)

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs; only files lie here, so that `tables` changes nothing."""
        return GcsCheck(self).items()

    def _put(self, key: str, data: bytes, mark: str, over: str | None) -> None:
        kind = "application/octet-stream"
        query, about = resource(join_key(self.prefix, key), kind, {ID_KEY: mark}, self.settings)
        about["crc32c"] = crc32c_text(data)
        if over is not None:
            query["ifGenerationMatch"] = over or "0"
        self.connection.send(
            Request(
                "POST",
                self.settings.upload_url(self.bucket),
                "storage.objects.create",
                self.uri(key),
                accept=(200, 201),
                condition=condition_of(over),
                params={"uploadType": "multipart", **query},
                headers={"Content-Type": f"multipart/related; boundary={mark}"},
                data=_two_parts(mark, json.dumps(about).encode(), kind, data),
                carries="generation",
            )
        )

    def _has_mark(self, key: str, mark: str) -> bool:
        return is_ours(self.bucket, join_key(self.prefix, key), mark, self.settings)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        if not version:
            return bytes(self._get(key, alt="media").content)
        asked = {"Range": f"bytes={start}-{end - 1}"}
        return bytes(self._get(key, asked, alt="media", generation=version).content)

    def _size_and_version(self, key: str) -> tuple[int, str]:
        found = self._get(key, fields="size,generation").json()
        return int(found["size"]), str(found["generation"])

    def _page(
        self,
        prefix: str,
        *,
        below: bool = False,
        one_level: bool = False,
        token: str = "",
        limit: int = 0,
        after: str = "",
    ) -> Page:
        start = start_of_keys(self.prefix, prefix, below=below)
        query = {
            "prefix": start,
            "delimiter": "/" if one_level else "",
            "pageToken": token,
            "startOffset": join_key(self.prefix, after) if after else "",
            "maxResults": str(limit or ""),
        }
        page = self.connection.send(
            Request(
                "GET",
                self.settings.object_url(self.bucket),
                "storage.objects.list",
                self.uri(prefix),
                params={
                    "fields": _FIELDS,
                    **{name: value for name, value in query.items() if value},
                },
                carries="kind",
            )
        ).json()
        rows = [row for row in page.get("items", []) if not row["name"].endswith("/")]
        return Page(
            [_stored(self.prefix, row) for row in rows],
            page.get("nextPageToken") or "",
            folder_names(start, page.get("prefixes", [])),
        )

    def _delete(self, key: str) -> None:
        self.connection.send(
            Request(
                "DELETE",
                self.settings.object_url(self.bucket, join_key(self.prefix, key)),
                "storage.objects.delete",
                self.uri(key),
                accept=(200, 204),
            )
        )

    def _get(self, key: str, headers: dict[str, str] | None = None, /, **query: str) -> Any:
        return self.connection.send(
            Request(
                "GET",
                self.settings.object_url(self.bucket, join_key(self.prefix, key)),
                "storage.objects.get",
                self.uri(key),
                accept=(200, 206),
                headers=headers or {},
                params=query,
                carries="X-Goog-Generation" if "alt" in query else "generation",
            )
        )


def _two_parts(boundary: str, about: bytes, kind: str, data: bytes) -> bytes:
    line = f"--{boundary}".encode()
    json_type = b"Content-Type: application/json; charset=UTF-8"
    rows = [line, json_type, b"", about, line, f"Content-Type: {kind}".encode(), b"", data]
    return b"\r\n".join([*rows, line + b"--", b""])


def _stored(prefix: str, row: Mapping[str, Any]) -> StoredObject:
    etag = row.get("md5Hash") or row.get("crc32c") or row.get("etag", "")
    changed = datetime.fromisoformat(row["updated"]).timestamp() if "updated" in row else 0.0
    return StoredObject(under(prefix, row["name"]), int(row["size"]), etag, changed)
