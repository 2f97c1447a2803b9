"""Config of the destination `delta_lake_azure`: Delta tables in a container."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from lakeport.config.base import DestinationConfig, Text
from lakeport.config.clouds import (
    OptionalEndpoint,
    OptionalSecret,
    OptionalText,
    blank_to_none,
    reveal,
)
from lakeport.engine.session_options import read_session_options
from lakeport.errors import ConfigError
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.base import clean_prefix
from lakeport.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from lakeport.storage.azure.store import AzureStorage

_URI = re.compile(
    r"abfss?://(?P<container>[^@/?#\\]+)(?:@(?P<account>[^./?#@]+)\.(?P<kind>dfs|blob)"
    r"\.(?P<cloud>[a-z0-9.-]+))?/(?P<path>[^?#]*)",
)
_CONTAINER = re.compile(r"\$root|\$web|(?=.{3,63}$)[a-z0-9](?:-?[a-z0-9])*")
_STREAM = "{stream}"

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_OAUTH = ("client.id", "client.secret", "client.endpoint")
_ABFS = (
    "account.auth.type",
    "account.key",
    "sas.fixed.token",
    "account.oauth.provider.type",
    *(f"account.oauth2.{name}" for name in _OAUTH),
)
_ABFS_EMULATOR = ("fs.azure.abfs.endpoint", "fs.azure.always.use.https")


class _TableUri(NamedTuple):
    """Parts of a table's abfss URI; `cloud` is a domain, and `account` may be empty."""

    container: str
    account: str
    cloud: str
    parent: str
    folder: str


def _parse_table_uri(uri: str) -> _TableUri:
    """Parse the abfss URI of a table; raise ValueError if it is invalid.

    Raises:
        ValueError: it is no such URI, or Azure has no such container or path.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise ValueError(
            "has to look like abfss://container@account.dfs.core.windows.net/path, or "
            "abfss://container/path with `account_name` beside it"
        )
    if not _CONTAINER.fullmatch(match["container"]):
        raise ValueError(
            "does not begin with a container's name: 3 to 63 lower case letters, digits and single "
            "hyphens"
        )
    try:
        path = clean_prefix(match["path"], "table_uri")
    except ConfigError as error:
        raise ValueError(f"can't have such a path: {error.hint}") from None
    parent, _, folder = path.rpartition("/")
    if not folder:
        raise ValueError("has to name a folder in the container: the table's")
    if any(part.endswith(".") for part in path.split("/")):
        raise ValueError("has a part that ends with a dot, which Azure does not take")
    if _STREAM in parent:
        raise ValueError(f"can hold {_STREAM} in its last part only")
    return _TableUri(
        match["container"],
        match["account"] or "",
        match["cloud"] or "core.windows.net",
        parent,
        folder,
    )


def _parse_folder_uri(uri: str) -> _TableUri:
    """Parse a folder's abfss URI; the whole path is `parent`. ConfigError for other text."""
    try:
        return _parse_table_uri(f"{uri.rstrip('/')}/_")
    except ValueError as error:
        raise ConfigError(
            f"{uri!r} {error}", "write abfss://container@account.dfs.core.windows.net/path."
        ) from None


def _mask_query(value: object) -> object:
    """Mask a URI's query, which may hold a signature and is refused afterwards."""
    return re.sub(r"\?.*", "?***", value) if isinstance(value, str) else value


def _check_table_uri(uri: str) -> str:
    """Return a table's URI unchanged, if it can be parsed."""
    _parse_table_uri(uri)
    return uri


def _check_account(value: str) -> str:
    """Return a storage account's name unchanged; raise ValueError if it is invalid."""
    if not _ACCOUNT.fullmatch(value):
        raise ValueError(
            "has to be the bare name of a storage account: 3 to 24 lower case letters and digits"
        )
    return value


def _check_access_key(value: SecretStr | None) -> SecretStr | None:
    """Return an account's key unchanged; raise ValueError if it is not Base64 text."""
    try:
        base64.b64decode(reveal(value), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("has to be one of the account's keys, which are Base64 text") from None
    return value


def _parse_sas_token(value: SecretStr | None) -> SecretStr | None:
    """Return the SAS token in a URL or text, without `?`; ValueError for other text."""
    if value is None:
        return None
    token = value.get_secret_value().strip().rpartition("?")[2]
    if "sig" not in parse_qs(token):
        raise ValueError("has to be a shared access signature, such as sv=…&se=…&sp=…&sig=…")
    return SecretStr(token)


def _remove_path(value: str | None) -> str | None:
    """Return an emulator's URL without its path: Azurite's URLs end with the account's name."""
    parts = urlsplit(value or "")
    return f"{parts.scheme}://{parts.netloc}" if value else None


class DeltaLakeAzureConfig(DestinationConfig):
    """Config of a Delta table at `table_uri`, or of one per stream if it ends with `{stream}`.

    Credentials are, in this order: `access_key`; `sas_token`; a service principal;
    `managed_identity`; those of an adopted Spark session (`fs.azure.account.key`); else the chain
    of the Azure SDK (AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, workload identity,
    the machine's managed identity, the Azure CLI).

    Example:
        >>> uri = "abfss://lake@acme.dfs.core.windows.net/silver/users"
        >>> DeltaLakeAzureConfig(table_uri=uri, access_key="a2V5").table_pattern
        'users'
    """

    extra = "azure"
    delta_jars = frozenset({"delta", "azure"})

    account_name: Annotated[
        Annotated[str, AfterValidator(_check_account)] | None, BeforeValidator(blank_to_none)
    ] = Field(default=None, description="Name of the storage account.")
    access_key: Annotated[OptionalSecret, AfterValidator(_check_access_key)] = Field(
        default=None, description="One of the account's two keys."
    )
    sas_token: Annotated[OptionalSecret, AfterValidator(_parse_sas_token)] = Field(
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
    azure_endpoint: Annotated[OptionalEndpoint, AfterValidator(_remove_path)] = Field(
        default=None,
        description="URL of an emulator's Blob service (Azurite), such as http://127.0.0.1:10000; "
        "default: Azure.",
    )
    destination: Literal["delta_lake_azure"] = Field(
        default="delta_lake_azure", description="`delta_lake_azure`."
    )
    table_uri: Annotated[str, BeforeValidator(_mask_query), AfterValidator(_check_table_uri)] = (
        Field(
            description="The table's own folder: "
            "abfss://container@account.dfs.core.windows.net/path, or abfss://container/path with "
            "`account_name`. Several streams need `{stream}` at its end."
        )
    )
    table: Text | None = Field(
        default=None, description="A label; it has no effect on where the table is."
    )
    file_type: Literal["delta"] = Field(default="delta", description="Format of the table: delta.")

    @model_validator(mode="before")
    @classmethod
    def _default_label(cls, values: Any) -> Any:
        """Set a missing `table` to the last part of `table_uri`, unless that has `{stream}`."""
        uri = values.get("table_uri")
        if values.get("table") is None and isinstance(uri, str) and _STREAM not in uri:
            folder = uri.rstrip("/").rpartition("/")[2]
            return {**values, **({"table": folder} if folder else {})}
        return values

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        """Raise ValueError for two kinds of credentials or half a service principal."""
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

    @model_validator(mode="after")
    def _check_account_names(self) -> Self:
        """Raise ValueError for no account, two different ones, or `object_key_path`."""
        named = _parse_table_uri(self.table_uri).account
        if not named and self.account_name is None:
            raise ValueError("`account_name` is missing, and `table_uri` does not name one either")
        if named and self.account_name not in (None, named):
            raise ValueError(
                f"`account_name` is {self.account_name!r}, but `table_uri` names {named!r}"
            )
        if self.object_key_path:
            raise ValueError("`object_key_path` has no use here: write it into `table_uri`")
        return self

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """Return the key for `abfss://container@account.dfs.core.windows.net/path`."""
        return {"table_uri": uri}

    @classmethod
    def for_source_folder(cls, uri: str, target: DestinationConfig) -> DestinationConfig:
        """Return a config to read `uri`, with the target's credentials if accounts are equal.

        For another account it has the SDK's chain; keys in the environment are the target's.

        Raises:
            ConfigError: it is no abfss URI.
        """
        table_uri = f"{uri.rstrip('/')}/_"
        account = _parse_folder_uri(uri).account
        if isinstance(target, DeltaLakeAzureConfig):
            own = target._settings().account
            if account in ("", own):
                return target.model_copy(update={"table_uri": table_uri, "account_name": own})
        return cls(table_uri=table_uri)

    @property
    def table_pattern(self) -> str:
        """Name of the table's folder, the last part of `table_uri`; may hold `{stream}`."""
        return _parse_table_uri(self.table_uri).folder

    def table_folder_name(self, table: str) -> str:
        """Return a table's name, with a dot at its end escaped: Azure refuses such folders."""
        return f"{table[:-1]}%2E" if table.endswith(".") else table

    def storage(self) -> AzureStorage:
        """Return the Azure storage, rooted at the parent of the table's folder."""
        from lakeport.storage.azure.store import AzureStorage

        place = _parse_table_uri(self.table_uri)
        settings = self.with_session_keys()._settings()
        return AzureStorage(place.container, place.parent, settings)

    def _session_keys(self) -> dict[str, Any]:
        """Return credentials and emulator of ABFS's options, the account's before the others."""
        ways = ("access_key", "sas_token", *_PRINCIPAL)
        if self.managed_identity or any(getattr(self, name) is not None for name in ways):
            return {}
        host, names = self._settings().host, [f"fs.azure.{name}" for name in _ABFS]
        options = read_session_options(
            [*(f"{name}.{host}" for name in names), *names, *_ABFS_EMULATOR]
        )

        def option(name: str) -> str:
            name = f"fs.azure.{name}"
            return options.get(f"{name}.{host}") or options.get(name, "")

        address, tls = (options.get(name, "") for name in _ABFS_EMULATOR)
        scheme = "http" if tls.lower() == "false" else "https"
        endpoint = f"{scheme}://{address}" if address else None
        if self.azure_endpoint not in (None, endpoint):
            return {}
        found: dict[str, Any] = {"azure_endpoint": endpoint} if endpoint else {}
        client, secret = option("account.oauth2.client.id"), option("account.oauth2.client.secret")
        login = urlsplit(option("account.oauth2.client.endpoint")).path.strip("/").split("/")[0]
        match option("account.auth.type").lower() or "sharedkey":
            case "sharedkey" if key := option("account.key"):
                found["access_key"] = SecretStr(key)
            case "sas" if token := option("sas.fixed.token"):
                found["sas_token"] = SecretStr(token.lstrip("?"))
            case "oauth" if client and secret and login:
                found |= {"tenant_id": login, "client_id": client}
                found["client_secret"] = SecretStr(secret)
            case "oauth" if option("account.oauth.provider.type").endswith("MsiTokenProvider"):
                found |= {"managed_identity": True, "client_id": client or None}
        return found

    def _settings(self) -> AzureSettings:
        """Return account, credentials, endpoint and retry limit for connecting to Azure."""
        place = _parse_table_uri(self.table_uri)
        return AzureSettings(
            account=place.account or self.account_name or "",
            access_key=reveal(self.access_key),
            sas_token=reveal(self.sas_token),
            tenant_id=self.tenant_id or "",
            client_id=self.client_id or "",
            client_secret=reveal(self.client_secret),
            managed_identity=self.managed_identity,
            cloud=place.cloud,
            endpoint=self.azure_endpoint or "",
            retry_policy=RetryPolicy(self.give_up_after),
            from_session=self._from_session,
        )
