"""Connections to Google Cloud Storage's JSON API: credentials, one request."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from lakeport.errors import LakeportError, Unreachable
from lakeport.host.packages import missing
from lakeport.storage.checks import CloudCheck
from lakeport.storage.gcs import errors as gcs_errors
from lakeport.storage.retry import (
    CloudSettings,
    Condition,
    Connection,
    HollowAnswer,
    PerProcess,
    RetryPolicy,
    limit_session,
)

if TYPE_CHECKING:
    from lakeport.storage.gcs.store import GcsStorage


_GOOGLE = "https://storage.googleapis.com"

_MISSING = "google-auth and requests are not installed"
_SCOPES = ["https://www.googleapis.com/auth/devstorage.read_write"]
_LEAST_LIFETIME = timedelta(minutes=20)
_NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class GcpSettings(CloudSettings):
    """How to reach a bucket.

    Attributes:
        credentials: JSON text of a service account's key (or another credential file); empty for
            the application default credentials of the machine where the settings are used.
        endpoint: one that begins with `http://` never gets a token of the application default
            credentials: it is an emulator.
        project: billed for requests to buckets whose requester pays; empty for none.
        kms_key_name: full resource name of the key that encrypts objects; empty for the bucket's.
        token: an access token that a driver handed to its tasks, instead of looking for one.
        token_end: when it expires (UTC, without a zone).
    """

    hosts: ClassVar = (".googleapis.com",)

    credentials: str = field(default="", repr=False)
    project: str = ""
    kms_key_name: str = ""
    token: str = field(default="", repr=False)
    token_end: datetime | None = None

    @property
    def anonymous(self) -> bool:
        """Whether requests carry no credentials."""
        return not (self.credentials or self.token) and self.endpoint.startswith("http://")

    @property
    def base(self) -> str:
        """The endpoint in use, without a slash at its end."""
        return (self.endpoint or _GOOGLE).rstrip("/")

    def object_url(self, bucket: str, key: str = "") -> str:
        """Address of an object, or of a bucket's objects.

        >>> GcpSettings().object_url("lake", "a/b c")
        'https://storage.googleapis.com/storage/v1/b/lake/o/a%2Fb%20c'
        """
        name = f"/{quote(key, safe='')}" if key else ""
        return f"{self.base}/storage/v1/b/{quote(bucket, safe='')}/o{name}"

    def upload_url(self, bucket: str) -> str:
        """Address that objects are uploaded to."""
        return f"{self.base}/upload/storage/v1/b/{quote(bucket, safe='')}/o"


class GcsConnection(Connection):
    """A process's sessions with one endpoint."""

    is_transient = staticmethod(gcs_errors.is_transient)
    has_response = staticmethod(gcs_errors.has_response)

    def __init__(self, settings: GcpSettings) -> None:
        try:
            import requests
        except ImportError as error:
            raise missing(_MISSING, "gcs") from error
        super().__init__(settings.retry_policy)
        self.settings = settings
        self._lock = threading.Lock()
        self._pays = False
        self._sessions = threading.local()
        self._new_session = requests.Session
        self._credentials = None if settings.anonymous else _credentials(settings)

    @property
    def account(self) -> str:
        """Who the credentials stand for, as far as they tell."""
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
        headers: Mapping[str, str] = _NONE,
        params: Mapping[str, str] = _NONE,
        data: bytes | None = None,
        carries: str = "",
        transient_failures: list[Exception] | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> Any:
        """Send one request, again while its failure is transient; name the failure that stays.

        Args:
            method: the HTTP method, such as `GET`.
            url: an address below the endpoint.
            action: the permission that it takes, such as `storage.objects.create`.
            name: the object's or bucket's URI, for messages.
            accept: the statuses that are no failure.
            condition: for the error, where it does not hold.
            headers: beside the credentials.
            params: the query.
            data: the body.
            carries: the header, or member of the JSON object, that every success has; or empty.
            transient_failures: gets the failures that were tried again.
            retry_policy: instead of the settings' own.

        Raises:
            DestinationError: as `gcs.errors.translate` names it.
        """

        def attempt() -> Any:
            answer = self._send(method, url, dict(headers), {"params": params, "data": data})
            if answer.status_code not in accept:
                raise gcs_errors.ErrorResponse(answer)
            if carries and not _carries(answer, carries):
                raise HollowAnswer(name, carries)
            return answer

        def translate(error: Exception) -> LakeportError:
            return gcs_errors.translate(error, action, name, self.settings, condition)

        return self.repeat(
            attempt, translate, transient_failures=transient_failures, retry_policy=retry_policy
        )

    def authenticate(self) -> None:
        """Fetch a token now.

        Raises:
            PermissionRefused: the credentials are not accepted.
        """
        try:
            self._authorise({}, fresh=True)
        except Exception as error:
            raise gcs_errors.translate(error, "", "", self.settings) from None

    def access_token(self) -> tuple[str, datetime | None]:
        """A token that lasts for twenty minutes or more, and when it expires; empty for none.

        Raises:
            PermissionRefused: the credentials are not accepted.
        """
        if self._credentials is None:
            return "", None
        end = self._credentials.expiry
        soon = datetime.now(UTC).replace(tzinfo=None) + _LEAST_LIFETIME
        if not self._credentials.valid or (end is not None and end < soon):
            self.authenticate()
        return str(self._credentials.token), self._credentials.expiry

    def probe_bucket(self, bucket: str) -> tuple[int, dict[str, str]]:
        """Ask for an object that need not exist: the bucket's HTTP status, and headers.

        Raises:
            DestinationError: no answer came.
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
        session = self._session()
        for fresh in (False, True):
            self._authorise(headers, fresh)
            answer = session.request(
                method,
                url,
                headers=headers,
                timeout=(self.settings.connect_seconds, self.settings.read_timeout),
                allow_redirects=False,
                auth=_keep,
                **arguments,
            )
            self.retrier.reached = True
            if not self._worth_another(answer):
                break
        return answer

    def _session(self) -> Any:
        """This thread's session."""
        session = getattr(self._sessions, "session", None)
        if session is None:
            session = self._sessions.session = self._new_session()
            limit_session(session, self.settings.read_timeout)
            session.trust_env = not self.settings.anonymous
        return session

    def _worth_another(self, answer: Any) -> bool:
        """Whether a fresh token, or naming who pays, may change the answer."""
        if answer.status_code == 400 and self.settings.project and not self._pays:
            # Named only where it has to be: it takes a permission that loads need not have.
            self._pays = b"requester pays" in answer.content
            return self._pays
        return answer.status_code == 401 and self._credentials is not None

    def _authorise(self, headers: dict[str, str], fresh: bool) -> None:
        """Add the token, fetched anew shortly before it expires.

        The credentials' own `before_request` would start threads that ask other services of
        Google's for the bucket's region.
        """
        if self._pays:
            headers["x-goog-user-project"] = self.settings.project
        if self._credentials is None:
            return
        from google.auth.transport.requests import Request as TokenRequest

        with self._lock:
            if fresh or not self._credentials.valid:
                if self.settings.token:  # it can't be renewed: look for others after all
                    self._credentials = _credentials(replace(self.settings, token=""))
                self._credentials.refresh(TokenRequest(self._session()))
            headers["Authorization"] = f"Bearer {self._credentials.token}"


def _carries(answer: Any, name: str) -> bool:
    """Whether the answer has this header, or is a JSON object with this member."""
    if name in answer.headers:
        return True
    try:
        found = answer.json()
    except ValueError:
        return False
    return isinstance(found, dict) and name in found


def _keep(request: Any) -> Any:
    """Keep `requests` from replacing the token by an entry of ~/.netrc."""
    return request


connect = PerProcess[GcpSettings, GcsConnection](GcsConnection)
"""The connection of this process for some settings; made at the first use."""


def with_credentials(settings: GcpSettings) -> GcpSettings:
    """The settings with a token, so that no other process has to look for credentials.

    Where a key is given, or nothing is found, the settings stay as they are.
    """
    if settings.credentials or settings.token or settings.anonymous:
        return settings
    try:
        token, end = connect(settings).access_token()
    except LakeportError:
        return settings
    return replace(settings, token=token, token_end=end)


def _credentials(settings: GcpSettings) -> Any:
    try:
        import google.auth
        from google.oauth2 import credentials, service_account
    except ImportError as error:
        raise missing(_MISSING, "gcs") from error
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
            # The warning is for services that are handed such files by strangers.
            warnings.simplefilter("ignore", DeprecationWarning)
            return load(info, scopes=_SCOPES)[0]
    except Unreachable:
        raise
    except Exception as error:
        raise gcs_errors.translate(error, "", "", settings) from None


class GcsCheck(CloudCheck):
    """Tries credentials, bucket, clock, writing and create-only."""

    condition = "ifGenerationMatch"
    upload = "resumable upload"
    endpoint = "google_endpoint"
    storage: GcsStorage

    def credentials(self) -> str:
        """Where they were found, and whose they are."""
        settings = self.storage.settings
        if settings.anonymous:
            return f"none: {settings.base} is asked without credentials"
        connection = connect(settings)
        connection.authenticate()
        source = "application default credentials"
        if settings.credentials:
            source = "`google_application_credentials`"
        account = f" ({connection.account})" if connection.account else ""
        return f"found in {source}{account}"
