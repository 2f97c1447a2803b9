"""Azure's Blob service: settings, credentials, a client that retries, and the connection test."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from lakeport.errors import LakeportError
from lakeport.host.packages import missing_extra_error
from lakeport.model import CheckItem
from lakeport.storage.azure import errors as azure_errors
from lakeport.storage.checks import Checks, CloudCheck, check_clock, run_check
from lakeport.storage.retry import (
    CloudSettings,
    Connection,
    ConnectionCache,
    InvalidAnswer,
    limit_session,
)

if TYPE_CHECKING:
    from lakeport.storage.azure.store import AzureStorage


_CLOUD = "core.windows.net"
_SCOPE = "https://storage.azure.com/.default"
_BLOCK = 256 << 10
_EXPIRY_MARGIN = 60  # seconds: a token is not used for longer than so before its expiry

_PROBE_KEY = "_lakeport/probe-delete"


@dataclass(frozen=True, slots=True)
class AzureSettings(CloudSettings):
    """Address and credentials of a storage account.

    One of: the account's key; a SAS token; the three values of a service principal; a managed
    identity. Without any, the default chain of the Azure SDK is searched.

    Attributes:
        access_key: one of its two keys, in base64.
        sas_token: a shared access signature, without a question mark in front.
        tenant_id: directory of the service principal.
        client_id: the id of the service principal, or of a user-assigned managed identity.
        client_secret: the service principal's password.
        token: an access token that a driver handed to its tasks, instead of looking for one.
        token_end: when it expires, in seconds since 1970.
        cloud: end of the account's host names.
        endpoint: address of an emulator's Blob service, without the account.
    """

    address_keys: ClassVar = "`account_name`, `azure_endpoint`"

    account: str
    access_key: str = field(default="", repr=False)
    sas_token: str = field(default="", repr=False)
    tenant_id: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    managed_identity: bool = False
    token: str = field(default="", repr=False)
    token_end: int = 0
    cloud: str = _CLOUD

    @property
    def host(self) -> str:
        """Host name of the account in the URIs of Hadoop's connector.

        >>> AzureSettings("lake").host
        'lake.dfs.core.windows.net'
        """
        return f"{self.account}.dfs.{self.cloud}"

    @property
    def address(self) -> str:
        """URL of the account's Blob service.

        >>> AzureSettings("lake").address
        'https://lake.blob.core.windows.net'
        >>> AzureSettings("devstoreaccount1", endpoint="http://127.0.0.1:10000").address
        'http://127.0.0.1:10000/devstoreaccount1'
        """
        if self.endpoint:
            return f"{self.endpoint}/{self.account}"
        return f"https://{self.account}.blob.{self.cloud}"

    @property
    def scheme(self) -> str:
        """Scheme of Hadoop's URIs: `abfss`, or `abfs` for an emulator without TLS."""
        return "abfs" if urlsplit(self.endpoint).scheme == "http" else "abfss"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not appear in messages."""
        signature = parse_qs(self.sas_token).get("sig", [])
        values = (self.access_key, self.sas_token, self.client_secret, self.token, *signature)
        return tuple(value for value in values if value)

    @property
    def sas_expired(self) -> bool:
        """Whether the SAS token has expired by its own words; False if it names no end.

        >>> AzureSettings("lake", sas_token="se=2001-01-01T00%3A00%3A00Z&sig=x").sas_expired
        True
        """
        try:
            end = datetime.fromisoformat(parse_qs(self.sas_token)["se"][0])
        except (KeyError, ValueError):
            return False
        return end.replace(tzinfo=end.tzinfo or UTC) < datetime.now(UTC)


class AzureConnection(Connection):
    """Client of one storage account, for one process."""

    is_transient = staticmethod(azure_errors.is_transient)
    has_response = staticmethod(azure_errors.has_response)
    translate = staticmethod(azure_errors.translate)

    def __init__(self, settings: AzureSettings) -> None:
        super().__init__(settings)
        self._client, self._credential = _client(settings)

    def blob(self, container: str, key: str) -> Any:
        """Return the SDK's client of one blob."""
        return self._client.get_blob_client(container, key)

    def container(self, container: str) -> Any:
        """Return the SDK's client of one container."""
        return self._client.get_container_client(container)

    def access_token(self) -> tuple[str, int]:
        """Fetch a token; return it and its expiry in seconds since 1970, ("", 0) for keys and SAS.

        Raises PermissionRefused if the credentials are refused.
        """
        if self._credential is None:
            return "", 0
        try:
            token = self._credential.get_token(_SCOPE)
        except Exception as error:
            raise azure_errors.translate(error, "read", "", self.settings) from None
        return str(token.token), int(token.expires_on)


connect = ConnectionCache[AzureSettings, AzureConnection](AzureConnection)
"""This process's connection for some settings, opened at its first use."""


def with_credentials(settings: AzureSettings) -> AzureSettings:
    """Add a token for other processes, which then look for no credentials; unchanged if none.

    Settings that hold credentials stay as they are.
    """
    if settings.access_key or settings.sas_token or settings.client_secret or settings.token:
        return settings
    try:
        token, end = connect(settings).access_token()
    except LakeportError:
        return settings
    return replace(settings, token=token, token_end=end)


class _DriverToken:
    """Credential of the SDK: the driver's token; after its expiry, the machine's own credential."""

    def __init__(self, settings: AzureSettings) -> None:
        self._settings = settings
        self._own_credential: Any = None

    def get_token(self, *scopes: str, **options: Any) -> Any:
        """Return the driver's token until a minute before its expiry, then the machine's own."""
        from azure.core.credentials import AccessToken

        if time.time() < self._settings.token_end - _EXPIRY_MARGIN:
            return AccessToken(self._settings.token, self._settings.token_end)
        self._own_credential = self._own_credential or _identity(self._settings)
        return self._own_credential.get_token(*scopes, **options)


def _client(settings: AzureSettings) -> tuple[Any, Any]:
    """Return the SDK's client and its token credential (None for keys and SAS), or raise."""
    try:
        from azure.core.credentials import AzureSasCredential
        from azure.storage.blob import BlobServiceClient
    except ImportError as error:
        raise missing_extra_error("azure-storage-blob is not installed", "azure") from error
    token = None
    if settings.access_key:
        name, key = settings.account, settings.access_key
        credential: Any = {"account_name": name, "account_key": key}
    elif settings.sas_token:
        credential = AzureSasCredential(settings.sas_token)
    else:
        credential = token = _DriverToken(settings) if settings.token else _identity(settings)
    try:
        client = BlobServiceClient(
            settings.address,
            credential=credential,
            retry_total=0,
            connection_timeout=settings.connect_seconds,
            read_timeout=settings.read_timeout,
            transport=_transport(settings),
            max_single_put_size=256 << 20,
            user_agent="lakeport",
            raw_response_hook=_check_headers,
        )
    except Exception as error:
        raise azure_errors.translate(error, "read", settings.address, settings) from None
    return client, token


def _transport(settings: AzureSettings) -> Any:
    """Return an HTTP transport that limits the time of whole answers."""
    from azure.core.pipeline.transport import RequestsTransport

    transport = RequestsTransport(
        connection_timeout=settings.connect_seconds,
        read_timeout=settings.read_timeout,
        connection_data_block_size=_BLOCK,
    )
    transport.open()
    limit_session(transport.session, settings.read_timeout)
    return transport


def _check_headers(response: Any) -> None:
    """Raise InvalidAnswer if a success has no request id, or no ETag after a whole blob's write."""
    request, answer = response.http_request, response.http_response
    if answer.status_code >= 300:
        return
    whole = request.method == "PUT" and "comp=block&" not in f"{request.url}&"
    for header in ("x-ms-request-id", *(("ETag",) if whole else ())):
        if header not in answer.headers:
            answer.internal_response.close()
            raise InvalidAnswer(request.url.partition("?")[0], header)


def _identity(settings: AzureSettings) -> Any:
    """Return the credential of a service principal, a managed identity, or the default chain.

    Raises LakeportError without azure-identity, or if the settings are refused.
    """
    try:
        from azure import identity
    except ImportError as error:
        raise missing_extra_error("azure-identity is not installed", "azure") from error
    try:
        if settings.client_secret:
            return identity.ClientSecretCredential(
                settings.tenant_id,
                settings.client_id,
                settings.client_secret,
                transport=_transport(settings),
            )
        client = settings.client_id or None
        if settings.managed_identity:
            return identity.ManagedIdentityCredential(client_id=client)
        return identity.DefaultAzureCredential(
            managed_identity_client_id=client, exclude_interactive_browser_credential=True
        )
    except Exception as error:
        raise azure_errors.translate(error, "read", settings.address, settings) from None


class AzureCheck(CloudCheck):
    """Connection test of a container: credentials, clock, create-only writes and deletes."""

    upload = "block upload"
    storage: AzureStorage

    def check_credentials(self) -> str:
        """Fetch a token, or raise LakeportError; return which credentials are in use."""
        settings = self.storage.settings
        connect(settings).access_token()
        if settings.access_key:
            return "`access_key` is used"
        if settings.sas_token:
            return "`sas_token` is used"
        if settings.client_secret:
            return "the service principal (`client_id`) has logged in"
        if settings.managed_identity:
            return "the managed identity gives tokens"
        return "found by the Azure SDK's default chain"

    def check_place(self) -> list[CheckItem]:
        """Return the items for listing the container and for the clock."""
        headers: dict[str, str] = {}
        return [run_check("container", lambda: self._list_container(headers)), check_clock(headers)]

    def check_more(self) -> Checks:
        """Yield the item for deleting blobs, which tables need."""
        yield run_check("delete", self._check_delete)

    def _list_container(self, headers: dict[str, str]) -> str:
        """List one blob; add the answer's headers to `headers`. Return the result in words."""
        storage = self.storage
        connection = connect(storage.settings)
        container = connection.container(storage.container)

        def keep(response: object) -> None:
            headers.update(getattr(getattr(response, "http_response", None), "headers", {}))

        def send() -> None:
            pages = container.list_blobs(
                name_starts_with=storage.prefix or None, results_per_page=1, raw_response_hook=keep
            ).by_page()
            next(pages)

        connection.send_with_retries(send, "list", storage.uri())
        return f"{storage.uri()} can be listed"

    def _check_delete(self) -> str:
        """Write a probe blob and delete it; return the result in words."""
        self.storage.put(_PROBE_KEY, b"")
        self.storage.delete(_PROBE_KEY)
        return "blobs can be deleted"
