"""Google Cloud Storage: objects below one prefix of a bucket."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeport.errors import (
    DestinationError,
    LakeportError,
    ObjectExists,
    PermissionRefused,
)
from lakeport.model import CheckItem, Staged, StoredObject
from lakeport.storage.base import CloudStorage, ListingPage, join_key
from lakeport.storage.checks import CloudCheck
from lakeport.storage.gcs.client import GcsConnection, connect, with_credentials
from lakeport.storage.gcs.errors import may_have_succeeded
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.parts import CloudStageWriter, crc32c_text
from lakeport.storage.retry import (
    NotFound,
    RetryPolicy,
    condition_for,
    exists_error,
)

ID_KEY = "lakeport-id"
_UNIT = 256 << 10  # all chunks but the last have to be multiples of it
_CHUNK = 8 << 20
_CANCEL_RETRIES = RetryPolicy(deadline=10)
_INCOMPLETE = 308
_MAX_STALLS = 3  # answers in a row without progress

_FIELDS = "kind,items(name,size,md5Hash,crc32c,etag,updated),prefixes,nextPageToken"


class GcsStageWriter(CloudStageWriter):
    """Uploads chunks of 8 MiB (resumable upload) while the caller writes; at most two in memory.

    The bytes after the last whole 256 KiB go into the token. So the upload is complete, and the
    object visible, only when the driver sends them.
    """

    def __init__(self, storage: GcsStorage, key: str, content_type: str) -> None:
        self._session = ""
        self._name_taken = False
        self._sent = 0
        self._tail = b""
        super().__init__(storage, key, content_type, lambda number: _CHUNK, threads=1)

    def abort(self) -> None:
        """Cancel the upload. Never raises."""
        super().abort()
        self._storage.cancel(self._session)

    def _token(self, parts: list[Any]) -> dict[str, Any]:
        """Return the publish token: session (empty if the name is taken), unsent bytes, CRC32C."""
        return {
            "session": "" if self._name_taken else self._session,
            "offset": self._sent,
            "tail": base64.b64encode(self._tail).decode(),
            "crc32c": self._chunker.checksum,
        }

    def _begin(self) -> None:
        """Open a resumable upload session; a taken name is only recorded, and `publish` raises."""
        query, about = self._storage.object_request(self._key, self._content_type, self._id)
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
                    "X-Upload-Content-Type": self._content_type,
                },
                data=json.dumps(about).encode(),
                required_member="Location",
            )
        except ObjectExists:
            self._name_taken = True
        else:
            self._session = str(answer.headers["Location"])

    def _send_last(self, part: bytes) -> None:
        """Send the last part up to a multiple of 256 KiB; keep the rest for the publish token."""
        whole = len(part) // _UNIT * _UNIT
        self._tail = part[whole:]
        super()._send_last(part[:whole])

    def _send(self, number: int, part: bytes) -> None:
        """Send a part in one or more requests, until the store has all of it or the name is taken.

        Raises DestinationError if the store keeps nothing more, or says that it has lost bytes.
        """
        begin, end = self._sent, self._sent + len(part)
        stalled = 0
        while self._sent < end and not self._name_taken:
            try:
                kept = self._send_chunk(part[self._sent - begin :], end)
            except ObjectExists:
                self._name_taken = True
                return
            stalled = stalled + 1 if kept == self._sent else 0
            if kept < self._sent or kept > end or stalled > _MAX_STALLS:
                raise DestinationError(
                    f"{self._storage.uri(self._key)}: the store keeps {kept} of {end} bytes",
                    "run it again; nothing of this object is visible.",
                )
            self._sent = kept

    def _send_chunk(self, data: bytes, end: int) -> int:
        """PUT the next bytes, up to before offset `end`; return how many are stored in all."""
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
    """Storage of the objects below a prefix of a Google Cloud Storage bucket.

    Writing needs storage.objects.create alone (roles/storage.objectCreator); no request asks for
    the bucket itself. The methods that read, list and delete need the permission of that name. The
    prefix is clean, see `base.clean_prefix`, and empty for the whole bucket.
    """

    bucket: str
    prefix: str = ""
    settings: GcpSettings = field(default_factory=GcpSettings)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the storage with its credentials, as a worker may find none."""
        return GcsStorage, (self.bucket, self.prefix, with_credentials(self.settings))

    @property
    def connection(self) -> GcsConnection:
        """This process's connection to the endpoint."""
        return connect(self.settings)

    def uri(self, key: str = "") -> str:
        """Return `gs://bucket/prefix/key`."""
        return f"gs://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def session_settings(self) -> Mapping[str, str]:
        """Return the settings of Google's connector, which loads and queries do without."""
        return self.settings.hadoop_settings()

    def stage(self, key: str, content_type: str) -> GcsStageWriter:
        """Return a writer that stages a new object as a resumable upload."""
        return GcsStageWriter(self, key, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Send the upload's last bytes, making it visible; ObjectExists if the name is taken.

        If an answer is lost, the upload session says whether it was completed. Raises
        DestinationError if the stored bytes have another checksum than those that were sent.
        """
        token = staged.token
        if not token["session"]:
            raise exists_error(self.uri(key))
        tail = base64.b64decode(token["tail"])
        begin = int(token["offset"])
        byte_range = f"{begin}-{begin + len(tail) - 1}" if tail else "*"
        transient_failures: list[Exception] = []
        try:
            answer = self._send_final(
                staged,
                key,
                byte_range,
                {"X-Goog-Hash": f"crc32c={token['crc32c']}"},
                condition="absent",
                data=tail,
                transient_failures=transient_failures,
            )
        except (ObjectExists, NotFound) as error:
            answer_lost = any(map(may_have_succeeded, transient_failures))
            if not self._has_completed(staged, key, answer_lost, isinstance(error, ObjectExists)):
                raise
            return
        _check_checksum(answer, staged, self.uri(key))

    def _send_final(
        self, staged: Staged, key: str, byte_range: str, headers: Mapping[str, str], **options: Any
    ) -> Any:
        """PUT an upload's last byte range, or `*` to query its state; raise if it is incomplete."""
        return self._send(
            "PUT",
            "create",
            key,
            url=str(staged.token["session"]),
            accept=(200, 201),
            headers={"Content-Range": f"bytes {byte_range}/{staged.bytes}", **headers},
            required_member="generation",
            **options,
        )

    def _has_completed(self, staged: Staged, key: str, answer_lost: bool, exists: bool) -> bool:
        """Whether an earlier request completed the upload; DestinationError if that stays unknown.

        The session says so, or else the object's mark. `exists`: the store has just reported the
        object.
        """
        try:
            answer = self._send_final(staged, key, "*", {})
        except LakeportError:
            pass
        else:
            _check_checksum(answer, staged, self.uri(key))
            return True
        try:
            return bool(self._find_mark(key, str(staged.token["id"]), exists=exists))
        except PermissionRefused:
            if not answer_lost:
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
        """Cancel an upload session; ignore failures, as the store drops it after a week."""
        if session:
            done = (200, 204, 404, 410, 499)
            with suppress(LakeportError):
                self._send(
                    "DELETE", "create", "", url=session, accept=done, retry_policy=_CANCEL_RETRIES
                )

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Return the connection test of this bucket; `tables` changes nothing, as none lie here."""
        return GcsCheck(self).items()

    def object_request(
        self, key: str, content_type: str, mark: str
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Return query and JSON body of a request to create an object with `mark` as metadata."""
        encrypted = self.settings.kms_key_name
        about = {"contentType": content_type, "metadata": {ID_KEY: mark}}
        query = {"kmsKeyName": encrypted} if encrypted else {}
        return query, {"name": join_key(self.prefix, key), **about}

    def _put(self, key: str, data: bytes, mark: str, expected_version: str | None) -> None:
        """Put an object with `mark` in its metadata, conditional on its generation; or raise."""
        content_type = "application/octet-stream"
        query, about = self.object_request(key, content_type, mark)
        about["crc32c"] = crc32c_text(data)
        if expected_version is not None:
            query["ifGenerationMatch"] = expected_version or "0"
        self._send(
            "POST",
            "create",
            key,
            url=self.settings.upload_url(self.bucket),
            accept=(200, 201),
            condition=condition_for(expected_version),
            params={"uploadType": "multipart", **query},
            headers={"Content-Type": f"multipart/related; boundary={mark}"},
            data=_multipart_body(mark, json.dumps(about).encode(), content_type, data),
            required_member="generation",
        )

    def _has_mark(self, key: str, mark: str) -> bool:
        """Whether the object has this mark in its metadata; see `CloudStorage._has_mark`."""
        found = self._get(key, fields="generation,metadata").json()
        return bool(found.get("metadata", {}).get(ID_KEY) == mark)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        """Return an object's content, or with `version` the bytes `start` to `end`, exclusive."""
        if not version:
            return bytes(self._get(key, alt="media").content)
        headers = {"Range": f"bytes={start}-{end - 1}"}
        return bytes(self._get(key, headers, alt="media", generation=version).content)

    def _size_and_version(self, key: str) -> tuple[int, str]:
        """Return an object's size in bytes and its version, its generation."""
        found = self._get(key, fields="size,generation").json()
        return int(found["size"]), str(found["generation"])

    def _list_page(
        self, start: str, one_level: bool, token: str, limit: int, after: str
    ) -> ListingPage:
        """List one page of objects whose keys begin with `start`, from the key `after` on."""
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
            required_member="kind",
        ).json()
        rows = [_describe_object(row) for row in page.get("items", [])]
        return ListingPage(rows, page.get("nextPageToken") or "", page.get("prefixes", []))

    def _delete(self, key: str) -> None:
        """Delete an object; see `CloudStorage._delete`."""
        self._send("DELETE", "delete", key, accept=(200, 204))

    def _get(self, key: str, headers: Mapping[str, str] | None = None, /, **query: str) -> Any:
        """GET an object's content (`alt="media"`) or its metadata; return the HTTP response."""
        member = "X-Goog-Generation" if "alt" in query else "generation"
        about: dict[str, Any] = {"headers": headers or {}, "params": query}
        return self._send("GET", "get", key, accept=(200, 206), required_member=member, **about)

    def _send(self, method: str, action: str, key: str, *, url: str = "", **options: Any) -> Any:
        """Send a request about an object, with retries; `options` go to `GcsConnection.send`."""
        url = url or self.settings.object_url(self.bucket, join_key(self.prefix, key))
        action = f"storage.objects.{action}"
        return self.connection.send(method, url, action, self.uri(key), **options)


def _check_checksum(answer: Any, staged: Staged, name: str) -> None:
    """Raise DestinationError if the stored CRC32C differs from that of the bytes sent."""
    sent = staged.token["crc32c"]
    stored = answer.json().get("crc32c", sent)
    if stored != sent:
        raise DestinationError(
            f"{name} was stored with CRC32C {stored}, but {sent} was sent",
            "remove the object and run again; look for a proxy that changes requests.",
        )


def _multipart_body(boundary: str, description: bytes, content_type: str, data: bytes) -> bytes:
    """Return a `multipart/related` body of an object's JSON description and its data."""
    line = f"--{boundary}".encode()
    json_type = b"Content-Type: application/json; charset=UTF-8"
    data_type = f"Content-Type: {content_type}".encode()
    rows = [line, json_type, b"", description, line, data_type, b"", data]
    return b"\r\n".join([*rows, line + b"--", b""])


def _describe_object(row: Mapping[str, Any]) -> StoredObject:
    """Convert an entry of Google's listing to a StoredObject; its etag is the MD5 or CRC32C."""
    etag = row.get("md5Hash") or row.get("crc32c") or row.get("etag", "")
    changed = datetime.fromisoformat(row["updated"]).timestamp() if "updated" in row else 0.0
    return StoredObject(row["name"], int(row["size"]), etag, changed)


class GcsCheck(CloudCheck):
    """Connection test of a bucket: credentials, clock, create-only writes."""

    condition = "ifGenerationMatch"
    upload = "resumable upload"
    endpoint = "google_endpoint"
    storage: GcsStorage

    def check_credentials(self) -> str:
        """Fetch a token, or raise; return a text: source and account of the credentials."""
        settings = self.storage.settings
        if settings.anonymous:
            return f"none: {settings.address} is asked without credentials"
        connection = connect(settings)
        connection.authenticate()
        source = "application default credentials"
        if settings.credentials:
            source = "`google_application_credentials`"
        account = f" ({connection.account})" if connection.account else ""
        return f"found in {source}{account}"
