"""Config of the destination `google_cloud_storage`: Parquet or CSV files in a bucket."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr

from lakeport.config.clouds import (
    BucketConfig,
    OptionalEndpoint,
    OptionalSecret,
    OptionalText,
    blank_to_none,
)
from lakeport.engine.session_options import read_session_options
from lakeport.errors import ConfigError
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.retry import RetryPolicy

if TYPE_CHECKING:
    from lakeport.storage.gcs.store import GcsStorage

_EMULATOR = "STORAGE_EMULATOR_HOST"
_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105  # an address
_AUTH = "fs.gs.auth."
_CONNECTOR = (
    f"{_AUTH}service.account.json.keyfile",
    "google.cloud.auth.service.account.json.keyfile",
    *(f"{_AUTH}service.account.{name}" for name in ("email", "private.key.id", "private.key")),
    *(f"{_AUTH}{name}" for name in ("client.id", "client.secret", "refresh.token")),
    "fs.gs.storage.root.url",
)
_SECRET_PARTS = ("private_key", "private_key_id", "client_secret", "refresh_token")


def _credentials_as_text(value: object) -> object:
    """Convert a path object to text and a mapping to JSON text; blank text to None."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return json.dumps(dict(value), default=SecretStr.get_secret_value)
    return blank_to_none(value)


class GoogleCloudStorageConfig(BucketConfig):
    """Config of Parquet or CSV files in a Google Cloud Storage bucket.

    Their paths are `<object_key_path>/<table>/[date folders/]YYYYMMDD-HHMMSS.<file_type>`.

    Example:
        >>> GoogleCloudStorageConfig(bucket="lake", object_key_path="/raw/").object_key_path
        'raw'
    """

    extra = "gcs"

    google_application_credentials: Annotated[
        OptionalSecret, BeforeValidator(_credentials_as_text)
    ] = Field(
        default=None,
        description="Key of a service account: the path of its JSON file, its JSON text, or a "
        "mapping; default: application default credentials (GOOGLE_APPLICATION_CREDENTIALS, "
        "gcloud, the metadata server).",
    )
    google_endpoint: OptionalEndpoint = Field(
        default=None,
        description="URL instead of Google's (STORAGE_EMULATOR_HOST). One with http:// gets "
        "requests without credentials, unless a key is given.",
    )
    google_project: OptionalText = Field(
        default=None, description="Project to bill for a bucket whose requester pays."
    )
    kms_key_name: Annotated[
        Annotated[str, Field(pattern=r"^projects/.+/locations/.+/keyRings/.+/cryptoKeys/.+$")]
        | None,
        BeforeValidator(blank_to_none),
    ] = Field(
        default=None,
        description="Key that encrypts objects, projects/…/locations/…/keyRings/…/cryptoKeys/…; "
        "default: the bucket's.",
    )
    destination: Literal["google_cloud_storage"] = Field(
        default="google_cloud_storage", description="`google_cloud_storage`."
    )
    file_type: Literal["parquet", "csv"] = Field(
        default="parquet", description="Format of the files: parquet or csv."
    )

    @classmethod
    def session_jars(cls) -> frozenset[str]:
        """Return the names of the jars for Delta and for Google's connector."""
        return frozenset({"delta", "gcs"})

    def storage(self) -> GcsStorage:
        """Return the Google Cloud storage, rooted at `object_key_path` in the bucket.

        Raises:
            ConfigError: the key's file can't be read.
        """
        from lakeport.storage.gcs.store import GcsStorage

        settings = self.with_session_keys().gcp_settings()
        return GcsStorage(self.bucket, self.object_key_path, settings)

    def _session_keys(self) -> dict[str, Any]:
        """Return credentials and endpoint of the GCS connector's options."""
        if self.google_application_credentials is not None:
            return {}
        options = read_session_options(_CONNECTOR)
        file, older_file, email, key_id, key, client, secret, token, url = (
            options.get(name, "") for name in _CONNECTOR
        )
        endpoint = url.rstrip("/") or None
        if self.google_endpoint not in (None, endpoint):
            return {}
        found: dict[str, Any] = {"google_endpoint": endpoint} if endpoint else {}
        text = file or older_file
        if not text and email and key:
            info = {"client_email": email, "private_key_id": key_id, "token_uri": _TOKEN_URI}
            text = json.dumps({"type": "service_account", "private_key": key, **info})
        if not text and client and secret and token:
            info = {"client_id": client, "client_secret": secret, "refresh_token": token}
            text = json.dumps({"type": "authorized_user", **info})
        return found | ({"google_application_credentials": SecretStr(text)} if text else {})

    def secrets(self) -> tuple[str, ...]:
        """Return all secret values; of a service account's key, only the secret members."""
        config = self.with_session_keys()
        given = config.google_application_credentials
        if given is None:
            return super().secrets()
        others = tuple(value for value in super().secrets() if value != given.get_secret_value())
        try:
            info = json.loads(config.credentials_text())
        except (ConfigError, ValueError):
            return others
        parts = (str(info[name]) for name in _SECRET_PARTS if info.get(name))
        return tuple(dict.fromkeys((*others, *parts)))

    def credentials_text(self) -> str:
        """Return the key's JSON text, read from its file if a path was given; empty for no key.

        Raises:
            ConfigError: the file can't be read, or it holds no credentials.
        """
        if self.google_application_credentials is None:
            return ""
        text = self.google_application_credentials.get_secret_value()
        origin = "the key"
        if not text.lstrip().startswith("{"):
            path = Path(text).expanduser()
            origin = f"the file {str(path)!r}"
            try:
                text = path.read_text("utf-8")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it is not text"
                raise ConfigError(
                    f"`google_application_credentials`: {origin} can't be read: {reason}",
                    "it takes the path, the JSON text or the mapping of a service account's key; "
                    "leave it out to use application default credentials.",
                ) from None
        try:
            info = json.loads(text)
        except ValueError:
            info = None
        if not isinstance(info, dict) or "type" not in info:
            raise ConfigError(
                f"`google_application_credentials`: {origin} is not a credential file in JSON",
                "create one with `gcloud iam service-accounts keys create`.",
            )
        return text

    def gcp_settings(self) -> GcpSettings:
        """Return credentials, project, and Google's or STORAGE_EMULATOR_HOST's endpoint.

        Raises:
            ConfigError: the key's file can't be read.
        """
        emulator = os.environ.get(_EMULATOR, "")
        if emulator and "://" not in emulator:
            emulator = f"http://{emulator}"
        return GcpSettings(
            credentials=self.credentials_text(),
            endpoint=self.google_endpoint or emulator.rstrip("/"),
            project=self.google_project or "",
            kms_key_name=self.kms_key_name or "",
            retry_policy=RetryPolicy(self.give_up_after),
            from_session=self._from_session,
        )
