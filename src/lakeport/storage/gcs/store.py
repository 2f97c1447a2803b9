"""Google Cloud Storage as keys below one prefix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeport.model import Staged, StoredObject
from lakeport.storage.base import CloudStorage, Page, folder_names, start_of_keys
from lakeport.storage.checks import CheckItem
from lakeport.storage.checksums import crc32c_text
from lakeport.storage.failures import condition_of
from lakeport.storage.gcs.check import GcsCheck
from lakeport.storage.gcs.client import GcsConnection, Request, connect, with_credentials
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.upload import ID_KEY, GcsStageWriter, cancel, finalise, is_ours, resource
from lakeport.storage.keys import join_key, under

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
