"""Google Cloud Storage as keys below one prefix."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, cast

from lakeport.errors import ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.checksums import crc32c_text
from lakeport.storage.gcs.client import connect, with_credentials
from lakeport.storage.gcs.errors import Absent
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.upload import ID_KEY, GcsStageWriter, cancel, finalise, is_ours, resource
from lakeport.storage.keys import join_key, under
from lakeport.storage.probe import honours_create_only
from lakeport.storage.ranged import RangedReader, replaced

__all__ = ["GcsStorage"]

_conditional: dict[tuple[str, str, str], bool] = {}


@dataclass(frozen=True, slots=True)
class GcsStorage:
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
    def can_rename_staged(self) -> bool:
        """Never: a resumable upload knows its name from the start."""
        return False

    def uri(self, key: str = "") -> str:
        """`gs://bucket/prefix/key`."""
        return f"gs://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_uri(self, key: str = "") -> str:
        """The same as `uri`."""
        return self.uri(key)

    def needs_unique_names(self) -> bool:
        """Whether the store ignores `ifGenerationMatch`, so that names must not clash at all.

        Google honours it; any other endpoint is probed once per process.

        Raises:
            DestinationError: the probe can't be written.
        """
        if self.settings.is_google:
            return False
        at = (self.settings.endpoint, self.bucket, self.prefix)
        if at not in _conditional:
            _conditional[at] = honours_create_only(self)
        return not _conditional[at]

    def stage(self, key: str, content_type: str, metadata: Mapping[str, str]) -> GcsStageWriter:
        """Begin a resumable upload."""
        full = join_key(self.prefix, key)
        return GcsStageWriter(self.bucket, full, self.settings, content_type, metadata)

    def publish(self, staged: Staged, key: str) -> None:
        """Send the bytes held back; see `gcs_upload.finalise`."""
        finalise(self.bucket, join_key(self.prefix, key), staged, self.settings)

    def discard(self, staged: Staged) -> None:
        """Cancel the upload. Never raises."""
        cancel(str(staged.token["session"]), self.settings)

    def marked(self, mark: str) -> GcsStorage:
        """The same: nothing here needs a mark."""
        return self

    def drop_strays(self, staged: Sequence[Staged]) -> None:
        """Nothing: sessions that were not finished are invisible, and expire by themselves."""

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible object carries the mark of this upload."""
        full = join_key(self.prefix, key)
        return is_ours(self.bucket, full, str(staged.token["id"]), self.settings)

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object.

        A lost or untrue answer is made up for where storage.objects.get is allowed; where it is
        not, the object counts as somebody else's.
        """
        full, mark = join_key(self.prefix, key), uuid.uuid4().hex
        kind = "application/octet-stream"
        query, about = resource(full, kind, {ID_KEY: mark}, self.settings)
        about["crc32c"] = crc32c_text(data)
        if create_only:
            query["ifGenerationMatch"] = "0"
        try:
            connect(self.settings).request(
                "POST",
                self.settings.upload_url(self.bucket),
                "storage.objects.create",
                self.uri(key),
                accept=(200, 201),
                condition="absent" if create_only else "none",
                params={"uploadType": "multipart", **query},
                headers={"Content-Type": f"multipart/related; boundary={mark}"},
                data=_two_parts(mark, json.dumps(about).encode(), kind, data),
            )
        except ObjectExists:
            if not self._marked(full, mark):
                raise

    def get(self, key: str) -> bytes | None:
        """Read one small object whole."""
        try:
            return bytes(self._get(key, alt="media").content)
        except Absent:
            return None

    def open(self, key: str) -> BinaryIO:
        """Open an object; what is read is of one generation."""
        about = self._get(key, fields="size,generation").json()
        generation = str(about["generation"])

        def fetch(start: int, end: int) -> bytes:
            asked = {"Range": f"bytes={start}-{end - 1}"}
            try:
                answer = self._get(key, asked, alt="media", generation=generation)
            except Absent:
                raise replaced(self.uri(key)) from None
            return bytes(answer.content)

        reader = RangedReader(fetch, int(about["size"]), self.uri(key))
        return cast(BinaryIO, io.BufferedReader(reader, 64 << 10))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Objects named `prefix` or below it, in the order of their keys' bytes."""
        full = join_key(self.prefix, prefix)
        if prefix:
            first = self._page(prefix, prefix=full, maxResults="1")
            yield from (_stored(self.prefix, row) for row in _rows(first) if row["name"] == full)
        query = {"prefix": f"{full}/"} if full else {}
        while True:
            page = self._page(prefix, **query)
            yield from (_stored(self.prefix, row) for row in _rows(page))
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def sweep(self) -> int:
        """Nothing: sessions that were not finished expire by themselves."""
        return 0

    def delete(self, key: str) -> None:
        """Remove an object."""
        try:
            connect(self.settings).request(
                "DELETE",
                self.settings.object_url(self.bucket, join_key(self.prefix, key)),
                "storage.objects.delete",
                self.uri(key),
                accept=(200, 204),
            )
        except Absent:
            return

    def shorten_deadline(self) -> None:
        """Give the requests that come next a few seconds together."""
        connect(self.settings).retrier.shorten_deadline()

    def _get(self, key: str, headers: dict[str, str] | None = None, /, **query: str) -> Any:
        return connect(self.settings).request(
            "GET",
            self.settings.object_url(self.bucket, join_key(self.prefix, key)),
            "storage.objects.get",
            self.uri(key),
            accept=(200, 206),
            headers=headers,
            params=query,
        )

    def _page(self, key: str, **query: str) -> Mapping[str, Any]:
        answer = connect(self.settings).request(
            "GET",
            self.settings.object_url(self.bucket),
            "storage.objects.list",
            self.uri(key),
            params={
                "fields": "items(name,size,md5Hash,crc32c,etag,updated),nextPageToken",
                **query,
            },
        )
        return cast(Mapping[str, Any], answer.json())

    def _marked(self, full: str, mark: str) -> bool:
        try:
            return is_ours(self.bucket, full, mark, self.settings)
        except PermissionRefused:
            return False


def _two_parts(boundary: str, about: bytes, kind: str, data: bytes) -> bytes:
    line = f"--{boundary}".encode()
    json_type = b"Content-Type: application/json; charset=UTF-8"
    rows = [line, json_type, b"", about, line, f"Content-Type: {kind}".encode(), b"", data]
    return b"\r\n".join([*rows, line + b"--", b""])


def _rows(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = page.get("items", [])
    return [row for row in rows if not row["name"].endswith("/")]


def _stored(prefix: str, row: Mapping[str, Any]) -> StoredObject:
    etag = row.get("md5Hash") or row.get("crc32c") or row.get("etag", "")
    changed = datetime.fromisoformat(row["updated"]).timestamp() if "updated" in row else 0.0
    return StoredObject(under(prefix, row["name"]), int(row["size"]), etag, changed)
