"""Failures of Azure Blob requests -> lakeport's errors: is a retry of use, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.errors import (
    DestinationError,
    LakeportError,
    PermissionRefused,
    Unreachable,
)
from lakeport.storage.retry import (
    CLOCK_SKEWED,
    DATA_DAMAGED,
    OBJECT_MISSING,
    Condition,
    DeadlineExceeded,
    RequestFailure,
    class_names,
    error_row,
    exists_error,
    is_cut_off,
    unreachable_error,
)

if TYPE_CHECKING:
    from lakeport.storage.azure.settings import AzureSettings

_TRANSIENT_STATUS = {408, 429, 500, 502, 503, 504}
_NETWORK = {"IncompleteReadError", "ServiceRequestError", "ServiceResponseError"}
_UNKNOWN_HOST = ("Failed to resolve", "NameResolution", "Errno -2")


class BlocksGone(DestinationError):
    """The staged blocks no longer exist, as another write of the same name took their place."""


def has_response(error: Exception) -> bool:
    """Whether the endpoint answered the request."""
    return _status(error) > 0


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed: the network failed, or the status is one such as 429 or 503."""
    status = _status(error)
    if status:
        return status in _TRANSIENT_STATUS
    if _NETWORK.isdisjoint(class_names(error)) or _is_unknown_host(error):
        return False
    # The SDK keeps the error that it met as an attribute, not as the cause.
    return "SSL" not in str(error) or is_cut_off(getattr(error, "inner_exception", None) or error)


def translate(
    error: Exception,
    action: str,
    name: str,
    settings: AzureSettings,
    condition: Condition = "none",
) -> LakeportError:
    """Convert an SDK's error to a LakeportError whose hint names the setting or role to change.

    `action` is `read`, `write`, `list` or `delete`; `name` the blob's or container's URI.
    """
    if isinstance(error, LakeportError):
        return error
    cause = error.cause if isinstance(error, DeadlineExceeded) else error
    status, code = _status(cause), _code(cause)
    failure = RequestFailure(cause, action, name, settings, status, code)
    keys = [code, str(status), "answer"] if status else _client_keys(cause, settings)
    if isinstance(error, DeadlineExceeded) or is_transient(error) or keys == ["network"]:
        return unreachable_error(error, failure)
    if condition == "absent" and code == "BlobAlreadyExists":
        return exists_error(name)
    return failure.translate(_ERRORS, keys, condition)


def _status(error: Exception) -> int:
    """Return the HTTP status; 0 if no answer came."""
    return int(getattr(error, "status_code", 0) or 0)


def _code(error: Exception) -> str:
    """Return Azure's error code; empty if there is no response, or the response has no code."""
    code = getattr(error, "error_code", "") or ""
    if not code:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        code = headers.get("x-ms-error-code", "")
    return str(getattr(code, "value", code))


def _client_keys(error: Exception, settings: AzureSettings) -> list[str]:
    """Classify a failure without a response; return its `_ERRORS` key, or `network`, in a list."""
    names = class_names(error)
    if "ClientAuthenticationError" in names:
        key = "service principal" if settings.client_secret else "no credentials"
    elif _is_unknown_host(error) and not settings.endpoint:
        key = "unknown host"
    elif not _NETWORK.isdisjoint(names):
        key = "untrusted" if "SSL" in str(error) else "network"
    else:  # a ValueError comes of a header that was cut
        key = "ValueError" if isinstance(error, ValueError) else "client"
    return [key]


def _is_unknown_host(error: Exception) -> bool:
    """Whether the account's host name could not be resolved."""
    return any(words in str(error) for words in _UNKNOWN_HOST)


def _not_authentic(failure: RequestFailure) -> LakeportError:
    """Return the error for a rejected signature or token, by cause: clock, key, SAS or tenant."""
    settings: AzureSettings = failure.settings
    if "date header" in str(failure.error).lower():
        return CLOCK_SKEWED(failure)
    if settings.access_key:
        return PermissionRefused(
            f"`access_key` does not belong to the account {settings.account!r}",
            "copy one of the account's two keys anew: it may have been rotated.",
        )
    if settings.sas_expired:
        return _SAS_EXPIRED(failure)
    if settings.sas_token:
        return PermissionRefused(
            f"the account {settings.account!r} does not accept `sas_token`",
            "issue a new one for this container, valid from now on, and copy it whole.",
        )
    return PermissionRefused(
        f"the account {settings.account!r} does not accept the identity's token",
        "check `tenant_id`: it has to be the directory of the account's subscription.",
    )


def _access_denied(failure: RequestFailure) -> LakeportError:
    """Return the error for a 401 or 403; its hint depends on the credentials in use."""
    settings: AzureSettings = failure.settings
    if settings.sas_expired:
        return _SAS_EXPIRED(failure)
    if settings.access_key:
        hint = "check `access_key`, and the account's network rules: keys permit everything else."
    elif settings.sas_token:
        hint = (
            f"issue a `sas_token` for the container that permits to {failure.action} (sp=racwdl)."
        )
    else:
        hint = (
            "assign the role `Storage Blob Data Contributor` on the container to the identity in "
            "use; a network rule of the account may be the reason too."
        )
    message = f"{failure.name}: the request to {failure.action} it was refused ({failure.code})"
    return PermissionRefused(message, hint)


_ODD_ANSWER = "check `account_name` and `azure_endpoint`; `--debug` shows the SDK's own words."
_SAS_EXPIRED = error_row(PermissionRefused, "`sas_token` has expired", "issue a new one.")
_NO_CONTAINER = error_row(
    DestinationError,
    "there is no such container: {name}",
    "check the container's name and `account_name`; lakeport never creates a container.",
)
_BLOCKS_GONE = error_row(
    BlocksGone, "{name}: what was staged is gone", "another write of that name took its place."
)
_ERRORS = {
    # Azure's codes
    "AccountIsDisabled": error_row(
        PermissionRefused,
        "the account {settings.account!r} is disabled",
        "see its subscription.",
    ),
    "AuthenticationFailed": _not_authentic,
    "BlobNotFound": OBJECT_MISSING,
    "ContainerBeingDeleted": _NO_CONTAINER,
    "ContainerNotFound": _NO_CONTAINER,
    "FilesystemNotFound": _NO_CONTAINER,
    "InvalidAuthenticationInfo": _not_authentic,
    "InvalidBlobOrBlock": _BLOCKS_GONE,
    "InvalidBlockList": _BLOCKS_GONE,
    "KeyBasedAuthenticationNotPermitted": error_row(
        PermissionRefused,
        "the account {settings.account!r} does not permit account keys and tokens signed with them",
        "use a service principal (`tenant_id`, `client_id`, `client_secret`) or a managed "
        "identity, or permit shared keys in the account's configuration.",
    ),
    "Md5Mismatch": DATA_DAMAGED,
    "ResourceNotFound": _NO_CONTAINER,
    # HTTP statuses
    "401": _access_denied,
    "403": _access_denied,
    "404": OBJECT_MISSING,
    "answer": error_row(
        DestinationError, "{name}: the request to {action} it failed, {status} {code}", _ODD_ANSWER
    ),
    # failures before any answer
    "ValueError": error_row(
        Unreachable,
        "{name}: the store's answer was cut, or is none of a store's",
        "run it again; `--debug` shows the SDK's own words.",
    ),
    "no credentials": error_row(
        PermissionRefused,
        "no usable Azure credentials were found",
        "set `access_key`, `sas_token`, the three of `tenant_id`, `client_id` and "
        "`client_secret`, or `managed_identity: true`; without them, the environment "
        "(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET), workload identity, the machine's "
        "identity and the Azure CLI are searched.",
    ),
    "service principal": error_row(
        PermissionRefused,
        "the service principal can't log in",
        "check `tenant_id`, `client_id` and `client_secret`, and that it has not expired.",
    ),
    "unknown host": error_row(
        DestinationError,
        "there is no storage account {settings.account!r} (its host name is unknown)",
        "check `account_name`, DNS and the proxy (HTTPS_PROXY).",
    ),
    "untrusted": error_row(
        Unreachable,
        "no trusted TLS connection to {settings.address}",
        "REQUESTS_CA_BUNDLE names a private authority's certificate; check `azure_endpoint`.",
    ),
    "client": error_row(DestinationError, "{name}: the Azure SDK failed with {kind}", _ODD_ANSWER),
}
"""Azure's code, HTTP status or kind of failure -> the error, for `RequestFailure.translate`."""
