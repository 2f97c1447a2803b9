"""Settings of a storage account: endpoint and credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from lakeport.storage.retry import CloudSettings

_CLOUD = "core.windows.net"


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
        """Keys, tokens and signatures to mask in messages; only those that are set."""
        signature = parse_qs(self.sas_token).get("sig", [])
        values = (self.access_key, self.sas_token, self.client_secret, self.token, *signature)
        return tuple(value for value in values if value)

    @property
    def sas_expired(self) -> bool:
        """Whether the SAS token's expiry time `se` has passed; False if it has none.

        >>> AzureSettings("lake", sas_token="se=2001-01-01T00%3A00%3A00Z&sig=x").sas_expired
        True
        """
        try:
            end = datetime.fromisoformat(parse_qs(self.sas_token)["se"][0])
        except (KeyError, ValueError):
            return False
        return end.replace(tzinfo=end.tzinfo or UTC) < datetime.now(UTC)
