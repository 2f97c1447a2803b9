"""Settings of Google Cloud Storage: endpoint and credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar
from urllib.parse import quote

from lakeport.storage.retry import CloudSettings

_GOOGLE = "https://storage.googleapis.com"


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
