"""Google Cloud Storage as keys below one prefix."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeport.errors import DestinationError, LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.base import CloudStorage, ListingPage, join_key
from lakeport.storage.checks import CheckItem
from lakeport.storage.gcs.client import (
    GcpSettings,
    GcsCheck,
    GcsConnection,
    connect,
    with_credentials,
)
from lakeport.storage.gcs.errors import may_have_succeeded
from lakeport.storage.parts import CloudStageWriter, crc32c_text
from lakeport.storage.retry import NotFound, RetryPolicy, already_exists, condition_of

ID_KEY = "lakeport-id"
_UNIT = 256 << 10  # what all parts but the last have to be multiples of
_CHUNK = 8 << 20
_BRIEF = RetryPolicy(deadline=10)
_INCOMPLETE = 308
_STALLS = 3  # answers in a row that tell of no new bytes

_FIELDS = "kind,items(name,size,md5Hash,crc32c,etag,updated),prefixes,nextPageToken"


class GcsStageWriter(CloudStageWriter):
    """Sends chunks of 8 MiB while the encoder goes on; at most two are in memory.

    What lies behind the last whole 256 KiB stays in the token, so that the object is complete, and
    thus visible, only when the driver sends it.
    """

    def __init__(self, storage: GcsStorage, key: str, content_type: str) -> None:
        super().__init__(lambda number: _CHUNK, 1)
        self._storage, self._key = storage, key
        self._session = ""
        self._taken = False
        self._sent = 0
        self._tail = b""
        self._submit(self._begin, content_type)

    def abort(self) -> None:
        """Cancel the upload. Never raises."""
        super().abort()
        self._storage.cancel(self._session)

    def _token(self) -> dict[str, Any]:
        return {
            "session": "" if self._taken else self._session,
            "offset": self._sent,
            "tail": base64.b64encode(self._tail).decode(),
            "crc32c": self._chunker.checksum,
        }

    def _begin(self, content_type: str) -> None:
        """Open the session. If the name is taken, that is said when the object is published."""
        query, about = self._storage.resource(self._key, content_type, self._id)
        try:
            answer = self._storage._send(
                "POST",
                "create",
                self._key,
                url=self._storage.settings.upload_url(self._storage.bucket),
                accept=(200, 201),
                condition="absent",
                params={"uploadType": "resumable", "ifGenerationMatch": "0", **query},
                headers={
                    "Content-Type": "application/json; charset=UTF-8",
                    "X-Upload-Content-Type": content_type,
                },
                data=json.dumps(about).encode(),
                carries="Location",
            )
        except ObjectExists:
            self._taken = True
        else:
            self._session = str(answer.headers["Location"])

    def _send_rest(self, rest: bytes) -> None:
        whole = len(rest) // _UNIT * _UNIT
        self._tail = rest[whole:]
        super()._send_rest(rest[:whole])

    def _send(self, number: int, part: bytes) -> None:
        """Send a chunk; what the store did not keep of it is sent again."""
        begin, end = self._sent, self._sent + len(part)
        stalled = 0
        while self._sent < end and not self._taken:
            try:
                kept = self._kept(part[self._sent - begin :], end)
            except ObjectExists:
                self._taken = True
                return
            stalled = stalled + 1 if kept == self._sent else 0
            if kept < self._sent or kept > end or stalled > _STALLS:
                raise DestinationError(
                    f"{self._storage.uri(self._key)}: the store keeps {kept} of {end} bytes",
                    "run it again; nothing of this object is visible.",
                )
            self._sent = kept

    def _kept(self, data: bytes, end: int) -> int:
        """Send bytes from where the store is; return how many it has afterwards."""
        answer = self._storage._send(
            "PUT",
            "create",
            self._key,
            url=self._session,
            accept=(_INCOMPLETE,),
            condition="absent",
            headers={"Content-Range": f"bytes {self._sent}-{end - 1}/*"},
            data=data,
        )
        kept = answer.headers.get("Range", "")
        return int(kept.rpartition("-")[2]) + 1 if kept else 0


@dataclass(frozen=True, slots=True)
class GcsStorage(CloudStorage):
    """A prefix of a bucket.

    Writing needs storage.objects.create alone (roles/storage.objectCreator); no request asks for
    the bucket itself. The methods that read, list and delete need the permission of that name.

    Attributes:
        bucket: the bucket's name.
        prefix: clean, see `base.clean_prefix`; empty for the whole bucket.
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

    def uri(self, key: str = "") -> str:
        """`gs://bucket/prefix/key`."""
        return f"gs://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def stage(self, key: str, content_type: str) -> GcsStageWriter:
        """Begin a resumable upload."""
        return GcsStageWriter(self, key, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Send the bytes held back, which makes the object visible if nothing has its name.

        A lost answer is made up for by asking the session, which knows whether it was completed.

        Raises:
            ObjectExists: something else has that name.
            DestinationError: the checksum of what was stored is not that of what was sent.
        """
        token = staged.token
        if not token["session"]:
            raise already_exists(self.uri(key))
        tail = base64.b64decode(token["tail"])
        begin = int(token["offset"])
        sent = f"{begin}-{begin + len(tail) - 1}" if tail else "*"
        transient_failures: list[Exception] = []
        try:
            answer = self._finalise(
                staged,
                key,
                sent,
                {"X-Goog-Hash": f"crc32c={token['crc32c']}"},
                condition="absent",
                data=tail,
                transient_failures=transient_failures,
            )
        except (ObjectExists, NotFound) as error:
            lost = any(map(may_have_succeeded, transient_failures))
            if not self._finalised(staged, key, lost, isinstance(error, ObjectExists)):
                raise
            return
        _check(answer, staged, self.uri(key))

    def _finalise(
        self, staged: Staged, key: str, sent: str, headers: Mapping[str, str], **options: Any
    ) -> Any:
        """Send the session a range of bytes, the last of the object; `*` asks what it has."""
        return self._send(
            "PUT",
            "create",
            key,
            url=str(staged.token["session"]),
            accept=(200, 201),
            headers={"Content-Range": f"bytes {sent}/{staged.bytes}", **headers},
            carries="generation",
            **options,
        )

    def _finalised(self, staged: Staged, key: str, lost: bool, said: bool) -> bool:
        """Whether an earlier request completed the upload, with its answer `lost` or not.

        The store may have `said` that the object exists.
        """
        try:
            answer = self._finalise(staged, key, "*", {})
        except LakeportError:
            pass
        else:
            _check(answer, staged, self.uri(key))
            return True
        try:
            return bool(self._carries(key, str(staged.token["id"]), said=said))
        except PermissionRefused:
            if not lost:
                return False
            raise DestinationError(
                f"{self.uri(key)}: the answer to the last request got lost, and it can't be told "
                "whether the object is this run's",
                "look at the object's metadata; storage.objects.get would let lakeport do so.",
            ) from None

    def discard(self, staged: Staged) -> None:
        """Cancel the upload. Never raises."""
        self.cancel(str(staged.token["session"]))

    def cancel(self, session: str) -> None:
        """Cancel an upload; the store forgets one that is left alone after a week."""
        if session:
            done = (200, 204, 404, 410, 499)
            with suppress(LakeportError):
                self._send("DELETE", "create", "", url=session, accept=done, retry_policy=_BRIEF)

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs; only files lie here, so that `tables` changes nothing."""
        return GcsCheck(self).items()

    def resource(self, key: str, kind: str, mark: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Query and body that describe a new object."""
        encrypted = self.settings.kms_key_name
        about = {"contentType": kind, "metadata": {ID_KEY: mark}}
        query = {"kmsKeyName": encrypted} if encrypted else {}
        return query, {"name": join_key(self.prefix, key), **about}

    def _put(self, key: str, data: bytes, mark: str, over: str | None) -> None:
        kind = "application/octet-stream"
        query, about = self.resource(key, kind, mark)
        about["crc32c"] = crc32c_text(data)
        if over is not None:
            query["ifGenerationMatch"] = over or "0"
        self._send(
            "POST",
            "create",
            key,
            url=self.settings.upload_url(self.bucket),
            accept=(200, 201),
            condition=condition_of(over),
            params={"uploadType": "multipart", **query},
            headers={"Content-Type": f"multipart/related; boundary={mark}"},
            data=_two_parts(mark, json.dumps(about).encode(), kind, data),
            carries="generation",
        )

    def _has_mark(self, key: str, mark: str) -> bool:
        found = self._get(key, fields="generation,metadata").json()
        return bool(found.get("metadata", {}).get(ID_KEY) == mark)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        if not version:
            return bytes(self._get(key, alt="media").content)
        asked = {"Range": f"bytes={start}-{end - 1}"}
        return bytes(self._get(key, asked, alt="media", generation=version).content)

    def _size_and_version(self, key: str) -> tuple[int, str]:
        found = self._get(key, fields="size,generation").json()
        return int(found["size"]), str(found["generation"])

    def _rows(self, start: str, one_level: bool, token: str, limit: int, after: str) -> ListingPage:
        query = {
            "fields": _FIELDS,
            "prefix": start,
            "delimiter": "/" if one_level else "",
            "pageToken": token,
            "startOffset": after,
            "maxResults": str(limit or ""),
        }
        page = self.connection.send(
            "GET",
            self.settings.object_url(self.bucket),
            "storage.objects.list",
            f"gs://{self.bucket}/{start}".rstrip("/"),
            params={name: value for name, value in query.items() if value},
            carries="kind",
        ).json()
        rows = [_stored(row) for row in page.get("items", [])]
        return ListingPage(rows, page.get("nextPageToken") or "", page.get("prefixes", []))

    def _delete(self, key: str) -> None:
        self._send("DELETE", "delete", key, accept=(200, 204))

    def _get(self, key: str, headers: Mapping[str, str] | None = None, /, **query: str) -> Any:
        carries = "X-Goog-Generation" if "alt" in query else "generation"
        about: dict[str, Any] = {"headers": headers or {}, "params": query, "carries": carries}
        return self._send("GET", "get", key, accept=(200, 206), **about)

    def _send(self, method: str, action: str, key: str, *, url: str = "", **options: Any) -> Any:
        url = url or self.settings.object_url(self.bucket, join_key(self.prefix, key))
        action = f"storage.objects.{action}"
        return self.connection.send(method, url, action, self.uri(key), **options)


def _check(answer: Any, staged: Staged, name: str) -> None:
    """Compare the checksum of what was stored, where the store tells it, with what was sent."""
    sent = staged.token["crc32c"]
    stored = answer.json().get("crc32c", sent)
    if stored != sent:
        raise DestinationError(
            f"{name} was stored with CRC32C {stored}, but {sent} was sent",
            "remove the object and run again; look for a proxy that changes requests.",
        )


def _two_parts(boundary: str, about: bytes, kind: str, data: bytes) -> bytes:
    line = f"--{boundary}".encode()
    json_type = b"Content-Type: application/json; charset=UTF-8"
    rows = [line, json_type, b"", about, line, f"Content-Type: {kind}".encode(), b"", data]
    return b"\r\n".join([*rows, line + b"--", b""])


def _stored(row: Mapping[str, Any]) -> StoredObject:
    etag = row.get("md5Hash") or row.get("crc32c") or row.get("etag", "")
    changed = datetime.fromisoformat(row["updated"]).timestamp() if "updated" in row else 0.0
    return StoredObject(row["name"], int(row["size"]), etag, changed)
