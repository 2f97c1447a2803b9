"""Failures of S3 requests -> lakeport's errors: which pass by themselves, and what to change."""

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
    DAMAGED,
    MISSING,
    NEXT_NAME,
    SKEWED,
    Condition,
    GivenUp,
    HollowAnswer,
    condition_failed,
    cut_off,
    failure,
    given_up,
    names_of,
)

if TYPE_CHECKING:
    from lakeport.storage.s3.client import AwsSettings

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
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_CONTENDED = {"ConditionalRequestConflict", "OperationAborted"}
# The last one: a page of a proxy in place of an answer.
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
NO_CREDENTIALS = (
    "no usable AWS credentials were found",
    "searched in this order: `aws_access_key_id` and `aws_secret_access_key`, `aws_profile`, the "
    "environment (AWS_ACCESS_KEY_ID, AWS_PROFILE), web identity (AWS_WEB_IDENTITY_TOKEN_FILE), "
    "SSO, ~/.aws/credentials, ~/.aws/config, the container's and the instance's role. Set one.",
)

_ENDED = failure(
    PermissionRefused,
    "the session of the credentials has expired",
    "fetch a new `aws_session_token` with its keys, log in again (`aws sso login`), or let "
    "`role_arn` be assumed: that is renewed while a run goes on.",
)


class NoSuchUpload(DestinationError):
    """The multipart upload was completed or aborted before."""


def _code_of(error: Exception) -> tuple[int, str]:
    """HTTP status and S3's error code; 0 and empty where no answer came."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return 0, ""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status), str(response.get("Error", {}).get("Code", ""))


def has_response(error: Exception) -> bool:
    """Whether the endpoint answered at all."""
    return _code_of(error)[0] > 0


def contended(error: Exception) -> bool:
    """Whether another write of the same key was under way."""
    return _code_of(error)[1] in _CONTENDED


def expired(error: Exception) -> bool:
    """Whether the session behind the credentials has ended."""
    return _code_of(error)[1] in _EXPIRED


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    status, code = _code_of(error)
    if status:
        return status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES or code in _CONTENDED
    names = names_of(error)
    return cut_off(error) if "SSLError" in names else bool(names & _NETWORK)


def may_have_succeeded(error: Exception) -> bool:
    """Whether the store may have done what was asked although the answer was a failure."""
    if isinstance(error, HollowAnswer):
        return True
    return is_transient(error) and not contended(error) and not names_of(error) & _NEVER_SENT


def translate(
    error: Exception,
    operation: str,
    bucket: str,
    key: str,
    settings: AwsSettings,
    condition: Condition = "none",
) -> LakeportError:
    """The most specific error of lakeport's for a failure of a request."""
    if isinstance(error, LakeportError):
        return error
    name = f"s3://{bucket}/{key}" if key else f"s3://{bucket}"
    if isinstance(error, GivenUp) or is_transient(error):
        met = error.cause if isinstance(error, GivenUp) else error
        if condition == "absent" and contended(met):
            return ObjectExists(f"{name} is being written by somebody else", NEXT_NAME)
        status, code = _code_of(met)
        answer = f"{status} {code}".removesuffix(f" {status}")  # an empty body has no other code
        keys = "`aws_endpoint`, `aws_region`"
        kind = type(met).__name__
        return given_up(error, name, _where(settings), answer if status else "", kind, keys)
    if condition != "none" and _code_of(error)[0] == 412:
        return condition_failed(condition, name)
    if has_response(error):
        return _from_answer(error, operation, bucket, key, settings)
    return _from_client(error, settings)


def _where(settings: AwsSettings) -> str:
    return settings.endpoint or f"S3 in region {settings.region!r}"


def _from_answer(
    error: Any, operation: str, bucket: str, key: str, settings: AwsSettings
) -> LakeportError:
    status, code = _code_of(error)
    code = code if not code.isdigit() else {403: "AccessDenied", 404: "NotFound"}.get(status, code)
    name = f"s3://{bucket}/{key}" if key else f"s3://{bucket}"
    if getattr(error, "operation_name", "") == "AssumeRole":
        return _role_refused(code, _words_of(error, settings), settings)
    if operation == "head_bucket" and status == 404:
        code = "NoSuchBucket"
    if code in _BY_CODE:
        return _BY_CODE[code](name=name, bucket=bucket)
    if status in (301, 307) or code in {"AuthorizationHeaderMalformed", "PermanentRedirect"}:
        return _wrong_region(error, bucket, settings)
    if "kms" in code.lower() and not is_transient(error):
        return DestinationError(
            f"{name}: the encryption key was refused ({code}): {_words_of(error, settings)}",
            "check `sse_kms_key_id`: the key has to exist in the bucket's region and be enabled.",
        )
    if status == 501:
        words = _words_of(error, settings)
        return ConditionUnknown(
            f"{name}: the store does not know a part of the request: {words}",
            "leave out what it lacks (`sse`, `object_tags`), or ask its maker.",
        )
    if status == 404:
        return MISSING(name=name)
    if status in (401, 403):
        return _refused(operation, bucket, key, code, _words_of(error, settings))
    return DestinationError(
        f"{name}: {operation} failed, {status} {code}: {_words_of(error, settings)}",
        "" if not code.isdigit() else "check `aws_endpoint`: it does not answer as S3 does.",
    )


def _from_client(error: Exception, settings: AwsSettings) -> LakeportError:
    kind = type(error).__name__
    where = _where(settings)
    if kind == "ProfileNotFound":
        return ConfigError(
            f"there is no profile {settings.profile!r}",
            "`aws configure list-profiles` names them; check `aws_profile` and AWS_CONFIG_FILE.",
        )
    if kind in {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}:
        return PermissionRefused(*NO_CREDENTIALS)
    if "SSO" in kind or "TokenLoad" in kind or kind == "TokenRetrievalError":
        return PermissionRefused("the SSO session has ended", "run `aws sso login`, then again.")
    if "SSLError" in names_of(error):
        return Unreachable(
            f"no trusted TLS connection to {where}",
            "AWS_CA_BUNDLE names a private authority's certificate; `http://` in `aws_endpoint` "
            "where the store has no TLS.",
        )
    if kind == "ParamValidationError" and "Bucket" in str(error):
        return DestinationError("`bucket` is not a bucket's name", "it takes the bare name.")
    if isinstance(error, ValueError) or "Region" in kind or "Endpoint" in kind:
        return DestinationError(
            f"`aws_endpoint` or `aws_region` is malformed ({kind})",
            "an endpoint looks like https://host[:port], a region like us-west-2.",
        )
    return DestinationError(f"the AWS SDK failed with {kind}", "")


def _words_of(error: Any, settings: AwsSettings) -> str:
    """The store's own sentence without anything secret."""
    text = scrub(str(error.response.get("Error", {}).get("Message", "")), settings.secrets)[:500]
    return re.sub(r"(?i)(token|signature|secret)([=: ]+)[A-Za-z0-9+/=%_-]{16,}", r"\1\2***", text)


def _refused(operation: str, bucket: str, key: str, code: str, words: str) -> PermissionRefused:
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


def _wrong_region(error: Any, bucket: str, settings: AwsSettings) -> DestinationError:
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


def _role_refused(code: str, words: str, settings: AwsSettings) -> PermissionRefused:
    """A role that can't be assumed: by whose fault."""
    known = {"InvalidClientTokenId", "SignatureDoesNotMatch", "InvalidAccessKeyId"}
    hint = (
        "the access key or secret that assumes the role is wrong."
        if code in known
        else "allow sts:AssumeRole on it to the keys in use, name them in the role's trust policy, "
        "and check `external_id`."
    )
    return PermissionRefused(f"role {settings.role_arn!r} can't be assumed ({code}): {words}", hint)


_BY_CODE = {
    "NoSuchBucket": failure(
        DestinationError,
        "there is no bucket {bucket!r}",
        "check `bucket` and `aws_endpoint`; lakeport never creates a bucket.",
    ),
    "InvalidBucketName": failure(
        DestinationError, "{bucket!r} is not a bucket's name", "`bucket` takes the bare name."
    ),
    "InvalidAccessKeyId": failure(
        PermissionRefused,
        "the store does not know the access key",
        "check `aws_access_key_id`; temporary keys also need `aws_session_token`.",
    ),
    "InvalidToken": failure(
        PermissionRefused,
        "the session token does not belong to the keys",
        "take `aws_session_token` and both keys from the same session.",
    ),
    "SignatureDoesNotMatch": failure(
        PermissionRefused,
        "the secret key does not belong to the access key",
        "check `aws_secret_access_key`, for spaces at its ends too.",
    ),
    "ExpiredToken": _ENDED,
    "ExpiredTokenException": _ENDED,
    "TokenRefreshRequired": _ENDED,
    "RequestTimeTooSkewed": SKEWED,
    "NoSuchUpload": failure(
        NoSuchUpload,
        "{name}: what was staged is gone",
        "a lifecycle rule or another program aborts multipart uploads: give them a day at least.",
    ),
    "NoSuchKey": MISSING,
    "BadDigest": DAMAGED,
    "XAmzContentChecksumMismatch": DAMAGED,
}
_BY_CODE["InvalidTokenId"] = _BY_CODE["InvalidToken"]
