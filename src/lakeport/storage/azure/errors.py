"""Failures of Azure Blob requests -> lakeport's errors: which pass, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.errors import (
    DestinationError,
    LakeportError,
    PermissionRefused,
    Unreachable,
)
from lakeport.storage.retry import (
    DAMAGED,
    MISSING,
    SKEWED,
    Condition,
    GivenUp,
    already_exists,
    condition_failed,
    cut_off,
    failure,
    given_up,
    names_of,
)

if TYPE_CHECKING:
    from lakeport.storage.azure.client import AzureSettings

_TRANSIENT_STATUS = {408, 429, 500, 502, 503, 504}
_NETWORK = {"IncompleteReadError", "ServiceRequestError", "ServiceResponseError"}
_ODD_ANSWER = "check `account_name` and `azure_endpoint`; `--debug` shows the SDK's own words."
_SEARCHED = (
    "set `access_key`, `sas_token`, the three of `tenant_id`, `client_id` and `client_secret`, or "
    "`managed_identity: true`; without them, the environment (AZURE_TENANT_ID, AZURE_CLIENT_ID, "
    "AZURE_CLIENT_SECRET), workload identity, the machine's identity and the Azure CLI are "
    "searched."
)

_NO_CONTAINER = failure(
    DestinationError,
    "there is no such container: {name}",
    "check the container's name and `account_name`; lakeport never creates a container.",
)


class BlocksGone(DestinationError):
    """What was staged is no longer there, as another write of the same name took its place."""


def has_response(error: Exception) -> bool:
    """Whether the endpoint answered at all."""
    return _status(error) > 0


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    status = _status(error)
    if status:
        return status in _TRANSIENT_STATUS
    if not names_of(error) & _NETWORK or _unknown_host(error):
        return False
    return "SSL" not in str(error) or cut_off(_met_by_sdk(error))


def translate(
    error: Exception,
    action: str,
    name: str,
    settings: AzureSettings,
    condition: Condition = "none",
) -> LakeportError:
    """The most specific error of lakeport's for a failure of a request.

    Args:
        error: what the Azure SDK raised.
        action: what was asked for: `read`, `write`, `list` or `delete`.
        name: the blob's or container's URI.
        settings: how the account is reached.
        condition: the condition that the request was sent with.
    """
    if isinstance(error, LakeportError):
        return error
    if isinstance(error, GivenUp) or is_transient(error):
        return _unreached(error, name, settings)
    if condition == "absent" and _code(error) == "BlobAlreadyExists":
        return already_exists(name)
    if condition != "none" and _status(error) == 412:
        return condition_failed(condition, name)
    if has_response(error):
        return _from_answer(error, action, name, settings)
    return _from_client(error, name, settings)


def _unreached(error: Exception, name: str, settings: AzureSettings) -> LakeportError:
    met = error.cause if isinstance(error, GivenUp) else error
    answer = f"{_status(met)} {_code(met)}" if has_response(met) else ""
    keys = "`account_name`, `azure_endpoint`"
    return given_up(error, name, settings.blob_url, answer, type(met).__name__, keys)


def _from_answer(
    error: Exception, action: str, name: str, settings: AzureSettings
) -> LakeportError:
    status, code = _status(error), _code(error)
    if code in _BY_CODE:
        return _BY_CODE[code](name=name, account=settings.account)
    if code in {"AuthenticationFailed", "InvalidAuthenticationInfo"}:
        return _not_authentic(error, settings)
    if status == 404:
        return MISSING(name=name)
    if status in (401, 403):
        return _refused(action, name, code, settings)
    return DestinationError(
        f"{name}: the request to {action} it failed, {status} {code}", _ODD_ANSWER
    )


def _not_authentic(error: Exception, settings: AzureSettings) -> LakeportError:
    """Signatures that don't fit: the clock's, the token's or the key's fault."""
    if "date header" in str(error).lower():
        return SKEWED()
    if settings.access_key:
        return PermissionRefused(
            f"`access_key` does not belong to the account {settings.account!r}",
            "copy one of the account's two keys anew: it may have been rotated.",
        )
    if settings.sas_expired:
        return PermissionRefused("`sas_token` has expired", "issue a new one.")
    if settings.sas_token:
        return PermissionRefused(
            f"the account {settings.account!r} does not accept `sas_token`",
            "issue a new one for this container, valid from now on, and copy it whole.",
        )
    return PermissionRefused(
        f"the account {settings.account!r} does not accept the identity's token",
        "check `tenant_id`: it has to be the directory of the account's subscription.",
    )


def _refused(action: str, name: str, code: str, settings: AzureSettings) -> PermissionRefused:
    if settings.sas_expired:
        return PermissionRefused("`sas_token` has expired", "issue a new one.")
    if settings.access_key:
        hint = "check `access_key`, and the account's network rules: keys permit everything else."
    elif settings.sas_token:
        hint = f"issue a `sas_token` for the container that permits to {action} (sp=racwdl)."
    else:
        hint = (
            "assign the role `Storage Blob Data Contributor` on the container to the identity in "
            "use; a network rule of the account may be the reason too."
        )
    return PermissionRefused(f"{name}: the request to {action} it was refused ({code})", hint)


def _from_client(error: Exception, name: str, settings: AzureSettings) -> LakeportError:
    names = names_of(error)
    if "ClientAuthenticationError" in names:
        if settings.client_secret:
            return PermissionRefused(
                "the service principal can't log in",
                "check `tenant_id`, `client_id` and `client_secret`, and that it has not expired.",
            )
        return PermissionRefused("no usable Azure credentials were found", _SEARCHED)
    if _unknown_host(error) and not settings.endpoint:
        return DestinationError(
            f"there is no storage account {settings.account!r} (its host name is unknown)",
            "check `account_name`, DNS and the proxy (HTTPS_PROXY).",
        )
    if "SSL" in str(error) and names & _NETWORK:
        return Unreachable(
            f"no trusted TLS connection to {settings.blob_url}",
            "REQUESTS_CA_BUNDLE names a private authority's certificate; check `azure_endpoint`.",
        )
    if names & _NETWORK:
        return _unreached(error, name, settings)
    if isinstance(error, ValueError):  # of a header, half of which came
        return Unreachable(
            f"{name}: the store's answer was cut, or is none of a store's",
            "run it again; `--debug` shows the SDK's own words.",
        )
    return DestinationError(
        f"{name}: the Azure SDK failed with {type(error).__name__}", _ODD_ANSWER
    )


def _status(error: Exception) -> int:
    return int(getattr(error, "status_code", 0) or 0)


def _code(error: Exception) -> str:
    code = getattr(error, "error_code", "") or ""
    if not code:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        code = headers.get("x-ms-error-code", "")
    return str(getattr(code, "value", code))


def _met_by_sdk(error: Exception) -> BaseException:
    """What the SDK met, which it keeps as an attribute only."""
    return getattr(error, "inner_exception", None) or error


def _unknown_host(error: Exception) -> bool:
    return any(words in str(error) for words in ("Failed to resolve", "NameResolution", "Errno -2"))


_GONE = failure(
    BlocksGone, "{name}: what was staged is gone", "another write of that name took its place."
)
_BY_CODE = {
    "AccountIsDisabled": failure(
        PermissionRefused, "the account {account!r} is disabled", "see its subscription."
    ),
    "BlobNotFound": MISSING,
    "ContainerBeingDeleted": _NO_CONTAINER,
    "ContainerNotFound": _NO_CONTAINER,
    "FilesystemNotFound": _NO_CONTAINER,
    "InvalidBlockList": _GONE,
    "InvalidBlobOrBlock": _GONE,
    "KeyBasedAuthenticationNotPermitted": failure(
        PermissionRefused,
        "the account {account!r} does not permit account keys and tokens signed with them",
        "use a service principal (`tenant_id`, `client_id`, `client_secret`) or a managed "
        "identity, or permit shared keys in the account's configuration.",
    ),
    "Md5Mismatch": DAMAGED,
    "ResourceNotFound": _NO_CONTAINER,
}
