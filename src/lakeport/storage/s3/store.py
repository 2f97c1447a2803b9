"""Amazon S3, and every store that speaks its protocol, as keys below one prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from lakeport.errors import LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.base import CloudStorage, ListingPage, join_key
from lakeport.storage.checks import CheckItem
from lakeport.storage.parts import CloudStageWriter, crc32c_text, md5_text
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.client import (
    ID_KEY,
    AwsSettings,
    S3Check,
    S3Connection,
    connect,
    found_keys,
    with_credentials,
)
from lakeport.storage.s3.errors import NoSuchUpload, contended, may_have_succeeded
from lakeport.storage.s3.hadoop import hadoop_settings

_MIB = 1 << 20
_LAST_PART = 10_000
_BRIEF = RetryPolicy(deadline=10)


def part_bytes(number: int) -> int:
    """Size of part `number`, from 1: 16 MiB, doubled each 1,000 parts from part 5,001 on.

    The 10,000 parts that S3 allows come to 1 TiB, while up to 80 GB all parts have one size, which
    some stores want.

    >>> part_bytes(1) >> 20, part_bytes(5000) >> 20, part_bytes(5001) >> 20, part_bytes(10000) >> 20
    (16, 16, 32, 512)
    """
    return 16 * _MIB << max(0, (number - 1) // 1000 - 4)


class S3StageWriter(CloudStageWriter):
    """Uploads parts while the encoder goes on; at most three parts are in memory."""

    def __init__(self, storage: S3Storage, key: str, content_type: str) -> None:
        super().__init__(part_bytes, 2)
        self._storage, self._key = storage, key
        self._parts: dict[int, dict[str, Any]] = {}
        self._upload = self._submit(self._create, content_type)

    def abort(self) -> None:
        """Drop the upload, if the permissions allow it. Never raises."""
        super().abort()
        if not self._upload.cancelled() and self._upload.exception() is None:
            self._storage.abort(join_key(self._storage.prefix, self._key), self._upload.result())

    def _create(self, content_type: str) -> str:
        settings = self._storage.settings
        about: dict[str, Any] = {
            "ContentType": content_type,
            "Metadata": {**dict(settings.metadata), ID_KEY: self._id},
            **settings.object_parameters(),
        }
        if settings.tags:
            about["Tagging"] = urlencode(settings.tags)
        if settings.content_checksum == "crc32c":
            about |= {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        return str(self._storage._call("create_multipart_upload", self._key, **about)["UploadId"])

    def _send_rest(self, rest: bytes) -> None:
        if rest or not self._chunker.number:
            self._submit(self._send, max(1, self._chunker.number), rest)

    def _send(self, number: int, part: bytes) -> None:
        upload = self._upload.result()
        self._parts[number] = self._storage._put_part(self._key, upload, number, part)

    def _token(self) -> dict[str, Any]:
        token = {
            "upload_id": self._upload.result(),
            "parts": [self._parts[number] for number in sorted(self._parts)],
            "key": join_key(self._storage.prefix, self._key),
        }
        if self._storage.settings.content_checksum == "crc32c" and self._chunker.bytes:
            token["crc32c"] = self._chunker.checksum  # MinIO refuses the one of an empty object
        return token


def verified(body: bytes, settings: AwsSettings) -> dict[str, Any]:
    """Request parameters that let the store verify the bytes it gets."""
    match settings.content_checksum:
        case "crc32c":
            return {"ChecksumCRC32C": crc32c_text(body)}
        case "md5":
            return {"ContentMD5": md5_text(body)}
    return {}


@dataclass(frozen=True, slots=True)
class S3Storage(CloudStorage):
    """A prefix of a bucket.

    Writing needs s3:PutObject alone. s3:AbortMultipartUpload is used where it is allowed, and
    s3:GetObject, s3:ListBucket and s3:DeleteObject only by the methods that read, list and delete.

    Attributes:
        bucket: the bucket's name.
        prefix: clean, see `base.clean_prefix`; empty for the whole bucket.
        settings: how to reach it.
    """

    bucket: str
    prefix: str = ""
    settings: AwsSettings = field(default_factory=AwsSettings)

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the credentials along to tasks, which may run where none can be found."""
        return S3Storage, (self.bucket, self.prefix, with_credentials(self.settings))

    @property
    def connection(self) -> S3Connection:
        """This process's client."""
        return connect(self.settings)

    def uri(self, key: str = "") -> str:
        """`s3://bucket/prefix/key`."""
        return f"s3://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_uri(self, key: str = "") -> str:
        """`s3a://bucket/prefix/key`."""
        return f"s3a://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """What Spark's S3 connector needs to reach the bucket; some values are secrets."""
        credentials = with_credentials if for_workers else found_keys
        return hadoop_settings(self.bucket, credentials(self.settings))

    def stage(self, key: str, content_type: str) -> S3StageWriter:
        """Begin a multipart upload."""
        return S3StageWriter(self, key, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Complete the upload, only if nothing has the name (where the store honours that).

        A lost or untrue answer is made up for: when the request meets an object of that name or no
        upload any more, the object's own mark, or the upload's absence, tells whether it is ours.

        Raises:
            ObjectExists: something else has that name.
            NoSuchUpload: what was staged is gone, and the object is not visible.
        """
        token = staged.token
        parameters: dict[str, Any] = {"IfNoneMatch": "*"} if self.sends_conditions() else {}
        if "crc32c" in token:
            parameters |= {"ChecksumCRC32C": token["crc32c"], "ChecksumType": "FULL_OBJECT"}
        transient_failures: list[Exception] = []
        try:
            self._call(
                "complete_multipart_upload",
                key,
                transient_failures=transient_failures,
                UploadId=token["upload_id"],
                MultipartUpload={"Parts": token["parts"]},
                **parameters,
            )
        except (ObjectExists, NoSuchUpload) as error:
            was_contended = any(map(contended, transient_failures))
            said = isinstance(error, ObjectExists) and not was_contended
            ambiguous = said or any(map(may_have_succeeded, transient_failures))
            if self._completed(key, staged, ambiguous, said):
                return
            if isinstance(error, NoSuchUpload) and was_contended:
                # After a conflict S3 wants the upload begun anew, which is what a clash leads to.
                what = f"{self.uri(key)} was written by somebody else"
                raise ObjectExists(what, error.hint) from None
            raise

    def _completed(self, key: str, staged: Staged, ambiguous: bool, said: bool) -> bool:
        """Whether a request completed the upload, although none of them was told so.

        Without permission to read, one more part is offered to the upload, where it is
        `ambiguous`: it refuses that once it has been completed, and only this process could
        complete it. An upload that S3 ended for a conflict, or a lifecycle rule for its age,
        refuses it, too: that is not ambiguous. The store may have `said` that the object exists.
        """
        try:
            return bool(self._carries(key, str(staged.token["id"]), said=said))
        except PermissionRefused:
            if not ambiguous:
                return False
        try:
            self._put_part(key, str(staged.token["upload_id"]), _LAST_PART, b"-")
        except NoSuchUpload:
            return True
        return False

    def _put_part(self, key: str, upload: str, number: int, body: bytes) -> dict[str, Any]:
        checked = verified(body, self.settings)
        part = {"UploadId": upload, "PartNumber": number, "Body": body, **checked}
        etag = self._call("upload_part", key, **part)["ETag"]
        checked.pop("ContentMD5", None)
        return {"PartNumber": number, "ETag": etag, **checked}

    def discard(self, staged: Staged) -> None:
        """Abort the upload, if the permissions allow it. Never raises."""
        self.abort(str(staged.token["key"]), str(staged.token["upload_id"]))

    def abort(self, full: str, upload: str) -> None:
        """Drop an upload; what is refused or fails is left to the bucket's lifecycle rule."""
        about: dict[str, Any] = {"UploadId": upload, "retry_policy": _BRIEF}
        with suppress(LakeportError):
            self.connection.call("abort_multipart_upload", self.bucket, full, **about)

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
        return bool(self._call("head_object", key).get("Metadata", {}).get(ID_KEY) == mark)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        part = {"Range": f"bytes={start}-{end - 1}", "IfMatch": version} if version else {}
        return bytes(self._call("get_object", key, **part)["Body"])

    def _size_and_version(self, key: str) -> tuple[int, str]:
        head = self._call("head_object", key)
        return int(head["ContentLength"]), str(head["ETag"])

    def _rows(self, start: str, one_level: bool, token: str, limit: int, after: str) -> ListingPage:
        asked: dict[str, Any] = {
            "Delimiter": "/" if one_level else "",
            "StartAfter": after,
            "ContinuationToken": token,
            "MaxKeys": limit,
        }
        asked = {name: value for name, value in asked.items() if value}
        page = self.connection.call(
            "list_objects_v2", self.bucket, start.rstrip("/"), Prefix=start, **asked
        )
        return ListingPage(
            [_stored(row) for row in page.get("Contents", [])],
            page["NextContinuationToken"] if page.get("IsTruncated") else "",
            [row["Prefix"] for row in page.get("CommonPrefixes", [])],
        )

    def _delete(self, key: str) -> None:
        self._call("delete_object", key)

    def _call(self, operation: str, key: str, **parameters: Any) -> Any:
        full = join_key(self.prefix, key)
        return self.connection.call(operation, self.bucket, full, **parameters)


def _stored(row: Mapping[str, Any]) -> StoredObject:
    modified = row["LastModified"].timestamp()
    return StoredObject(row["Key"], row["Size"], row["ETag"].strip('"'), modified)
