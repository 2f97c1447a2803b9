"""Failures of S3 requests -> lakeport's errors: is a retry of use, and what to change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    ObjectExists,
    PermissionRefused,
    Unreachable,
)
from lakeport.scrub import scrub
from lakeport.storage.checks import ConditionUnknown
from lakeport.storage.retry import (
    CLOCK_SKEWED,
    DATA_DAMAGED,
    NEXT_NAME,
    OBJECT_MISSING,
    Condition,
    DeadlineExceeded,
    InvalidAnswer,
    RequestFailure,
    class_names,
    error_row,
    is_cut_off,
    unreachable_error,
)

if TYPE_CHECKING:
    from lakeport.storage.s3.settings import AwsSettings

_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}
_TRANSIENT_CODES = {
    "InternalError",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "TooManyRequestsException",
}
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")
_CONTENDED = {"ConditionalRequestConflict", "OperationAborted"}
# botocore raises the last one for a page that a proxy sends instead of S3's answer.
_NETWORK = {"ConnectionError", "HTTPClientError", "IncompleteReadError", "ResponseParserError"}
_NEVER_SENT = {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"}


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


class NoSuchUpload(DestinationError):
    """The multipart upload was completed or aborted before."""


def has_response(error: Exception) -> bool:
    """Whether the endpoint answered the request."""
    return _status_and_code(error)[0] > 0


def is_contended(error: Exception) -> bool:
    """Whether S3 refused the request because another writer was writing the same key."""
    return _status_and_code(error)[1] in _CONTENDED


def is_expired(error: Exception) -> bool:
    """Whether S3 refused the request because the session of the credentials has expired."""
    return _status_and_code(error)[1] in _EXPIRED


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed: the network failed, or the status is one such as 429 or 503."""
    status, code = _status_and_code(error)
    if status:
        return status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES or code in _CONTENDED
    names = class_names(error)
    return is_cut_off(error) if "SSLError" in names else not _NETWORK.isdisjoint(names)


def may_have_succeeded(error: Exception) -> bool:
    """Whether S3 may have executed a failed request: the response was lost or invalid."""
    if isinstance(error, InvalidAnswer):
        return True
    never_sent = not _NEVER_SENT.isdisjoint(class_names(error))
    return is_transient(error) and not is_contended(error) and not never_sent


def translate(
    error: Exception,
    action: str,
    name: str,
    settings: AwsSettings,
    condition: Condition = "none",
) -> LakeportError:
    """Convert a botocore error to a LakeportError that names the setting or permission to change.

    `action` is the client's method, such as `put_object`; `name` is `s3://bucket/key`.
    """
    if isinstance(error, LakeportError):
        return error
    cause = error.cause if isinstance(error, DeadlineExceeded) else error
    if condition == "absent" and is_contended(cause):
        return ObjectExists(f"{name} is being written by somebody else", NEXT_NAME)
    status, code = _status_and_code(cause)
    if code.isdigit():  # the answer has no body that would name the code
        code = {403: "AccessDenied", 404: "NotFound"}.get(status, code)
    words = _store_words(cause, settings) if status else ""
    failure = RequestFailure(cause, action, name, settings, status, code, words)
    if isinstance(error, DeadlineExceeded) or is_transient(error):
        return unreachable_error(error, failure)
    keys = _answer_keys(failure) if status else _client_keys(cause)
    return failure.translate(_ERRORS, keys, condition)


def _status_and_code(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and S3's error code; 0 and empty if there is no response."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return 0, ""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status), str(response.get("Error", {}).get("Code", ""))


def _answer_keys(failure: RequestFailure) -> list[str]:
    """Return the `_ERRORS` keys to try for an error response, the most specific first."""
    code, status = failure.code, failure.status
    keys = [code, *(["kms"] if "kms" in code.lower() else []), str(status)]
    if getattr(failure.error, "operation_name", "") == "AssumeRole":
        keys.insert(0, "AssumeRole")
    elif failure.action == "head_bucket" and status == 404:
        keys.insert(0, "NoSuchBucket")
    return [*keys, "answer without a code" if code.isdigit() else "answer"]


def _client_keys(error: Exception) -> list[str]:
    """Return the `_ERRORS` keys to try for a failure without a response, most specific first."""
    keys = class_names(error)
    if keys[0] == "ParamValidationError" and "Bucket" in str(error):
        keys = ["ParamValidationError of a bucket"]
    elif "Region" in keys[0] or "Endpoint" in keys[0]:
        keys = ["ValueError"]
    return [*keys, "client"]


def _store_words(error: Any, settings: AwsSettings) -> str:
    """Return the store's own sentence with its secrets masked, at most 500 characters."""
    text = scrub(str(error.response.get("Error", {}).get("Message", "")), settings.secrets)[:500]
    return re.sub(r"(?i)(token|signature|secret)([=: ]+)[A-Za-z0-9+/=%_-]{16,}", r"\1\2***", text)


def _access_denied(failure: RequestFailure) -> LakeportError:
    """Return the error for a 403; its hint names the IAM action to allow, and the resource."""
    action = _ACTIONS.get(failure.action, failure.action)
    resource = f"arn:aws:s3:::{failure.bucket}"
    if action != "s3:ListBucket":
        folder, _, _ = failure.name.removeprefix("s3://").rpartition("/")
        resource = f"arn:aws:s3:::{folder or failure.bucket}/*"
    words = failure.words
    if "kms:" in words:
        action, resource = (re.findall(r"kms:\w+", words) or ["kms:GenerateDataKey"])[0], "the key"
    hint = f"allow {action} on {resource} to the key or role in use"
    if action == "s3:GetObject":
        hint += " (and s3:ListBucket: without it, S3 answers 403 for objects that do not exist)"
    message = f"{failure.name}: {action} was refused ({failure.code}): {words}"
    return PermissionRefused(message, f"{hint}.")


def name_lake_folder(hint: str, lake: str) -> str:
    """Return a hint on s3:PutObject with the whole folder of the lake, `_lakeport/` included.

    Other hints are returned unchanged.

    >>> name_lake_folder("allow s3:PutObject on arn:aws:s3:::b/raw/_lakeport/* to", "s3://b/raw")
    'allow s3:PutObject on arn:aws:s3:::b/raw/* (the data, and the folder `_lakeport/` there) to'
    """
    resource = f"arn:aws:s3:::{lake.removeprefix('s3://')}/*"
    both = f"s3:PutObject on {resource} (the data, and the folder `_lakeport/` there)"
    return re.sub(r"s3:PutObject on arn:aws:s3:::\S+/\*", lambda _: both, hint)


def _wrong_region(failure: RequestFailure) -> LakeportError:
    """Return the error for a redirect, with the bucket's region if the answer names it."""
    answer: Any = failure.error.response  # type: ignore[attr-defined]
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    real = headers.get("x-amz-bucket-region") or answer.get("Error", {}).get("Region", "")
    asked = failure.settings.region
    if not real:
        return DestinationError(
            f"bucket {failure.bucket!r} is not at that endpoint or in region {asked!r} "
            "(S3 answered with a redirect)",
            "set `aws_region` to the bucket's region, and leave out `aws_endpoint` for AWS.",
        )
    return DestinationError(
        f"bucket {failure.bucket!r} is in region {real!r}, not in {asked!r} "
        "(S3 answered with a redirect)",
        f"set `aws_region: {real}`.",
    )


def _role_refused(failure: RequestFailure) -> LakeportError:
    """Return the error for a role that can't be assumed: wrong keys, or a missing permission."""
    wrong_keys = {"InvalidClientTokenId", "SignatureDoesNotMatch", "InvalidAccessKeyId"}
    hint = (
        "the access key or secret that assumes the role is wrong."
        if failure.code in wrong_keys
        else "allow sts:AssumeRole on it to the keys in use, name them in the role's trust policy, "
        "and check `external_id`."
    )
    role = failure.settings.role_arn
    return PermissionRefused(
        f"role {role!r} can't be assumed ({failure.code}): {failure.words}", hint
    )


NO_CREDENTIALS = error_row(
    PermissionRefused,
    "no usable AWS credentials were found",
    "searched in this order: `aws_access_key_id` and `aws_secret_access_key`, `aws_profile`, the "
    "active Spark session's `fs.s3a.access.key` and `fs.s3a.secret.key`, the environment "
    "(AWS_ACCESS_KEY_ID, AWS_PROFILE), web identity (AWS_WEB_IDENTITY_TOKEN_FILE), SSO, "
    "~/.aws/credentials, ~/.aws/config, the container's and the instance's role. Set one.",
)
_SESSION_EXPIRED = error_row(
    PermissionRefused,
    "the session of the credentials has expired",
    "fetch a new `aws_session_token` with its keys, log in again (`aws sso login`), or let "
    "`role_arn` be assumed: that is renewed while a run goes on.",
)
_SSO_ENDED = error_row(
    PermissionRefused, "the SSO session has ended", "run `aws sso login`, then again."
)
_FOREIGN_TOKEN = error_row(
    PermissionRefused,
    "the session token does not belong to the keys",
    "take `aws_session_token` and both keys from the same session.",
)
_ERRORS = {
    # S3's codes
    "AssumeRole": _role_refused,
    "AuthorizationHeaderMalformed": _wrong_region,
    "BadDigest": DATA_DAMAGED,
    **dict.fromkeys(_EXPIRED, _SESSION_EXPIRED),
    "InvalidAccessKeyId": error_row(
        PermissionRefused,
        "the store does not know the access key",
        "check `aws_access_key_id`; temporary keys also need `aws_session_token`.",
    ),
    "InvalidBucketName": error_row(
        DestinationError, "{bucket!r} is not a bucket's name", "`bucket` takes the bare name."
    ),
    "InvalidToken": _FOREIGN_TOKEN,
    "InvalidTokenId": _FOREIGN_TOKEN,
    "NoSuchBucket": error_row(
        DestinationError,
        "there is no bucket {bucket!r}",
        "check `bucket` and `aws_endpoint`; lakeport never creates a bucket.",
    ),
    "NoSuchKey": OBJECT_MISSING,
    "NoSuchUpload": error_row(
        NoSuchUpload,
        "{name}: what was staged is gone",
        "a lifecycle rule or another program aborts multipart uploads: give them a day at least.",
    ),
    "PermanentRedirect": _wrong_region,
    "RequestTimeTooSkewed": CLOCK_SKEWED,
    "SignatureDoesNotMatch": error_row(
        PermissionRefused,
        "the secret key does not belong to the access key",
        "check `aws_secret_access_key`, for spaces at its ends too.",
    ),
    "XAmzContentChecksumMismatch": DATA_DAMAGED,
    "kms": error_row(
        DestinationError,
        "{name}: the encryption key was refused ({code}): {words}",
        "check `sse_kms_key_id`: the key has to exist in the bucket's region and be enabled.",
    ),
    # HTTP statuses
    "301": _wrong_region,
    "307": _wrong_region,
    "401": _access_denied,
    "403": _access_denied,
    "404": OBJECT_MISSING,
    "501": error_row(
        ConditionUnknown,
        "{name}: the store does not know a part of the request: {words}",
        "leave out what it lacks (`sse`, `object_tags`), or ask its maker.",
    ),
    "answer": error_row(DestinationError, "{name}: {action} failed, {status} {code}: {words}", ""),
    "answer without a code": error_row(
        DestinationError,
        "{name}: {action} failed, {status} {code}: {words}",
        "check `aws_endpoint`: it does not answer as S3 does.",
    ),
    # botocore's classes
    "CredentialRetrievalError": NO_CREDENTIALS,
    "LoginTokenLoadError": _SSO_ENDED,
    "NoCredentialsError": NO_CREDENTIALS,
    "ParamValidationError of a bucket": error_row(
        DestinationError, "`bucket` is not a bucket's name", "it takes the bare name."
    ),
    "PartialCredentialsError": NO_CREDENTIALS,
    "ProfileNotFound": error_row(
        ConfigError,
        "there is no profile {settings.profile!r}",
        "`aws configure list-profiles` names them; check `aws_profile` and AWS_CONFIG_FILE.",
    ),
    "SSLError": error_row(
        Unreachable,
        "no trusted TLS connection to {settings.address}",
        "AWS_CA_BUNDLE names a private authority's certificate; `http://` in `aws_endpoint` "
        "where the store has no TLS.",
    ),
    "SSOError": _SSO_ENDED,
    "TokenRetrievalError": _SSO_ENDED,
    "ValueError": error_row(
        DestinationError,
        "`aws_endpoint` or `aws_region` is malformed ({kind})",
        "an endpoint looks like https://host[:port], a region like us-west-2.",
    ),
    "client": error_row(DestinationError, "the AWS SDK failed with {kind}", ""),
}
"""S3's error code, HTTP status or botocore's class -> the error, for `RequestFailure.translate`."""
