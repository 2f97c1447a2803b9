"""Failures of S3 requests -> lakeport's errors: which pass by themselves, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    ObjectExists,
    PermissionRefused,
    Unreachable,
)
from lakeport.storage.probe import ConditionUnknown
from lakeport.storage.ranged import replaced
from lakeport.storage.retry import SLOW_STORE, Condition, GivenUp
from lakeport.storage.s3.messages import (
    BY_CODE,
    NO_CREDENTIALS,
    NoSuchKey,
    refused,
    role_refused,
    words_of,
    wrong_region,
)

if TYPE_CHECKING:
    from lakeport.storage.s3.settings import AwsSettings

__all__ = [
    "contended",
    "expired",
    "has_response",
    "is_transient",
    "may_have_succeeded",
    "translate",
]


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
_NETWORK = {
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionError",
    "EndpointConnectionError",
    "HTTPClientError",
    "IncompleteReadError",
    "ProxyConnectionError",
    "ReadTimeoutError",
    "ResponseStreamingError",
    "SSLError",
}
_NEXT_NAME = "the next free name is tried."
_NEVER_SENT = {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "SSLError"}


def code_of(error: Exception) -> tuple[int, str]:
    """HTTP status and S3's error code; 0 and empty where no answer came."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return 0, ""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status), str(response.get("Error", {}).get("Code", ""))


def has_response(error: Exception) -> bool:
    """Whether the endpoint answered at all."""
    return code_of(error)[0] > 0


def contended(error: Exception) -> bool:
    """Whether another write of the same key was under way."""
    return code_of(error)[1] in _CONTENDED


def expired(error: Exception) -> bool:
    """Whether the session behind the credentials has ended."""
    return code_of(error)[1] in _EXPIRED


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    status, code = code_of(error)
    if status:
        return status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES or code in _CONTENDED
    return _kind(error) in _NETWORK - {"SSLError"}


def may_have_succeeded(error: Exception) -> bool:
    """Whether the store may have done what was asked although the answer was a failure."""
    return is_transient(error) and not contended(error) and _kind(error) not in _NEVER_SENT


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
    if is_transient(error):
        error = GivenUp(error, 0.0)
    if isinstance(error, GivenUp):
        if condition == "absent" and contended(error.cause):
            return ObjectExists(f"{name} is being written by somebody else", _NEXT_NAME)
        return _given_up(error, name, settings)
    if code_of(error)[0] == 412 and condition == "absent":
        return ObjectExists(f"{name} exists already", _NEXT_NAME)
    if code_of(error)[0] == 412 and condition == "same":
        return replaced(name)
    if has_response(error):
        return _from_answer(error, operation, bucket, key, settings)
    return _from_client(error, settings)


def _given_up(given_up: GivenUp, name: str, settings: AwsSettings) -> Unreachable:
    """What the last answer was, and for how long there was no better one."""
    error, seconds = given_up.cause, given_up.seconds
    if has_response(error):
        status, code = code_of(error)
        return Unreachable(
            f"{name}: {_where(settings)} kept answering {status} {code} for {seconds:.1f} s",
            SLOW_STORE,
        )
    return Unreachable(
        f"{_where(settings)} can't be reached ({_kind(error)}); it was tried for {seconds:.1f} s",
        "check `aws_endpoint`, `aws_region`, DNS, the proxy (HTTPS_PROXY) and the firewall; "
        "`give_up_after` says for how long to try.",
    )


def _where(settings: AwsSettings) -> str:
    return settings.endpoint or f"S3 in region {settings.region!r}"


def _kind(error: Exception) -> str:
    """The failure's nearest class that the tables above know."""
    names = [each.__name__ for each in type(error).__mro__]
    return next((name for name in names if name in _NETWORK), names[0])


def _from_answer(
    error: Any, operation: str, bucket: str, key: str, settings: AwsSettings
) -> LakeportError:
    status, code = code_of(error)
    code = code if not code.isdigit() else {403: "AccessDenied", 404: "NotFound"}.get(status, code)
    name = f"s3://{bucket}/{key}" if key else f"s3://{bucket}"
    if getattr(error, "operation_name", "") == "AssumeRole":
        return role_refused(code, words_of(error, settings), settings)
    if operation == "head_bucket" and status == 404:
        code = "NoSuchBucket"
    make = BY_CODE.get(code)
    if make is not None:
        return make(name, bucket, settings)
    if status in (301, 307) or code in {"AuthorizationHeaderMalformed", "PermanentRedirect"}:
        return wrong_region(error, bucket, settings)
    if "kms" in code.lower() and not is_transient(error):
        return DestinationError(
            f"{name}: the encryption key was refused ({code}): {words_of(error, settings)}",
            "check `sse_kms_key_id`: the key has to exist in the bucket's region and be enabled.",
        )
    if status == 501:
        words = words_of(error, settings)
        return ConditionUnknown(
            f"{name}: the store does not know a part of the request: {words}",
            "leave out what it lacks (`sse`, `object_tags`), or ask its maker.",
        )
    if status == 404:
        return NoSuchKey(f"{name} does not exist")
    if status in (401, 403):
        return refused(operation, bucket, key, code, words_of(error, settings))
    return DestinationError(
        f"{name}: {operation} failed, {status} {code}: {words_of(error, settings)}",
        "" if not code.isdigit() else "check `aws_endpoint`: it does not answer as S3 does.",
    )


def _from_client(error: Exception, settings: AwsSettings) -> LakeportError:
    kind = _kind(error)
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
    if kind == "SSLError":
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
