"""What lakeport says to S3's error codes: which permission, key or setting to change."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeport.errors import DestinationError, LakeportError, PermissionRefused
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.storage.s3.settings import AwsSettings

__all__ = [
    "BY_CODE",
    "NO_CREDENTIALS",
    "NoSuchKey",
    "NoSuchUpload",
    "refused",
    "role_refused",
    "words_of",
    "wrong_region",
]


class NoSuchKey(DestinationError):
    """There is no such object."""


class NoSuchUpload(DestinationError):
    """The multipart upload was completed or aborted before."""


_ACTIONS = {
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "complete_multipart_upload": "s3:PutObject",
    "create_multipart_upload": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "get_object": "s3:GetObject",
    "head_bucket": "s3:ListBucket",
    "head_object": "s3:GetObject",
    "list_objects_v2": "s3:ListBucket",
    "put_object": "s3:PutObject",
    "upload_part": "s3:PutObject",
}
NO_CREDENTIALS = (
    "no usable AWS credentials were found",
    "searched in this order: `aws_access_key_id` and `aws_secret_access_key`, `aws_profile`, the "
    "environment (AWS_ACCESS_KEY_ID, AWS_PROFILE), web identity (AWS_WEB_IDENTITY_TOKEN_FILE), "
    "SSO, ~/.aws/credentials, ~/.aws/config, the container's and the instance's role. Set one.",
)


def words_of(error: Any, settings: AwsSettings) -> str:
    """The store's own sentence without anything secret."""
    text = scrub(str(error.response.get("Error", {}).get("Message", "")), settings.secrets)[:500]
    return re.sub(r"(?i)(token|signature|secret)([=: ]+)[A-Za-z0-9+/=%_-]{16,}", r"\1\2***", text)


def refused(operation: str, bucket: str, key: str, code: str, words: str) -> PermissionRefused:
    """A 403: which action on which resource has to be allowed."""
    action = _ACTIONS.get(operation, operation)
    folder, _, _ = key.rpartition("/")
    resource = f"arn:aws:s3:::{bucket}"
    if action != "s3:ListBucket":
        resource += f"/{folder}/*" if folder else "/*"
    if "kms:" in words:
        action, resource = (re.findall(r"kms:\w+", words) or ["kms:GenerateDataKey"])[0], "the key"
    hint = f"allow {action} on {resource} to the key or role in use"
    if action == "s3:GetObject":
        hint += " (and s3:ListBucket: without it, S3 answers 403 for objects that do not exist)"
    return PermissionRefused(
        f"s3://{bucket}/{key}: {action} was refused ({code}): {words}", f"{hint}."
    )


def wrong_region(error: Any, bucket: str, settings: AwsSettings) -> DestinationError:
    """A redirect: which region the bucket is in, where the answer tells."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    real = headers.get("x-amz-bucket-region") or error.response.get("Error", {}).get("Region", "")
    if not real:
        return DestinationError(
            f"bucket {bucket!r} is not at that endpoint or in region {settings.region!r} "
            "(S3 answered with a redirect)",
            "set `aws_region` to the bucket's region, and leave out `aws_endpoint` for AWS.",
        )
    return DestinationError(
        f"bucket {bucket!r} is in region {real!r}, not in {settings.region!r} "
        "(S3 answered with a redirect)",
        f"set `aws_region: {real}`.",
    )


def role_refused(code: str, words: str, settings: AwsSettings) -> PermissionRefused:
    """A role that can't be assumed: by whose fault."""
    known = {"InvalidClientTokenId", "SignatureDoesNotMatch", "InvalidAccessKeyId"}
    hint = (
        "the access key or secret that assumes the role is wrong."
        if code in known
        else "allow sts:AssumeRole on it to the keys in use, name them in the role's trust policy, "
        "and check `external_id`."
    )
    return PermissionRefused(f"role {settings.role_arn!r} can't be assumed ({code}): {words}", hint)


def _simple(
    kind: type[LakeportError], message: str, hint: str
) -> Callable[[str, str, AwsSettings], LakeportError]:
    def make(name: str, bucket: str, settings: AwsSettings) -> LakeportError:
        values = {"name": name, "bucket": bucket, "region": settings.region}
        return kind(message.format(**values), hint.format(**values))

    return make


_ENDED = _simple(
    PermissionRefused,
    "the session of the credentials has expired",
    "fetch a new `aws_session_token` with its keys, log in again (`aws sso login`), or let "
    "`role_arn` be assumed: that is renewed while a run goes on.",
)
BY_CODE = {
    "NoSuchBucket": _simple(
        DestinationError,
        "there is no bucket {bucket!r}",
        "check `bucket` and `aws_endpoint`; lakeport never creates a bucket.",
    ),
    "InvalidBucketName": _simple(
        DestinationError, "{bucket!r} is not a bucket's name", "`bucket` takes the bare name."
    ),
    "InvalidAccessKeyId": _simple(
        PermissionRefused,
        "the store does not know the access key",
        "check `aws_access_key_id`; temporary keys also need `aws_session_token`.",
    ),
    "InvalidToken": _simple(
        PermissionRefused,
        "the session token does not belong to the keys",
        "take `aws_session_token` and both keys from the same session.",
    ),
    "SignatureDoesNotMatch": _simple(
        PermissionRefused,
        "the secret key does not belong to the access key",
        "check `aws_secret_access_key`, for spaces at its ends too.",
    ),
    "ExpiredToken": _ENDED,
    "ExpiredTokenException": _ENDED,
    "TokenRefreshRequired": _ENDED,
    "RequestTimeTooSkewed": _simple(
        DestinationError,
        "this machine's clock differs from the store's by more than 15 minutes",
        "set the clock (`timedatectl set-ntp true`), then run again.",
    ),
    "NoSuchUpload": _simple(
        NoSuchUpload,
        "{name}: what was staged is gone",
        "a lifecycle rule or another program aborts multipart uploads: give them a day at least.",
    ),
    "NoSuchKey": _simple(NoSuchKey, "{name} does not exist", ""),
    "BadDigest": _simple(
        DestinationError,
        "{name}: the bytes that arrived are not those that were sent",
        "run again; if it stays, look for a proxy that changes requests.",
    ),
}
BY_CODE["XAmzContentChecksumMismatch"] = BY_CODE["BadDigest"]
BY_CODE["InvalidTokenId"] = BY_CODE["InvalidToken"]
