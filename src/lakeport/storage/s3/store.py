"""Amazon S3, and every store that speaks its protocol, as keys below one prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakeport.errors import LakeportError
from lakeport.model import Staged, StoredObject
from lakeport.storage.base import CloudStorage, Page, folder_names, start_of_keys
from lakeport.storage.checks import CheckItem
from lakeport.storage.keys import join_key, under
from lakeport.storage.s3.check import S3Check
from lakeport.storage.s3.client import S3Connection, connect, for_spark, with_credentials
from lakeport.storage.s3.hadoop import hadoop_settings
from lakeport.storage.s3.settings import ID_KEY, AwsSettings
from lakeport.storage.s3.upload import (
    S3StageWriter,
    abort,
    complete,
    is_ours,
    marked_uploads,
    verified,
)


@dataclass(frozen=True, slots=True)
class S3Storage(CloudStorage):
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
    def connection(self) -> S3Connection:
        """This process's client."""
        return connect(self.settings)

    @property
    def always_conditional(self) -> bool:
        """Whether it is AWS, who honours `If-None-Match`."""
        return self.settings.is_aws

    def uri(self, key: str = "") -> str:
        """`s3://bucket/prefix/key`."""
        return f"s3://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_uri(self, key: str = "") -> str:
        """`s3a://bucket/prefix/key`."""
        return f"s3a://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """What Spark's S3 connector needs to reach the bucket; some values are secrets.

        Args:
            for_workers: with the keys that this process finds, for workers that would find none.
        """
        return hadoop_settings(self.bucket, for_spark(self.settings, for_workers=for_workers))

    def stage(self, key: str, content_type: str) -> S3StageWriter:
        """Begin a multipart upload."""
        full = join_key(self.prefix, key)
        return S3StageWriter(self.bucket, full, self.settings, content_type, self.mark)

    def publish(self, staged: Staged, key: str) -> None:
        """Complete the upload; see `s3.upload.complete`."""
        full = join_key(self.prefix, key)
        complete(self.bucket, full, staged, self.settings, self.sends_conditions())

    def discard(self, staged: Staged) -> None:
        """Abort the upload, if the permissions allow it. Never raises."""
        abort(self.bucket, str(staged.token["key"]), str(staged.token["upload_id"]), self.settings)

    def marked(self, mark: str) -> S3Storage:
        """The same place, with marked uploads; see `s3.upload.marked_uploads`."""
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

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs, and, for `tables`, what those need beyond that."""
        return S3Check(self).items(tables=tables)

    def _put(self, key: str, data: bytes, mark: str, over: str | None) -> None:
        parameters: dict[str, Any] = {
            "Body": data,
            "Metadata": {ID_KEY: mark},
            **self.settings.object_parameters(),
            **verified(data, self.settings),
        }
        if over is not None and self.sends_conditions():
            parameters |= {"IfMatch": over} if over else {"IfNoneMatch": "*"}
        self._call("put_object", key, **parameters)

    def _has_mark(self, key: str, mark: str) -> bool:
        return is_ours(self.bucket, join_key(self.prefix, key), mark, self.settings)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        part = {"Range": f"bytes={start}-{end - 1}", "IfMatch": version} if version else {}
        return bytes(self._call("get_object", key, **part)["Body"])

    def _size_and_version(self, key: str) -> tuple[int, str]:
        head = self._call("head_object", key)
        return int(head["ContentLength"]), str(head["ETag"])

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
        asked: dict[str, Any] = {"Prefix": start}
        if one_level:
            asked["Delimiter"] = "/"
        if after:
            asked["StartAfter"] = join_key(self.prefix, after)
        if token:
            asked["ContinuationToken"] = token
        if limit:
            asked["MaxKeys"] = limit
        page = self._call("list_objects_v2", prefix, **asked)
        rows = [row for row in page.get("Contents", []) if not row["Key"].endswith("/")]
        following = page["NextContinuationToken"] if page.get("IsTruncated") else ""
        folders = [row["Prefix"] for row in page.get("CommonPrefixes", [])]
        found = [_stored(self.prefix, row) for row in rows]
        return Page(found, following, folder_names(start, folders))

    def _delete(self, key: str) -> None:
        self._call("delete_object", key)

    def _call(self, operation: str, key: str, **parameters: Any) -> Any:
        full = join_key(self.prefix, key)
        return self.connection.call(operation, self.bucket, full, **parameters)


def _stored(prefix: str, row: Mapping[str, Any]) -> StoredObject:
    return StoredObject(
        under(prefix, row["Key"]),
        row["Size"],
        row["ETag"].strip('"'),
        row["LastModified"].timestamp(),
    )
