"""Google Cloud Storage's JSON API: credentials, and a client that repeats requests."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeport.errors import LakeportError, Unreachable
from lakeport.host.packages import missing_extra_error
from lakeport.storage.gcs import errors as gcs_errors
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.retry import (
    Condition,
    Connection,
    ConnectionCache,
    InvalidAnswer,
    RetryPolicy,
    limit_session,
)

_NOT_INSTALLED = "google-auth and requests are not installed"
_SCOPES = ["https://www.googleapis.com/auth/devstorage.read_write"]
_MIN_TOKEN_LIFETIME = timedelta(minutes=20)
_EMPTY: Mapping[str, str] = {}


class GcsConnection(Connection):
    """HTTP client of one Google Cloud Storage endpoint, with a session for each thread."""

    is_transient = staticmethod(gcs_errors.is_transient)
    has_response = staticmethod(gcs_errors.has_response)
    translate = staticmethod(gcs_errors.translate)

    def __init__(self, settings: GcpSettings) -> None:
        try:
            import requests
        except ImportError as error:
            raise missing_extra_error(_NOT_INSTALLED, "gcs") from error
        super().__init__(settings)
        self._lock = threading.Lock()
        self._bills_project = False
        self._sessions = threading.local()
        self._new_session = requests.Session
        self._credentials = None if settings.anonymous else _credentials(settings)

    @property
    def account(self) -> str:
        """Email of the service account; empty if the credentials do not name it."""
        return str(getattr(self._credentials, "service_account_email", "") or "")

    def send(
        self,
        method: str,
        url: str,
        action: str,
        name: str,
        *,
        accept: Collection[int] = (200,),
        condition: Condition = "none",
        headers: Mapping[str, str] = _EMPTY,
        params: Mapping[str, str] = _EMPTY,
        data: bytes | None = None,
        required_member: str = "",
        transient_failures: list[Exception] | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> Any:
        """Send an HTTP request with retries; return a response with a status in `accept`, or raise.

        Args:
            method: the HTTP method.
            url: a URL below the endpoint.
            action: the permission that it takes, such as `storage.objects.create`.
            name: the object's or bucket's URI, for the error.
            accept: the HTTP statuses that are no failure.
            condition: the condition of the request, for the error.
            headers: headers beside the credentials.
            params: the query.
            data: the body.
            required_member: header, or member of the JSON object, without which an answer is not
                Google's; empty for no check.
            transient_failures: see `Connection.send_with_retries`.
            retry_policy: in place of the settings' own.
        """

        def attempt() -> Any:
            answer = self._send(method, url, dict(headers), {"params": params, "data": data})
            if answer.status_code not in accept:
                raise gcs_errors.ErrorResponse(answer)
            if required_member and not _has_member(answer, required_member):
                raise InvalidAnswer(name, required_member)
            return answer

        return self.send_with_retries(
            attempt,
            action,
            name,
            condition,
            transient_failures=transient_failures,
            retry_policy=retry_policy,
        )

    def authenticate(self) -> None:
        """Fetch a new token now; raise LakeportError if the credentials are refused."""
        try:
            self._add_token({}, renew=True)
        except Exception as error:
            raise gcs_errors.translate(error, "", "", self.settings) from None

    def access_token(self) -> tuple[str, datetime | None]:
        """Return a token valid for at least 20 minutes, and its expiry; ("", None) if anonymous.

        Raises the error for refused credentials.
        """
        if self._credentials is None:
            return "", None
        end = self._credentials.expiry
        soon = datetime.now(UTC).replace(tzinfo=None) + _MIN_TOKEN_LIFETIME
        if not self._credentials.valid or (end is not None and end < soon):
            self.authenticate()
        return str(self._credentials.token), self._credentials.expiry

    def probe_bucket(self, bucket: str) -> tuple[int, dict[str, str]]:
        """GET a probe object; return the status (200: bucket exists, 404: it does not) and headers.

        Raises DestinationError if no answer came.
        """
        url = self.settings.object_url(bucket, "_lakeport/probe")
        try:
            answer = self._send("GET", url, {}, {"params": {"fields": "name"}})
        except Exception as error:
            raise gcs_errors.translate(error, "", f"gs://{bucket}", self.settings) from None
        status = int(answer.status_code)
        if status == 404 and "bucket" not in gcs_errors.ErrorResponse(answer).words:
            status = 200  # the bucket is there, the object is not
        return status, dict(answer.headers)

    def _send(self, method: str, url: str, headers: dict[str, str], arguments: Any) -> Any:
        """Send a request; if refused, send it once more with a new token or the project billed."""
        session = self._session()
        for renew in (False, True):
            self._add_token(headers, renew)
            answer = session.request(
                method,
                url,
                headers=headers,
                timeout=(self.settings.connect_seconds, self.settings.read_timeout),
                allow_redirects=False,
                auth=_keep_token,
                **arguments,
            )
            self.retrier.reached = True
            if not self._should_repeat(answer):
                break
        return answer

    def _session(self) -> Any:
        """Return this thread's HTTP session; open it at the first call."""
        session = getattr(self._sessions, "session", None)
        if session is None:
            session = self._sessions.session = self._new_session()
            limit_session(session, self.settings.read_timeout)
            session.trust_env = not self.settings.anonymous
        return session

    def _should_repeat(self, answer: Any) -> bool:
        """Whether to repeat a refused request: with a new token, or billed to the project."""
        if answer.status_code == 400 and self.settings.project and not self._bills_project:
            # Only if the bucket demands it: it takes a permission that loads need not have.
            self._bills_project = b"requester pays" in answer.content
            return self._bills_project
        return answer.status_code == 401 and self._credentials is not None

    def _add_token(self, headers: dict[str, str], renew: bool) -> None:
        """Add the token and the billed project to `headers`; fetch a token if invalid or `renew`.

        The credentials' own `before_request` would start threads that ask other services of Google
        for the bucket's region.
        """
        if self._bills_project:
            headers["x-goog-user-project"] = self.settings.project
        if self._credentials is None:
            return
        from google.auth.transport.requests import Request as TokenRequest

        with self._lock:
            if renew or not self._credentials.valid:
                if self.settings.token:  # the driver's token can't be renewed
                    self._credentials = _credentials(replace(self.settings, token=""))
                self._credentials.refresh(TokenRequest(self._session()))
            headers["Authorization"] = f"Bearer {self._credentials.token}"


def _has_member(answer: Any, name: str) -> bool:
    """Whether a response has this header, or its body is a JSON object with this member."""
    if name in answer.headers:
        return True
    try:
        found = answer.json()
    except ValueError:
        return False
    return isinstance(found, dict) and name in found


def _keep_token(request: Any) -> Any:
    """Keep `requests` from replacing the token by an entry of ~/.netrc."""
    return request


connect = ConnectionCache[GcpSettings, GcsConnection](GcsConnection)
"""This process's connection for some settings, opened at its first use."""


def with_credentials(settings: GcpSettings) -> GcpSettings:
    """Fetch a token and return the settings with it, for workers; unchanged if that fails.

    Settings that hold credentials stay as they are.
    """
    if settings.credentials or settings.token or settings.anonymous:
        return settings
    try:
        token, end = connect(settings).access_token()
    except LakeportError:
        return settings
    return replace(settings, token=token, token_end=end)


def _credentials(settings: GcpSettings) -> Any:
    """Return google-auth's credentials: a driver's token, the configured key, or the default."""
    try:
        import google.auth
        from google.oauth2 import credentials, service_account
    except ImportError as error:
        raise missing_extra_error(_NOT_INSTALLED, "gcs") from error
    try:
        if settings.token:
            fixed: Any = credentials.Credentials
            return fixed(settings.token, expiry=settings.token_end)
        if not settings.credentials:
            return google.auth.default(scopes=_SCOPES)[0]  # type: ignore[no-untyped-call,unused-ignore]
        info = json.loads(settings.credentials)
        make: Any = service_account.Credentials.from_service_account_info
        if info.get("type") == "service_account":
            return make(info, scopes=_SCOPES)
        load: Any = google.auth.load_credentials_from_dict
        with warnings.catch_warnings():
            # The warning is for services that take such files from strangers.
            warnings.simplefilter("ignore", DeprecationWarning)
            return load(info, scopes=_SCOPES)[0]
    except Unreachable:
        raise
    except Exception as error:
        raise gcs_errors.translate(error, "", "", settings) from None
