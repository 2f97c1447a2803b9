"""Amazon S3, and every store that speaks its protocol, as keys below one prefix."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

from lakeport.errors import LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.keys import join_key, under
from lakeport.storage.probe import honours_create_only
from lakeport.storage.ranged import RangedReader
from lakeport.storage.s3.client import connect, with_credentials
from lakeport.storage.s3.messages import NoSuchKey
from lakeport.storage.s3.settings import ID_KEY, AwsSettings
from lakeport.storage.s3.upload import (
    S3StageWriter,
    abort,
    complete,
    is_ours,
    marked_uploads,
    verified,
)

__all__ = ["S3Storage"]

_conditional: dict[tuple[str, str, str], bool] = {}


@dataclass(frozen=True, slots=True)
class S3Storage:
    """A prefix of a bucket.

    Writing needs s3:PutObject alone. s3:AbortMultipartUpload is used where it is allowed, and
    s3:GetObject, s3:ListBucket and s3:DeleteObject only by the methods that read, list and delete.

    Attributes:
        bucket: the bucket's name.
        prefix: clean, see `keys.clean_prefix`; empty for the whole bucket.
        settings: how to reach it.
        mark: tells the uploads of one run from those of others, on a cluster, where a task that
            is lost leaves its uploads behind; empty for none.
    """

    bucket: str
    prefix: str = ""
    settings: AwsSettings = field(default_factory=AwsSettings)
    mark: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the credentials along to tasks, which may run where none can be found."""
        return S3Storage, (self.bucket, self.prefix, with_credentials(self.settings), self.mark)

    @property
    def can_rename_staged(self) -> bool:
        """Never: a multipart upload knows its key from the start."""
        return False

    def uri(self, key: str = "") -> str:
        """`s3://bucket/prefix/key`."""
        return f"s3://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_uri(self, key: str = "") -> str:
        """`s3a://bucket/prefix/key`."""
        return f"s3a://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def needs_unique_names(self) -> bool:
        """Whether the store ignores `If-None-Match`, so that names must not clash at all.

        AWS honours it; any other endpoint is probed once per process.

        Raises:
            DestinationError: the probe can't be written.
        """
        if self.settings.is_aws:
            return False
        at = (self.settings.endpoint, self.bucket, self.prefix)
        if at not in _conditional:
            _conditional[at] = honours_create_only(self)
        return not _conditional[at]

    def stage(self, key: str, content_type: str, metadata: Mapping[str, str]) -> S3StageWriter:
        """Begin a multipart upload."""
        full = join_key(self.prefix, key)
        return S3StageWriter(self.bucket, full, self.settings, content_type, metadata, self.mark)

    def publish(self, staged: Staged, key: str) -> None:
        """Complete the upload; see `s3_upload.complete`."""
        complete(self.bucket, join_key(self.prefix, key), staged, self.settings, self._sends())

    def discard(self, staged: Staged) -> None:
        """Abort the upload, if the permissions allow it. Never raises."""
        abort(self.bucket, str(staged.token["key"]), str(staged.token["upload_id"]), self.settings)

    def marked(self, mark: str) -> S3Storage:
        """The same place, with marked uploads; see `s3_upload.marked_uploads`."""
        return replace(self, mark=mark)

    def drop_strays(self, staged: Sequence[Staged]) -> None:
        """Abort the other uploads of these keys that carry this storage's mark."""
        ours = {str(one.token["upload_id"]) for one in staged}
        for key in dict.fromkeys(str(one.token["key"]) for one in staged):
            try:
                for upload in marked_uploads(self.bucket, key, self.mark, self.settings):
                    if upload not in ours:
                        abort(self.bucket, key, upload, self.settings)
            except LakeportError:
                return  # not allowed to look: the bucket's lifecycle rule aborts them

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible object carries the mark of this upload."""
        full = join_key(self.prefix, key)
        return is_ours(self.bucket, full, str(staged.token["id"]), self.settings)

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object.

        A lost or untrue answer is made up for where s3:GetObject is allowed; where it is not, the
        object counts as somebody else's.
        """
        full, mark = join_key(self.prefix, key), uuid.uuid4().hex
        parameters: dict[str, Any] = {
            "Body": data,
            "Metadata": {ID_KEY: mark},
            **self.settings.object_parameters(),
            **verified(data, self.settings),
        }
        if create_only and self._sends():
            parameters["IfNoneMatch"] = "*"
        try:
            self._call("put_object", full, **parameters)
        except ObjectExists:
            if not self._marked(full, mark):
                raise

    def get(self, key: str) -> bytes | None:
        """Read one small object whole."""
        try:
            return bytes(self._call("get_object", join_key(self.prefix, key))["Body"])
        except NoSuchKey:
            return None

    def open(self, key: str) -> BinaryIO:
        """Open an object; it is an error if it is replaced while it is read."""
        full = join_key(self.prefix, key)
        head = self._call("head_object", full)
        etag = str(head["ETag"])

        def fetch(start: int, end: int) -> bytes:
            part = f"bytes={start}-{end - 1}"
            return bytes(self._call("get_object", full, Range=part, IfMatch=etag)["Body"])

        reader = RangedReader(fetch, int(head["ContentLength"]), self.uri(key))
        return cast(BinaryIO, io.BufferedReader(reader, 64 << 10))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Objects named `prefix` or below it, in the order of their keys' bytes."""
        full = join_key(self.prefix, prefix)
        if prefix:
            first = self._call("list_objects_v2", full, Prefix=full, MaxKeys=1)
            yield from (_stored(self.prefix, row) for row in _rows(first) if row["Key"] == full)
        folder = f"{full}/" if full else ""
        token: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", full, Prefix=folder, **token)
            yield from (_stored(self.prefix, row) for row in _rows(page))
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def sweep(self) -> int:
        """Nothing: a lifecycle rule that aborts incomplete multipart uploads does that."""
        return 0

    def delete(self, key: str) -> None:
        """Remove an object."""
        try:
            self._call("delete_object", join_key(self.prefix, key))
        except NoSuchKey:
            return

    def shorten_deadline(self) -> None:
        """Give the requests that come next a few seconds together."""
        connect(self.settings).retrier.shorten_deadline()

    def _call(self, operation: str, full: str, **parameters: Any) -> Any:
        return connect(self.settings).call(operation, self.bucket, full, **parameters)

    def _sends(self) -> bool:
        """Whether to send the condition: always, unless a probe showed that it is of no use."""
        return _conditional.get((self.settings.endpoint, self.bucket, self.prefix), True)

    def _marked(self, full: str, mark: str) -> bool:
        try:
            return is_ours(self.bucket, full, mark, self.settings)
        except PermissionRefused:
            return False


def _rows(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = page.get("Contents", [])
    return [row for row in rows if not row["Key"].endswith("/")]


def _stored(prefix: str, row: Mapping[str, Any]) -> StoredObject:
    return StoredObject(
        under(prefix, row["Key"]),
        row["Size"],
        row["ETag"].strip('"'),
        row["LastModified"].timestamp(),
    )
