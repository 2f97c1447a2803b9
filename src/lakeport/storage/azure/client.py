"""Azure's Blob service: credentials, and a client that repeats requests."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from lakeport.errors import LakeportError
from lakeport.host.packages import missing_extra_error
from lakeport.storage.azure import errors as azure_errors
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.retry import (
    Connection,
    ConnectionCache,
    InvalidAnswer,
    limit_session,
)

_SCOPE = "https://storage.azure.com/.default"
_BLOCK = 256 << 10
_EXPIRY_MARGIN = 60  # seconds: a token is not used for longer than so before its expiry


class AzureConnection(Connection):
    """Client of one Azure storage account: fetches tokens, sends requests with retries."""

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
        """Fetch a token; return it and its Unix expiry, or ("", 0) if a key or SAS is in use.

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
    """Fetch a token and return the settings with it, for workers; unchanged if that fails.

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
    """SDK credential that gives the driver's token and, after its expiry, this machine's own."""

    def __init__(self, settings: AzureSettings) -> None:
        self._settings = settings
        self._own_credential: Any = None

    def get_token(self, *scopes: str, **options: Any) -> Any:
        """Return the driver's token until a minute before its expiry, then this machine's own."""
        from azure.core.credentials import AccessToken

        if time.time() < self._settings.token_end - _EXPIRY_MARGIN:
            return AccessToken(self._settings.token, self._settings.token_end)
        self._own_credential = self._own_credential or _identity(self._settings)
        return self._own_credential.get_token(*scopes, **options)


def _client(settings: AzureSettings) -> tuple[Any, Any]:
    """Create the SDK's client and token credential (None for a key or SAS); or LakeportError."""
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
    """Return an HTTP transport whose whole responses have a time limit."""
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
    """Raise InvalidAnswer if a 2xx response has no request id or, for a new blob, no ETag."""
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
