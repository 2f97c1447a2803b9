"""The keys that every destination on a cloud has."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict, model_validator

from lakeport.config.base import DestinationConfig, Settings, Text
from lakeport.errors import ConfigError
from lakeport.scrub import MASK
from lakeport.storage.azure.client import AzureSettings
from lakeport.storage.base import clean_prefix
from lakeport.storage.gcs.client import GcpSettings
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.client import ID_KEY, AwsSettings

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_BEFORE_AT = re.compile(r"(?s)^(\w+://)?.*@")


def blank(value: object) -> object:
    """Blank text is absent, as templates leave it where nothing was filled in."""
    return None if isinstance(value, str) and not value.strip() else value


def prefix(value: str) -> str:
    """A prefix without slashes at its ends, that nothing climbs out of."""
    try:
        return clean_prefix(value)
    except ConfigError as error:
        raise ValueError(f"can't have such a part: {error.hint}") from None


def _masked(value: object) -> object:
    """Text without the credentials before an `@`, which no endpoint and no bucket may have."""
    return _BEFORE_AT.sub(rf"\1{MASK}@", value) if isinstance(value, str) else value


def _endpoint(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("has to look like https://host or http://host:port")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("can't hold credentials, a query or a fragment")
    return value.rstrip("/")


def _bucket(value: str) -> str:
    if not _BUCKET.fullmatch(value):
        raise ValueError(
            "has to be the bare name of a bucket, without scheme and slashes, of 2 to 255 letters, "
            "digits, dots, hyphens and underscores"
        )
    return value


def reveal(secret: SecretStr | None) -> str:
    """A secret's text; empty if it is absent."""
    return secret.get_secret_value() if secret is not None else ""


Bucket = Annotated[str, AfterValidator(_bucket), BeforeValidator(_masked)]
# Strict: a number of YAML's may have lost the zeros in front.
OptionalSecret = Annotated[SecretStr | None, Strict(), BeforeValidator(blank)]
OptionalText = Annotated[Text | None, BeforeValidator(blank)]
OptionalEndpoint = Annotated[
    Annotated[str, AfterValidator(_endpoint)] | None,
    BeforeValidator(_masked),
    BeforeValidator(blank),
]


_ROLE = re.compile(r"arn:\S+")  # other stores than AWS take any
_TAG = re.compile(r"[\w +\-=.:/@]*")  # what S3 takes in names and values of tags
_MOST_TAGS = 10
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a header's, which metadata become
_MOST_METADATA = 2000


def _role(value: str) -> str:
    if not _ROLE.fullmatch(value):
        raise ValueError("has to look like arn:aws:iam::123456789012:role/name")
    return value


def _metadata(values: dict[str, str]) -> dict[str, str]:
    if any(
        not (name + value).isascii() or not value.isprintable() for name, value in values.items()
    ):
        raise ValueError("can hold printable ASCII only")
    for name in values:
        if not _NAME.fullmatch(name) or name.lower() == ID_KEY:
            raise ValueError(f"{name!r} is no name for it: letters, digits and hyphens are")
    if len({name.lower() for name in values}) < len(values):
        raise ValueError("has two names that differ only in case, which S3 does not tell apart")
    if sum(len(name) + len(value) for name, value in values.items()) > _MOST_METADATA:
        raise ValueError(f"can hold {_MOST_METADATA} characters in all")
    return values


def _tags(values: dict[str, str]) -> dict[str, str]:
    if len(values) > _MOST_TAGS:
        raise ValueError(f"can hold {_MOST_TAGS} tags at most")
    for name, value in values.items():
        if not 0 < len(name) <= 128 or len(value) > 256:
            raise ValueError(f"{name!r}: a name has 1 to 128 characters, a value at most 256")
        if not _TAG.fullmatch(name) or not _TAG.fullmatch(value):
            raise ValueError(f"{name!r}: letters, digits, spaces and + - = . _ : / @ are taken")
        if name.lower().startswith("aws:"):
            raise ValueError(f"{name!r}: names that begin with `aws:` are Amazon's own")
    return values


class AwsConfig(DestinationConfig):
    """Keys shared by the destinations on S3 and on stores that speak its protocol.

    Every key can also be given as LAKEPORT_ and the key in capitals. Credentials are taken from:
    the two key fields; else `aws_profile`; else the chain of the AWS SDK (AWS_ACCESS_KEY_ID,
    AWS_PROFILE, web identity, SSO, the files in ~/.aws, the container's and the instance's role).
    """

    extra = "s3"

    bucket: Bucket = Field(description="Name of the bucket. It is never created.")
    object_key_path: Annotated[str, AfterValidator(prefix)] = Field(
        default="", description="Prefix in front of the tables; default: none."
    )
    aws_access_key_id: OptionalSecret = Field(
        default=None, description="Access key; default: the AWS SDK's chain (AWS_ACCESS_KEY_ID)."
    )
    aws_secret_access_key: OptionalSecret = Field(
        default=None, description="Secret of the access key (AWS_SECRET_ACCESS_KEY)."
    )
    aws_session_token: OptionalSecret = Field(
        default=None, description="Session token of temporary keys (AWS_SESSION_TOKEN)."
    )
    aws_profile: OptionalText = Field(
        default=None, description="Profile of ~/.aws to take the credentials of (AWS_PROFILE)."
    )
    aws_region: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")] = Field(
        default="us-west-2", description="The bucket's region; default: us-west-2."
    )
    aws_endpoint: OptionalEndpoint = Field(
        default=None,
        description="URL of another store that speaks S3's protocol (MinIO, R2, Wasabi, "
        "DigitalOcean Spaces, Backblaze); default: AWS.",
    )
    aws_addressing_style: Literal["auto", "path", "virtual"] = Field(
        default="auto",
        description="Where requests name the bucket: path, virtual (in the host name), or auto: "
        "virtual for AWS, path for other endpoints except those that refuse it.",
    )
    role_arn: Annotated[Annotated[str, AfterValidator(_role)] | None, BeforeValidator(blank)] = (
        Field(
            default=None,
            description="Role to assume with the keys or the chain; renewed while a run goes on.",
        )
    )
    role_session_name: Annotated[str, Field(pattern=r"^[\w+=,.@-]{2,64}$")] = Field(
        default="mage-data-integration", description="Name of the assumed role's session."
    )
    external_id: OptionalSecret = Field(
        default=None, description="External id that the role's trust policy asks for."
    )
    sse: Literal["AES256", "aws:kms"] | None = Field(
        default=None,
        description="Server-side encryption: AES256 or aws:kms; default: the bucket's. Keys that "
        "the client keeps (SSE-C) are not supported.",
    )
    sse_kms_key_id: OptionalText = Field(
        default=None, description="Key for `sse: aws:kms`; default: the account's S3 key."
    )
    object_tags: Annotated[Settings, AfterValidator(_tags)] = Field(
        default_factory=dict,
        description="Tags of data objects, 10 at most; they take s3:PutObjectTagging.",
    )
    object_metadata: Annotated[Settings, AfterValidator(_metadata)] = Field(
        default_factory=dict, description="Metadata of data objects: names and ASCII values."
    )

    @model_validator(mode="after")
    def _credentials_fit(self) -> Self:
        if (self.aws_access_key_id is None) != (self.aws_secret_access_key is None):
            raise ValueError("`aws_access_key_id` and `aws_secret_access_key` go together")
        if self.aws_session_token is not None and self.aws_access_key_id is None:
            raise ValueError("`aws_session_token` needs the two keys of its session")
        if self.aws_profile is not None and self.aws_access_key_id is not None:
            raise ValueError("`aws_profile` and the two keys exclude each other")
        if self.sse_kms_key_id is not None and self.sse != "aws:kms":
            raise ValueError("`sse_kms_key_id` needs `sse: aws:kms`")
        return self

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """The bucket and prefix of `s3://bucket/prefix`."""
        parts = urlsplit(uri)
        return {"bucket": parts.netloc, "object_key_path": parts.path}

    def aws_settings(self) -> AwsSettings:
        """Return the settings of an S3 client."""
        style: Any = self.aws_addressing_style
        return AwsSettings(
            access_key_id=reveal(self.aws_access_key_id),
            secret_access_key=reveal(self.aws_secret_access_key),
            session_token=reveal(self.aws_session_token),
            profile=self.aws_profile or "",
            region=self.aws_region,
            endpoint=self.aws_endpoint or "",
            addressing_style="" if style == "auto" else style,
            role_arn=self.role_arn or "",
            role_session_name=self.role_session_name,
            external_id=reveal(self.external_id),
            sse=self.sse or "",
            sse_kms_key_id=self.sse_kms_key_id or "",
            tags=tuple(self.object_tags.items()),
            metadata=tuple(self.object_metadata.items()),
            retry_policy=RetryPolicy(self.give_up_after),
        )


_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_PRINCIPAL = ("tenant_id", "client_id", "client_secret")


def _account(value: str) -> str:
    if not _ACCOUNT.fullmatch(value):
        raise ValueError(
            "has to be the bare name of a storage account: 3 to 24 lower case letters and digits"
        )
    return value


def _azure_key(value: SecretStr | None) -> SecretStr | None:
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
    access_key: Annotated[OptionalSecret, AfterValidator(_azure_key)] = Field(
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
        """Return the settings of an Azure client.

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


_EMULATOR = "STORAGE_EMULATOR_HOST"
_SECRET_PARTS = ("private_key", "private_key_id", "client_secret", "refresh_token")


def _gcp_key(value: object) -> object:
    """A path, or the JSON text of a key that came as text or as a mapping."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return json.dumps({name: _plain(item) for name, item in value.items()})
    return blank(value)


def _plain(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


class GcpConfig(DestinationConfig):
    """Keys shared by the destinations on Google Cloud Storage.

    Every key can also be given as LAKEPORT_ and the key in capitals.
    """

    extra = "gcs"

    bucket: Bucket = Field(description="Name of the bucket. It is never created.")
    object_key_path: Annotated[str, AfterValidator(prefix)] = Field(
        default="", description="Prefix in front of the tables; default: none."
    )
    google_application_credentials: Annotated[OptionalSecret, BeforeValidator(_gcp_key)] = Field(
        default=None,
        description="Key of a service account: the path of its JSON file, its JSON text, or a "
        "mapping; default: application default credentials (GOOGLE_APPLICATION_CREDENTIALS, "
        "gcloud, the metadata server).",
    )
    google_endpoint: OptionalEndpoint = Field(
        default=None,
        description="URL instead of Google's (STORAGE_EMULATOR_HOST). One that begins with "
        "http:// is asked without credentials unless a key is given.",
    )
    google_project: OptionalText = Field(
        default=None, description="Project that pays where the bucket wants the requester to."
    )
    kms_key_name: Annotated[
        Annotated[str, Field(pattern=r"^projects/.+/locations/.+/keyRings/.+/cryptoKeys/.+$")]
        | None,
        BeforeValidator(blank),
    ] = Field(
        default=None,
        description="Key that encrypts objects, projects/…/locations/…/keyRings/…/cryptoKeys/…; "
        "default: the bucket's.",
    )

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """The bucket and prefix of `gs://bucket/prefix`."""
        parts = urlsplit(uri)
        return {"bucket": parts.netloc, "object_key_path": parts.path}

    def secrets(self) -> tuple[str, ...]:
        """Every secret of the config; of a key, those of its parts that are secret."""
        given = self.google_application_credentials
        if given is None:
            return super().secrets()
        others = tuple(value for value in super().secrets() if value != given.get_secret_value())
        try:
            info = json.loads(self.credentials_text())
        except (ConfigError, ValueError):
            return others
        parts = (str(info[name]) for name in _SECRET_PARTS if info.get(name))
        return tuple(dict.fromkeys((*others, *parts)))

    def credentials_text(self) -> str:
        """The JSON text of the key, read from its file where a path was given; empty for none.

        Raises:
            ConfigError: there is no such file, or it holds no credentials.
        """
        if self.google_application_credentials is None:
            return ""
        text = self.google_application_credentials.get_secret_value()
        what = "the key"
        if not text.lstrip().startswith("{"):
            path = Path(text).expanduser()
            what = f"the file {str(path)!r}"
            try:
                text = path.read_text("utf-8")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it is not text"
                raise ConfigError(
                    f"`google_application_credentials`: {what} can't be read: {reason}",
                    "it takes the path, the JSON text or the mapping of a service account's key; "
                    "leave it out to use application default credentials.",
                ) from None
        try:
            info = json.loads(text)
        except ValueError:
            info = None
        if not isinstance(info, dict) or "type" not in info:
            raise ConfigError(
                f"`google_application_credentials`: {what} is not a credential file in JSON",
                "create one with `gcloud iam service-accounts keys create`.",
            )
        return text

    def gcp_settings(self, environ: Mapping[str, str] | None = None) -> GcpSettings:
        """Return the settings of a connection to Google.

        Args:
            environ: looked at for STORAGE_EMULATOR_HOST; default: the process's environment.

        Raises:
            ConfigError: the key's file can't be read.
        """
        emulator = (os.environ if environ is None else environ).get(_EMULATOR, "")
        if emulator and "://" not in emulator:
            emulator = f"http://{emulator}"
        return GcpSettings(
            credentials=self.credentials_text(),
            endpoint=self.google_endpoint or emulator.rstrip("/"),
            project=self.google_project or "",
            kms_key_name=self.kms_key_name or "",
            retry_policy=RetryPolicy(self.give_up_after),
        )
