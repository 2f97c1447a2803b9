"""Amazon S3, and every store that speaks its protocol: objects below one prefix of a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from lakeport.errors import LakeportError, ObjectExists, PermissionRefused
from lakeport.model import CheckItem, Staged, StoredObject
from lakeport.storage.base import CloudStorage, ListingPage, join_key
from lakeport.storage.checks import CloudCheck
from lakeport.storage.parts import CloudStageWriter, crc32c_text, md5_text
from lakeport.storage.retry import (
    RetryPolicy,
)
from lakeport.storage.s3 import errors as s3_errors
from lakeport.storage.s3.client import (
    ID_KEY,
    S3Connection,
    connect,
    with_credentials,
    with_found_keys,
)
from lakeport.storage.s3.errors import NoSuchUpload, is_contended, may_have_succeeded
from lakeport.storage.s3.hadoop import hadoop_settings
from lakeport.storage.s3.settings import AwsSettings

_MIB = 1 << 20
_LAST_PART = 10_000
_ABORT_RETRIES = RetryPolicy(deadline=10)


_CREDENTIAL_SOURCES = {
    "assume-role": "`role_arn`, assumed",
    "assume-role-with-web-identity": "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)",
    "config-file": "~/.aws/config",
    "container-role": "the container's role",
    "custom-process": "the profile's credential_process",
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "explicit": "`aws_access_key_id` and `aws_secret_access_key`",
    "iam-role": "the instance's role",
    "manual": "`aws_access_key_id` and `aws_secret_access_key`",
    "shared-credentials-file": "~/.aws/credentials",
    "sso": "SSO",
}


def part_bytes(number: int) -> int:
    """Return the size of part `number`, from 1: 16 MiB, doubled each 1,000 parts from 5,001 on.

    So the 10,000 parts that S3 allows hold 1 TiB. Up to 80 GB all parts have one size, as some
    stores require.

    >>> part_bytes(1) >> 20, part_bytes(5000) >> 20, part_bytes(5001) >> 20, part_bytes(10000) >> 20
    (16, 16, 32, 512)
    """
    return 16 * _MIB << max(0, (number - 1) // 1000 - 4)


class S3StageWriter(CloudStageWriter):
    """Uploads the parts of a multipart upload in two threads; at most three parts in memory."""

    def __init__(self, storage: S3Storage, key: str, content_type: str) -> None:
        super().__init__(storage, key, content_type, part_bytes, threads=2)

    def abort(self) -> None:
        """Abort the multipart upload; ignore failures, such as a missing permission."""
        super().abort()
        if not self._begun.cancelled() and self._begun.exception() is None:
            self._storage.abort(join_key(self._storage.prefix, self._key), self._begun.result())

    def _begin(self) -> str:
        """Create the multipart upload with metadata, tags and encryption; return its id."""
        settings = self._storage.settings
        about: dict[str, Any] = {
            "ContentType": self._content_type,
            "Metadata": {**dict(settings.metadata), ID_KEY: self._id},
            **settings.object_parameters(),
        }
        if settings.tags:
            about["Tagging"] = urlencode(settings.tags)
        if settings.content_checksum == "crc32c":
            about |= {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        return str(self._storage._call("create_multipart_upload", self._key, **about)["UploadId"])

    def _send_last(self, part: bytes) -> None:
        """Send the last part; an empty object has one empty part."""
        if part or not self._parts:  # an upload needs one part at least
            self._submit(part)

    def _send(self, number: int, part: bytes) -> Any:
        """Upload a part; return its number, ETag and checksum."""
        return self._storage._put_part(self._key, self._begun.result(), number, part)

    def _token(self, parts: list[Any]) -> dict[str, Any]:
        """Return the publish token: upload id, parts, full key and, on AWS, the CRC32C."""
        token = {
            "upload_id": self._begun.result(),
            "parts": parts,
            "key": join_key(self._storage.prefix, self._key),
        }
        if self._storage.settings.content_checksum == "crc32c" and self._chunker.bytes:
            token["crc32c"] = self._chunker.checksum  # MinIO refuses the one of an empty object
        return token


def checksum_parameters(body: bytes, settings: AwsSettings) -> dict[str, Any]:
    """Return request parameters with a CRC32C or MD5 of `body`; empty if the signature has one."""
    match settings.content_checksum:
        case "crc32c":
            return {"ChecksumCRC32C": crc32c_text(body)}
        case "md5":
            return {"ContentMD5": md5_text(body)}
    return {}


@dataclass(frozen=True, slots=True)
class S3Storage(CloudStorage):
    """Storage of the objects below a prefix of an S3 bucket.

    Writing needs s3:PutObject alone. s3:AbortMultipartUpload is used where it is allowed, and
    s3:GetObject, s3:ListBucket and s3:DeleteObject only by the methods that read, list and delete.
    The prefix is clean, see `base.clean_prefix`, and empty for the whole bucket.
    """

    bucket: str
    prefix: str = ""
    settings: AwsSettings = field(default_factory=AwsSettings)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the storage with its credentials, as a worker may find none."""
        return S3Storage, (self.bucket, self.prefix, with_credentials(self.settings))

    @property
    def connection(self) -> S3Connection:
        """This process's connection to the endpoint."""
        return connect(self.settings)

    def uri(self, key: str = "") -> str:
        """Return `s3://bucket/prefix/key`."""
        return f"s3://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_uri(self, key: str = "") -> str:
        """Return `s3a://bucket/prefix/key`."""
        return f"s3a://{self.bucket}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """Return the settings of Hadoop's S3A connector for this bucket, secrets included.

        Empty if the user's Spark session, whose connector it is, has them.
        """
        if self.settings.from_session:
            return {}
        credentials = with_credentials if for_workers else with_found_keys
        return hadoop_settings(self.bucket, credentials(self.settings))

    def stage(self, key: str, content_type: str) -> S3StageWriter:
        """Return a writer that stages a new object as a multipart upload."""
        return S3StageWriter(self, key, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Complete the upload, making the object visible; ObjectExists if the name is taken.

        A store that ignores conditions gets none. If the name is taken, or the upload is gone, an
        earlier answer may have been lost. The object's mark, or the absence of the upload, shows
        whether this upload was completed.

        Raises:
            NoSuchUpload: the upload is gone, and the object is not visible.
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
            was_contended = any(map(is_contended, transient_failures))
            exists = isinstance(error, ObjectExists) and not was_contended
            ambiguous = exists or any(map(may_have_succeeded, transient_failures))
            if self._has_completed(key, staged, ambiguous, exists):
                return
            if isinstance(error, NoSuchUpload) and was_contended:
                # After a conflict S3 wants a new upload; the caller begins one under the next name.
                what = f"{self.uri(key)} was written by somebody else"
                raise ObjectExists(what, error.hint) from None
            raise

    def _has_completed(self, key: str, staged: Staged, ambiguous: bool, exists: bool) -> bool:
        """Whether an earlier request completed the upload: by the object's mark, or one more part.

        Without permission to read, an `ambiguous` upload is offered one more part. A completed
        upload refuses it, and only this process could complete it. An upload is not ambiguous if S3
        may have ended it for another reason, a conflict or a lifecycle rule.
        """
        try:
            return bool(self._find_mark(key, str(staged.token["id"]), exists=exists))
        except PermissionRefused:
            if not ambiguous:
                return False
        try:
            self._put_part(key, str(staged.token["upload_id"]), _LAST_PART, b"-")
        except NoSuchUpload:
            return True
        return False

    def _put_part(self, key: str, upload_id: str, number: int, body: bytes) -> dict[str, Any]:
        """Upload a part; return its entry for `complete_multipart_upload`."""
        checked = checksum_parameters(body, self.settings)
        part = {"UploadId": upload_id, "PartNumber": number, "Body": body, **checked}
        etag = self._call("upload_part", key, **part)["ETag"]
        checked.pop("ContentMD5", None)
        return {"PartNumber": number, "ETag": etag, **checked}

    def discard(self, staged: Staged) -> None:
        """Abort the upload, if the permissions allow it. Never raises."""
        self.abort(str(staged.token["key"]), str(staged.token["upload_id"]))

    def abort(self, full_key: str, upload_id: str) -> None:
        """Abort a multipart upload; ignore failures, as the bucket's lifecycle rule removes it."""
        about: dict[str, Any] = {"UploadId": upload_id, "retry_policy": _ABORT_RETRIES}
        with suppress(LakeportError):
            self.connection.call("abort_multipart_upload", self.bucket, full_key, **about)

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Return the connection test of this bucket; `tables` adds what Delta tables need."""
        return S3Check(self).items(tables=tables)

    def _put(self, key: str, data: bytes, mark: str, expected_version: str | None) -> None:
        """Put an object with `mark` in its metadata, conditional on its ETag; or raise."""
        parameters: dict[str, Any] = {
            "Body": data,
            "Metadata": {ID_KEY: mark},
            **self.settings.object_parameters(),
            **checksum_parameters(data, self.settings),
        }
        if expected_version is not None and self.sends_conditions():
            same = {"IfMatch": expected_version}
            parameters |= same if expected_version else {"IfNoneMatch": "*"}
        self._call("put_object", key, **parameters)

    def _has_mark(self, key: str, mark: str) -> bool:
        """Whether the object has this mark in its metadata; see `CloudStorage._has_mark`."""
        return bool(self._call("head_object", key).get("Metadata", {}).get(ID_KEY) == mark)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        """Return an object's content, or with `version` (ETag) the bytes `start` to `end`."""
        part = {"Range": f"bytes={start}-{end - 1}", "IfMatch": version} if version else {}
        return bytes(self._call("get_object", key, **part)["Body"])

    def _size_and_version(self, key: str) -> tuple[int, str]:
        """Return an object's size in bytes and its version, its ETag."""
        head = self._call("head_object", key)
        return int(head["ContentLength"]), str(head["ETag"])

    def _list_page(
        self, start: str, one_level: bool, token: str, limit: int, after: str
    ) -> ListingPage:
        """List one page of objects whose keys begin with `start` and are greater than `after`."""
        parameters: dict[str, Any] = {
            "Delimiter": "/" if one_level else "",
            "StartAfter": after,
            "ContinuationToken": token,
            "MaxKeys": limit,
        }
        parameters = {name: value for name, value in parameters.items() if value}
        page = self.connection.call(
            "list_objects_v2", self.bucket, start.rstrip("/"), Prefix=start, **parameters
        )
        return ListingPage(
            [_describe_object(row) for row in page.get("Contents", [])],
            page["NextContinuationToken"] if page.get("IsTruncated") else "",
            [row["Prefix"] for row in page.get("CommonPrefixes", [])],
        )

    def _delete(self, key: str) -> None:
        """Delete an object; see `CloudStorage._delete`."""
        self._call("delete_object", key)

    def _call(self, operation: str, key: str, **parameters: Any) -> Any:
        """Send a request for a key below the prefix; see `S3Connection.call`."""
        full = join_key(self.prefix, key)
        try:
            return self.connection.call(operation, self.bucket, full, **parameters)
        except PermissionRefused as error:
            error.hint = s3_errors.name_lake_folder(error.hint, self.uri(""))
            raise


def _describe_object(row: Mapping[str, Any]) -> StoredObject:
    """Convert an entry of S3's listing; the ETag loses its quotes."""
    modified = row["LastModified"].timestamp()
    return StoredObject(row["Key"], row["Size"], row["ETag"].strip('"'), modified)


class S3Check(CloudCheck):
    """Connection test of a bucket: credentials, region, clock, create-only writes."""

    upload = "multipart upload"
    endpoint = "aws_endpoint"
    storage: S3Storage

    def check_credentials(self) -> str:
        """Fetch the credentials, or raise LakeportError; return a text about their source."""
        connection = connect(self.storage.settings)
        credentials = connection.credentials
        if credentials is None:
            from botocore.exceptions import NoCredentialsError

            settings = connection.settings
            raise s3_errors.translate(NoCredentialsError(), "connect", "s3://", settings)
        source = _CREDENTIAL_SOURCES.get(str(credentials.method), str(credentials.method))
        connection.authenticate()
        if connection.settings.profile:
            source += f" (profile {connection.settings.profile!r})"
        return f"found in {source}"

    def check_headers(self, headers: Mapping[str, str]) -> list[CheckItem]:
        """Return the item for the bucket's region: `failed` if it is not the configured one."""
        real, configured = headers.get("x-amz-bucket-region", ""), self.storage.settings.region
        if not real:
            silent = f"{configured}; the store does not tell the bucket's"
            return [CheckItem("region", "skipped", silent)]
        if real != configured:
            detail = f"the bucket is in {real}, not in {configured}"
            return [CheckItem("region", "failed", detail, f"set `aws_region: {real}`.")]
        return [CheckItem("region", "ok", real)]
