"""Settings of Google Cloud Storage: endpoint and credentials."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar
from urllib.parse import quote

from lakeport.errors import ConfigError
from lakeport.storage.retry import CloudSettings

_GOOGLE = "https://storage.googleapis.com"
_CONNECTOR = "com.google.cloud.hadoop.fs.gcs.GoogleHadoop"
_CLASSES = {
    "fs.gs.impl": f"{_CONNECTOR}FileSystem",
    "fs.AbstractFileSystem.gs.impl": f"{_CONNECTOR}FS",
}
_KEY = {"email": "client_email", "private.key.id": "private_key_id", "private.key": "private_key"}
_SIZES = {  # Hadoop 3.5 has defaults with units, for a connector of its own
    "block.size": str(64 << 20),
    "inputstream.inplace.seek.limit": str(8 << 20),
    "inputstream.min.range.request.size": str(2 << 20),
    "outputstream.buffer.size": str(8 << 20),
}


@dataclass(frozen=True, slots=True)
class GcpSettings(CloudSettings):
    """Endpoint, credentials and encryption key for Google Cloud Storage buckets.

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
    address_keys: ClassVar = "`google_endpoint`, STORAGE_EMULATOR_HOST"

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
    def address(self) -> str:
        """URL of the endpoint, without a slash at its end."""
        return (self.endpoint or _GOOGLE).rstrip("/")

    def hadoop_settings(self) -> dict[str, str]:
        """Return the options of Google's connector for Hadoop, secrets included.

        They are for all buckets. Empty if the user's Spark session has them. Without a key the
        connector takes that of GOOGLE_APPLICATION_CREDENTIALS, or of the machine.

        Raises:
            ConfigError: the credentials are no service account's key.

        >>> GcpSettings(endpoint="http://localhost:4443").hadoop_settings()["fs.gs.auth.null.enable"]
        'true'
        """
        if self.from_session:
            return {}
        options = {**_SIZES, "storage.root.url": f"{self.address}/"}
        if self.anonymous:
            options |= {"auth.service.account.enable": "false", "auth.null.enable": "true"}
        if self.project:
            options |= {"requester.pays.mode": "AUTO", "requester.pays.project.id": self.project}
        if self.credentials:
            key = json.loads(self.credentials)
            try:
                options |= {f"auth.service.account.{name}": key[of] for name, of in _KEY.items()}
            except KeyError:
                raise ConfigError(
                    f"Spark can't use Google credentials of the type {key.get('type')!r}",
                    "give a service account's key, or name their file in "
                    "GOOGLE_APPLICATION_CREDENTIALS and leave the config's key out.",
                ) from None
        return _CLASSES | {f"fs.gs.{name}": value for name, value in options.items()}

    def object_url(self, bucket: str, key: str = "") -> str:
        """Return the JSON API's URL of an object; without a key, of the bucket's object list.

        >>> GcpSettings().object_url("lake", "a/b c")
        'https://storage.googleapis.com/storage/v1/b/lake/o/a%2Fb%20c'
        """
        name = f"/{quote(key, safe='')}" if key else ""
        return f"{self.address}/storage/v1/b/{quote(bucket, safe='')}/o{name}"

    def upload_url(self, bucket: str) -> str:
        """Return the URL of uploads to a bucket."""
        return f"{self.address}/upload/storage/v1/b/{quote(bucket, safe='')}/o"
