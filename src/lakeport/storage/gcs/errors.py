"""Failures of Google's storage -> lakeport's errors: is a retry of use, and what to change."""

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
    DeadlineExceeded,
    InvalidAnswer,
    NotFound,
    RequestFailure,
    class_names,
    error_row,
    is_cut_off,
    is_untrusted,
    unreachable_error,
)

if TYPE_CHECKING:
    from lakeport.storage.gcs.settings import GcpSettings

_TOKEN_ERRORS = {"RefreshError", "TransportError"}
_NETWORK = {"ConnectionError", "Timeout", "ChunkedEncodingError", "TransportError"}
# 409: another request changes the object at this moment.
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


class ErrorResponse(Exception):
    """An HTTP response with an error status, as an exception.

    Attributes:
        status: the HTTP status.
        words: Google's sentence about it, without secrets; at most 500 characters.
    """

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
    """Whether the endpoint answered the request."""
    return isinstance(error, ErrorResponse)


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed: the network failed, or the status is one such as 429 or 503."""
    if isinstance(error, ErrorResponse):
        return error.status in _TRANSIENT_STATUS
    names = class_names(error)
    if "RefreshError" in names:
        return bool(getattr(error, "retryable", False))
    if "SSLError" in names:
        return is_cut_off(error)
    if is_untrusted(error):  # the token server
        return False
    return not _NETWORK.isdisjoint(names)


def may_have_succeeded(error: Exception) -> bool:
    """Whether Google may have executed a failed request: the response was lost or invalid."""
    if isinstance(error, InvalidAnswer):
        return True
    never_sent = {"ConnectTimeout", "TransportError"}
    return is_transient(error) and never_sent.isdisjoint(class_names(error))


def translate(
    error: Exception, action: str, name: str, settings: GcpSettings, condition: Condition = "none"
) -> LakeportError:
    """Convert an error to a LakeportError whose hint names the setting or role to change.

    `action` is a permission, such as `storage.objects.create`; `name` the object's or bucket's URI.
    """
    if isinstance(error, LakeportError):
        return error
    cause = error.cause if isinstance(error, DeadlineExceeded) else error
    keys, status, words = class_names(cause), 0, ""
    if isinstance(cause, ErrorResponse):
        status, words = cause.status, cause.words
        keys = [str(status), "answer"]
        if status == 404 and "bucket does not exist" in words:
            keys = ["404 of a bucket"]
    elif type(cause) is ValueError:
        keys = ["MalformedError"]
    failure = RequestFailure(cause, action, name, settings, status, words=words)
    transient = isinstance(error, DeadlineExceeded) or is_transient(error)
    if transient and _TOKEN_ERRORS.isdisjoint(keys):
        return unreachable_error(error, failure)
    return failure.translate(_ERRORS, [*keys, "client"], condition)


def _not_authentic(failure: RequestFailure) -> LakeportError:
    """Return the error for a 401; its hint depends on the kind of the credentials."""
    settings: GcpSettings = failure.settings
    hint = _RENEWALS.get(str(_key_member(settings, "type")), _WITHDRAWN)
    if settings.anonymous:
        hint = "none are sent to `google_endpoint`: set `google_application_credentials`."
    message = f"{failure.name}: Google does not accept the credentials: {failure.words}"
    return PermissionRefused(message, hint)


def _access_denied(failure: RequestFailure) -> LakeportError:
    """Return the error for a 403; its hint names the permission to grant and a role that has it."""
    action, role = failure.action, _ROLES.get(failure.action, "")
    hint = f"grant {action} on the bucket" + (f" (it is in {role})" if role else "")
    return PermissionRefused(f"{failure.name}: {action} was refused: {failure.words}", f"{hint}.")


def _token_refused(failure: RequestFailure) -> LakeportError:
    """Return the error for credentials that the token server refuses, with OAuth's code.

    OAuth's description is left out, as it may quote values.
    """
    error = failure.error
    details = error.args[1] if len(error.args) > 1 else None
    code = details.get("error") if isinstance(details, dict) else None
    code = code if isinstance(code, str) else type(error).__name__
    return PermissionRefused(
        f"{_token_server(failure.settings)} did not accept the credentials ({code})",
        "create a new key of the service account, check that the account and the key are "
        "enabled, that `token_uri` is Google's, and that this machine's clock is right.",
    )


def _token_unreachable(failure: RequestFailure) -> LakeportError:
    """Return the error for a token server that does not answer."""
    return Unreachable(
        f"{_token_server(failure.settings)} can't be reached, so that there is no token for "
        f"{failure.name}",
        "check `token_uri` in the key, DNS, the proxy and the firewall.",
    )


def _token_server(settings: GcpSettings) -> str:
    """Return the words for the server that gives out tokens; its address if the key names it."""
    server = _key_member(settings, "token_uri")
    return f"the token server {server}" if server else "the token server of Google's credentials"


def _key_member(settings: GcpSettings, member: str) -> object:
    """Return a member of the credentials' JSON text; None if absent, or if the text is not JSON."""
    try:
        return json.loads(settings.credentials)[member]
    except (ValueError, LookupError, TypeError):
        return None


_ODD_ANSWER = "check `bucket` and `google_endpoint`; `--debug` shows more."
_NOT_FOUND = error_row(
    NotFound,
    "{name} does not exist: {words}",
    "check `bucket` and `object_key_path`; lakeport never creates a bucket.",
)
_ERRORS = {
    # HTTP statuses
    "401": _not_authentic,
    "403": _access_denied,
    "404": _NOT_FOUND,
    "404 of a bucket": error_row(
        DestinationError,
        "there is no such bucket: {name}",
        "check `bucket`; lakeport never creates one.",
    ),
    "410": _NOT_FOUND,
    "answer": error_row(
        DestinationError, "{name}: {action} failed, {status}: {words}", _ODD_ANSWER
    ),
    # classes of google-auth and requests
    "DefaultCredentialsError": error_row(
        PermissionRefused,
        "no usable Google credentials were found",
        "searched in this order: `google_application_credentials`, the variable "
        "GOOGLE_APPLICATION_CREDENTIALS, gcloud's application_default_credentials.json (made by "
        "`gcloud auth application-default login`), the metadata server of Google's machines. "
        "Set one.",
    ),
    "MalformedError": error_row(
        PermissionRefused,
        "`google_application_credentials` is not a usable key",
        "it takes the path, the JSON text or the mapping of a service account's key file.",
    ),
    "RefreshError": _token_refused,
    "SSLError": error_row(
        Unreachable,
        "no trusted TLS connection to {settings.address}",
        "REQUESTS_CA_BUNDLE names a private authority's certificate; check `google_endpoint`.",
    ),
    "TransportError": _token_unreachable,
    "client": error_row(DestinationError, "{name}: the request failed with {kind}", _ODD_ANSWER),
}
"""Google's HTTP status or a class of its libraries -> the error, for `RequestFailure.translate`."""
