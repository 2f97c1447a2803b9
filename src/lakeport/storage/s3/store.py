"""Amazon S3, and every store that speaks its protocol, as keys below one prefix."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from lakeport.errors import LakeportError, ObjectExists, PermissionRefused
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
from lakeport.storage.checksums import Chunker, crc32c_text, md5_text
from lakeport.storage.retry import NotFound, RetryPolicy, found
from lakeport.storage.s3.client import (
    ID_KEY,
    AwsSettings,
    S3Check,
    S3Connection,
    connect,
    for_spark,
    with_credentials,
)
from lakeport.storage.s3.errors import NoSuchUpload, contended, may_have_succeeded
from lakeport.storage.s3.hadoop import hadoop_settings

_MIB = 1 << 20
_THREADS = 2
_LAST_PART = 10_000
_MARKS = (9_000, 1_000, 4_096)  # first part number of marks, how many, and their largest size
_BRIEF = RetryPolicy(deadline=10)


def part_bytes(number: int) -> int:
    """Size of part `number`, from 1: 16 MiB, doubled each 1,000 parts from part 5,001 on.

    The 10,000 parts that S3 allows come to 1 TiB, while up to 80 GB all parts have one size, which
    some stores want.

    >>> part_bytes(1) >> 20, part_bytes(5000) >> 20, part_bytes(5001) >> 20, part_bytes(10000) >> 20
    (16, 16, 32, 512)
    """
    return 16 * _MIB << max(0, (number - 1) // 1000 - 4)


class S3StageWriter:
    """Uploads parts while the encoder goes on; at most three parts are in memory.

    Args:
        bucket: the bucket's name.
        key: the full key.
        settings: how to reach it.
        content_type: the object's MIME type.
        mark: tells which run the upload is of, see `marked_uploads`; empty for none.
    """

    def __init__(
        self,
        bucket: str,
        key: str,
        settings: AwsSettings,
        content_type: str,
        mark: str = "",
    ) -> None:
        self._bucket, self._key, self._settings = bucket, key, settings
        self._id = uuid.uuid4().hex
        self._parameters: dict[str, Any] = {
            "ContentType": content_type,
            "Metadata": {**dict(settings.metadata), ID_KEY: self._id},
            **settings.object_parameters(),
        }
        if settings.tags:
            self._parameters["Tagging"] = urlencode(settings.tags)
        self._chunker = Chunker(part_bytes)
        self._upload = ""
        self._failure: LakeportError | None = None
        self._lock = threading.Lock()
        self._parts: dict[int, dict[str, Any]] = {}
        self._uploads = BackgroundUploads(_THREADS)
        self._uploads.submit(self._begin, mark)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; waits while two parts are under way."""
        for part in self._chunker.feed(data):
            self._uploads.submit(self._send, self._chunker.number, part)
        return memoryview(data).nbytes

    def finish(self) -> Mapping[str, Any]:
        """Send the rest and wait until all parts are stored."""
        rest = self._chunker.rest()
        if rest or not self._chunker.number:
            self._uploads.submit(self._send, max(1, self._chunker.number), rest)
        self._uploads.drain()
        token = {
            "upload_id": self._upload,
            "parts": [self._parts[number] for number in sorted(self._parts)],
            "id": self._id,
            "key": self._key,
        }
        checksum = self._chunker.checksum
        if self._settings.content_checksum == "crc32c" and self._chunker.bytes:
            token["crc32c"] = checksum  # MinIO refuses the one of an empty object
        return {"token": token, "bytes": self._chunker.bytes, "checksum": f"crc32c:{checksum}"}

    def abort(self) -> None:
        """Drop the upload, if the permissions allow it. Never raises."""
        self._uploads.cancel()
        if self._upload:
            abort(self._bucket, self._key, self._upload, self._settings)

    def _begin(self, mark: str) -> None:
        self._upload_id()
        if mark:
            number, size = _marking(mark)
            self._put_part(number, b"-" * size)

    def _upload_id(self) -> str:
        """The upload's id; the first caller creates it, and its failure is everybody's."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if not self._upload:
                try:
                    self._upload = self._create()
                except LakeportError as error:
                    self._failure = error
                    raise
            return self._upload

    def _create(self) -> str:
        whole: dict[str, Any] = {}
        if self._settings.content_checksum == "crc32c":
            whole = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        answer = connect(self._settings).call(
            "create_multipart_upload", self._bucket, self._key, **self._parameters, **whole
        )
        return str(answer["UploadId"])

    def _send(self, number: int, body: bytes) -> None:
        self._parts[number] = self._put_part(number, body)

    def _put_part(self, number: int, body: bytes) -> dict[str, Any]:
        checked = verified(body, self._settings)
        answer = connect(self._settings).call(
            "upload_part",
            self._bucket,
            self._key,
            UploadId=self._upload_id(),
            PartNumber=number,
            Body=body,
            **checked,
        )
        checked.pop("ContentMD5", None)
        return {"PartNumber": number, "ETag": answer["ETag"], **checked}


def complete(
    bucket: str, key: str, staged: Staged, settings: AwsSettings, conditional: bool
) -> None:
    """Make a staged object visible, only if nothing has its name (where `conditional` says so).

    A lost or untrue answer is made up for: when the request meets an object of that name or no
    upload any more, the object's own mark, or the upload's absence, tells whether it is ours.

    Raises:
        ObjectExists: something else has that name.
        NoSuchUpload: what was staged is gone, and the object is not visible.
    """
    token = staged.token
    parameters: dict[str, Any] = {"IfNoneMatch": "*"} if conditional else {}
    if "crc32c" in token:
        parameters |= {"ChecksumCRC32C": token["crc32c"], "ChecksumType": "FULL_OBJECT"}
    transient_failures: list[Exception] = []
    try:
        connect(settings).call(
            "complete_multipart_upload",
            bucket,
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
        if _completed(bucket, key, staged, settings, ambiguous, said):
            return
        if isinstance(error, NoSuchUpload) and was_contended:
            # After a conflict S3 wants the upload begun anew, which is what a clash leads to.
            name = f"s3://{bucket}/{key}"
            raise ObjectExists(f"{name} was written by somebody else", error.hint) from None
        raise


def _completed(
    bucket: str, key: str, staged: Staged, settings: AwsSettings, ambiguous: bool, said: bool
) -> bool:
    """Whether a request completed the upload, although none of them was told so.

    Without permission to read, one more part is offered to the upload, where it is `ambiguous`: it
    refuses that once it has been completed, and only this process could complete it. An upload
    that S3 ended for a conflict, or a lifecycle rule for its age, refuses it, too:
    that is not ambiguous. The store may have `said` that the object exists.
    """

    def look() -> bool:
        return is_ours(bucket, key, str(staged.token["id"]), settings)

    try:
        return found(look) if said else look()
    except NotFound:
        return False
    except PermissionRefused:
        if not ambiguous:
            return False
    try:
        connect(settings).call(
            "upload_part",
            bucket,
            key,
            UploadId=staged.token["upload_id"],
            PartNumber=_LAST_PART,
            Body=b"-",
            **verified(b"-", settings),
        )
    except NoSuchUpload:
        return True
    return False


def is_ours(bucket: str, key: str, mark: str, settings: AwsSettings) -> bool:
    """Whether the visible object carries that mark.

    Raises:
        NotFound: there is none.
        PermissionRefused: s3:GetObject is not allowed.
    """
    answer = connect(settings).call("head_object", bucket, key)
    return bool(answer.get("Metadata", {}).get(ID_KEY) == mark)


def marked_uploads(bucket: str, key: str, mark: str, settings: AwsSettings) -> Iterator[str]:
    """Ids of the uploads of one key that are under way and carry a mark.

    A mark is a part that is never made part of the object: its number and its size tell whose it
    is, as the metadata of an upload can't be read while it is under way.

    Raises:
        PermissionRefused: s3:ListBucketMultipartUploads or s3:ListMultipartUploadParts is missing.
    """
    wanted = _marking(mark)
    listed = connect(settings).call("list_multipart_uploads", bucket, key, Prefix=key)
    for upload in listed.get("Uploads", ()):
        if upload["Key"] == key and wanted in _parts(bucket, key, upload["UploadId"], settings):
            yield str(upload["UploadId"])


def _parts(
    bucket: str, key: str, upload_id: str, settings: AwsSettings
) -> Iterator[tuple[int, int]]:
    """Number and size of each part of an upload."""
    marker: dict[str, Any] = {}
    while True:
        page = connect(settings).call("list_parts", bucket, key, UploadId=upload_id, **marker)
        yield from ((part["PartNumber"], part["Size"]) for part in page.get("Parts", ()))
        if not page.get("IsTruncated"):
            return
        marker = {"PartNumberMarker": page["NextPartNumberMarker"]}


def _marking(mark: str) -> tuple[int, int]:
    """Part number and size that stand for a mark."""
    first, numbers, sizes = _MARKS
    code = int.from_bytes(hashlib.sha256(mark.encode()).digest()[:8], "big")
    return first + code % numbers, 1 + code // numbers % sizes


def abort(bucket: str, key: str, upload_id: str, settings: AwsSettings) -> None:
    """Drop an upload; what is refused or fails is left to the bucket's lifecycle rule."""
    try:
        connect(settings).call(
            "abort_multipart_upload", bucket, key, UploadId=upload_id, retry_policy=_BRIEF
        )
    except LakeportError:
        return


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
