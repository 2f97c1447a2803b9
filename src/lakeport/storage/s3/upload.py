"""Staged objects on S3: a multipart upload whose completion is what makes the object visible."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from lakeport.errors import LakeportError, ObjectExists, PermissionRefused
from lakeport.model import Staged
from lakeport.storage.background import BackgroundUploads
from lakeport.storage.checksums import Chunker, crc32c_text, md5_text
from lakeport.storage.failures import NotFound, found
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.client import connect
from lakeport.storage.s3.errors import NoSuchUpload, contended, may_have_succeeded
from lakeport.storage.s3.settings import ID_KEY, AwsSettings

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
