"""Failures of Google Cloud Storage -> lakeport's errors: which pass, and what to change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeport.errors import (
    DestinationError,
    LakeportError,
    PermissionRefused,
    Unreachable,
)
from lakeport.scrub import scrub
from lakeport.storage.retry import (
    Condition,
    GivenUp,
    HollowAnswer,
    NotFound,
    condition_failed,
    cut_off,
    given_up,
    names_of,
    untrusted,
)

if TYPE_CHECKING:
    from lakeport.storage.gcs.client import GcpSettings

_OF_TOKENS = {"RefreshError", "TransportError"}
# 409: something else changes the object at this moment.
_TRANSIENT_STATUS = {408, 409, 429, 500, 502, 503, 504}
_ROLES = {
    "storage.objects.create": "roles/storage.objectCreator",
    "storage.objects.delete": "roles/storage.objectUser",
    "storage.objects.get": "roles/storage.objectViewer",
    "storage.objects.list": "roles/storage.objectViewer",
}
_WITHDRAWN = (
    "their token has expired or was withdrawn, and no other could be had: a user's are renewed by "
    "`gcloud auth application-default login`; on a machine of Google's, check that its service "
    "account is enabled; otherwise fetch them anew from where they came."
)
_RENEWALS = {
    "service_account": "check `google_application_credentials`: its key may be disabled or "
    "deleted.",
    "authorized_user": "the login has ended or was withdrawn: `gcloud auth application-default "
    "login` makes a new one.",
}
_ODD_ANSWER = "check `bucket` and `google_endpoint`; `--debug` shows more."
_SEARCHED = (
    "searched in this order: `google_application_credentials`, the variable "
    "GOOGLE_APPLICATION_CREDENTIALS, gcloud's application_default_credentials.json (made by "
    "`gcloud auth application-default login`), the metadata server of Google's machines. Set one."
)


class ErrorResponse(Exception):
    """An answer whose status is a failure."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer.status_code)
        self.status = int(answer.status_code)
        try:
            error = answer.json().get("error", {})
        except (ValueError, AttributeError):
            error = {}
        words = error.get("message", "") if isinstance(error, dict) else error
        self.words = scrub(str(words or answer.reason or ""))[:500]


def has_response(error: Exception) -> bool:
    """Whether the endpoint answered at all."""
    return isinstance(error, ErrorResponse)


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, ErrorResponse):
        return error.status in _TRANSIENT_STATUS
    names = names_of(error)
    if "RefreshError" in names:
        return bool(getattr(error, "retryable", False))
    if "SSLError" in names:
        return cut_off(error)
    if untrusted(error):  # the token server
        return False
    return bool(names & {"ConnectionError", "Timeout", "ChunkedEncodingError", "TransportError"})


def may_have_succeeded(error: Exception) -> bool:
    """Whether the store may have done what was asked although the answer was a failure."""
    if isinstance(error, HollowAnswer):
        return True
    return is_transient(error) and not names_of(error) & {"ConnectTimeout", "TransportError"}


def translate(
    error: Exception, action: str, name: str, settings: GcpSettings, condition: Condition = "none"
) -> LakeportError:
    """The most specific error of lakeport's for a failure of a request."""
    if isinstance(error, LakeportError):
        return error
    met = error.cause if isinstance(error, GivenUp) else error
    if (isinstance(error, GivenUp) or is_transient(error)) and not names_of(met) & _OF_TOKENS:
        answer = str(met.status) if isinstance(met, ErrorResponse) else ""
        keys = "`google_endpoint`, STORAGE_EMULATOR_HOST"
        return given_up(error, name, settings.base, answer, type(met).__name__, keys)
    error = met
    if isinstance(error, ErrorResponse):
        if error.status == 412 and condition != "none":
            return condition_failed(condition, name)
        return _from_answer(error, action, name, settings)
    names = names_of(error)
    if "MalformedError" in names or type(error) is ValueError:
        return PermissionRefused(
            "`google_application_credentials` is not a usable key",
            "it takes the path, the JSON text or the mapping of a service account's key file.",
        )
    if "DefaultCredentialsError" in names:
        return PermissionRefused("no usable Google credentials were found", _SEARCHED)
    if "TransportError" in names:
        return Unreachable(
            f"{_token_server(settings)} can't be reached, so that there is no token for {name}",
            "check `token_uri` in the key, DNS, the proxy and the firewall.",
        )
    if "RefreshError" in names:
        return PermissionRefused(
            f"{_token_server(settings)} did not accept the credentials ({_oauth_code(error)})",
            "create a new key of the service account, check that the account and the key are "
            "enabled, that `token_uri` is Google's, and that this machine's clock is right.",
        )
    if "SSLError" in names:
        return Unreachable(
            f"no trusted TLS connection to {settings.base}",
            "REQUESTS_CA_BUNDLE names a private authority's certificate; check `google_endpoint`.",
        )
    return DestinationError(f"{name}: the request failed with {type(error).__name__}", _ODD_ANSWER)


def _from_answer(
    error: ErrorResponse, action: str, name: str, settings: GcpSettings
) -> LakeportError:
    status, words = error.status, error.words
    if status == 401:
        return PermissionRefused(
            f"{name}: Google does not accept the credentials: {words}", _renewal(settings)
        )
    if status == 403:
        role = _ROLES.get(action, "")
        hint = f"grant {action} on the bucket" + (f" (it is in {role})" if role else "")
        return PermissionRefused(f"{name}: {action} was refused: {words}", f"{hint}.")
    if status == 404 and "bucket does not exist" in words:
        return DestinationError(
            f"there is no such bucket: {name}", "check `bucket`; lakeport never creates one."
        )
    if status in (404, 410):
        return NotFound(
            f"{name} does not exist: {words}",
            "check `bucket` and `object_key_path`; lakeport never creates a bucket.",
        )
    return DestinationError(f"{name}: {action} failed, {status}: {words}", _ODD_ANSWER)


def _renewal(settings: GcpSettings) -> str:
    """What to do about credentials that are not accepted, by their kind."""
    if settings.anonymous:
        return "none are sent to `google_endpoint`: set `google_application_credentials`."
    try:
        kind = str(json.loads(settings.credentials)["type"])
    except (ValueError, LookupError, TypeError):
        kind = ""
    return _RENEWALS.get(kind, _WITHDRAWN)


def _token_server(settings: GcpSettings) -> str:
    """Who gives out the tokens: the server that the key names, or the machine's own."""
    try:
        server = json.loads(settings.credentials)["token_uri"]
    except (ValueError, LookupError, TypeError):
        return "the token server of Google's credentials"
    return f"the token server {server}"


def _oauth_code(error: Exception) -> str:
    """The code of a refused refresh, such as `invalid_grant`; its description may name values."""
    details = error.args[1] if len(error.args) > 1 else None
    code = details.get("error") if isinstance(details, dict) else None
    return code if isinstance(code, str) else type(error).__name__
