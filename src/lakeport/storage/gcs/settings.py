"""How to reach a bucket on Google Cloud Storage, or on an emulator of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, urlsplit

from lakeport.storage.retry import RetryPolicy

_GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class GcpSettings:
    """How to reach a bucket. Picklable; its repr shows no secret.

    Attributes:
        credentials: JSON text of a service account's key (or another credential file); empty for
            the application default credentials of the machine where the settings are used.
        endpoint: instead of Google's. One that begins with `http://` never gets a token of the
            application default credentials: it is an emulator.
        project: billed for requests to buckets whose requester pays; empty for none.
        kms_key_name: full resource name of the key that encrypts objects; empty for the bucket's.
        retry_policy: for transient failures.
        connect_seconds: how long one connection may take to be made.
        read_seconds: how long the endpoint may stay silent.
        token: an access token that a driver handed to its tasks, instead of looking for one.
        token_end: when it expires (UTC, without a zone).
    """

    credentials: str = field(default="", repr=False)
    endpoint: str = ""
    project: str = ""
    kms_key_name: str = ""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    connect_seconds: float = 5
    read_seconds: float = 60
    token: str = field(default="", repr=False)
    token_end: datetime | None = None

    @property
    def read_timeout(self) -> float:
        """Seconds after which an endpoint that stays silent is asked anew."""
        return self.retry_policy.read_timeout(self.read_seconds)

    @property
    def is_google(self) -> bool:
        """Whether requests go to Google itself.

        >>> GcpSettings().is_google, GcpSettings(endpoint="http://127.0.0.1:4443").is_google
        (True, False)
        """
        host = urlsplit(self.endpoint).hostname or ""
        return not self.endpoint or host == "googleapis.com" or host.endswith(".googleapis.com")

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
