"""Keys of every destination on Azure: the storage account and who writes to it."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from lakeport.config.base import DestinationConfig
from lakeport.config.clouds.fields import (
    OptionalEndpoint,
    OptionalSecret,
    OptionalText,
    blank,
    reveal,
)
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.retry import RetryPolicy

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_PRINCIPAL = ("tenant_id", "client_id", "client_secret")


def _account(value: str) -> str:
    if not _ACCOUNT.fullmatch(value):
        raise ValueError(
            "has to be the bare name of a storage account: 3 to 24 lower case letters and digits"
        )
    return value


def _key(value: SecretStr | None) -> SecretStr | None:
    try:
        base64.b64decode(reveal(value), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("has to be one of the account's keys, which are Base64 text") from None
    return value


def _sas(value: SecretStr | None) -> SecretStr | None:
    """A SAS token without the question mark in front, or what follows it in a SAS URL."""
    if value is None:
        return None
    token = value.get_secret_value().strip().rpartition("?")[2]
    if "sig" not in parse_qs(token):
        raise ValueError("has to be a shared access signature, such as sv=…&se=…&sp=…&sig=…")
    return SecretStr(token)


def _emulator(value: str | None) -> str | None:
    """An emulator's address without the account, which Azurite's own addresses end with."""
    parts = urlsplit(value or "")
    return f"{parts.scheme}://{parts.netloc}" if value else None


class AzureConfig(DestinationConfig):
    """Keys shared by the destinations on Azure.

    Every key can also be given as LAKEPORT_ and the key in capitals. Credentials are, in this
    order: `access_key`; `sas_token`; a service principal; `managed_identity`; else the chain of the
    Azure SDK (AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, workload identity, the
    machine's managed identity, the Azure CLI).
    """

    extra = "azure"

    account_name: Annotated[
        Annotated[str, AfterValidator(_account)] | None, BeforeValidator(blank)
    ] = Field(default=None, description="Name of the storage account.")
    access_key: Annotated[OptionalSecret, AfterValidator(_key)] = Field(
        default=None, description="One of the account's two keys."
    )
    sas_token: Annotated[OptionalSecret, AfterValidator(_sas)] = Field(
        default=None, description="Shared access signature of the container."
    )
    tenant_id: OptionalText = Field(
        default=None, description="Directory (tenant) of a service principal."
    )
    client_id: OptionalText = Field(
        default=None,
        description="Application (client) of a service principal, or a user-assigned identity.",
    )
    client_secret: OptionalSecret = Field(
        default=None, description="Secret of the service principal."
    )
    managed_identity: bool = Field(
        default=False, description="Use the machine's managed identity, or that of `client_id`."
    )
    azure_endpoint: Annotated[OptionalEndpoint, AfterValidator(_emulator)] = Field(
        default=None,
        description="URL of an emulator's Blob service (Azurite), such as http://127.0.0.1:10000; "
        "default: Azure.",
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        given = [name for name in _PRINCIPAL if getattr(self, name) is not None]
        if self.managed_identity and set(given) - {"client_id"}:
            raise ValueError("`managed_identity` takes no `tenant_id` and no `client_secret`")
        principal = set(given) > {"client_id"} or given in (["tenant_id"], ["client_secret"])
        if principal and len(given) < len(_PRINCIPAL):
            raise ValueError("`tenant_id`, `client_id` and `client_secret` go together")
        ways = [name for name in ("access_key", "sas_token") if getattr(self, name) is not None]
        ways += ["client_secret"] if principal else []
        ways += ["managed_identity"] if self.managed_identity else []
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(f'`{way}`' for way in ways)} exclude each other")
        return self

    def azure_settings(self, account: str, cloud: str) -> AzureSettings:
        """What a client needs of the config.

        Args:
            account: the storage account's name.
            cloud: end of its host names, such as `core.windows.net`.
        """
        return AzureSettings(
            account=account,
            access_key=reveal(self.access_key),
            sas_token=reveal(self.sas_token),
            tenant_id=self.tenant_id or "",
            client_id=self.client_id or "",
            client_secret=reveal(self.client_secret),
            managed_identity=self.managed_identity,
            cloud=cloud,
            endpoint=self.azure_endpoint or "",
            retry_policy=RetryPolicy(self.give_up_after),
        )
