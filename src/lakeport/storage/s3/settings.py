"""How to reach a bucket on S3, or on a store that speaks its protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lakeport.storage.retry import RetryPolicy

ID_KEY = "lakeport-id"
"""The metadata by which an object is known as the one that was staged."""


_VIRTUAL_ONLY = (".aliyuncs.com", ".myqcloud.com", ".volces.com")


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """How to reach a bucket. Picklable; its repr shows no secret.

    Without keys and without a profile, the default chain of the AWS SDK is searched wherever the
    settings are used. Attributes have the meaning of the configuration keys `aws_…`, and:

    Attributes:
        role_arn: a role to assume with the keys or the chain; renewed before it expires.
        role_seconds: how long one assumption lasts, 900 or more.
        addressing_style: `path`, `virtual`, or empty: virtual for AWS and the few stores that
            know nothing else, path for other endpoints.
        checksum: what the store verifies uploads with: `crc32c`, `md5`, `signature` (the SHA-256
            that is signed without TLS), or empty: CRC32C for AWS; for other endpoints, several of
            which refuse newer checksum headers, MD5 with TLS and the signature without.
        sse: `AES256`, `aws:kms` or empty.
        tags: names and values that data objects are tagged with.
        metadata: names and values that data objects have as their metadata.
        retry_policy: for transient failures.
        renewal: where the keys come from that a driver handed to its tasks, for when they expire.
        connect_seconds: how long one connection may take to be made.
        read_seconds: how long the endpoint may stay silent.
    """

    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    profile: str = ""
    region: str = "us-west-2"
    endpoint: str = ""
    addressing_style: str = ""
    role_arn: str = ""
    role_session_name: str = "mage-data-integration"
    role_seconds: int = 3600
    external_id: str = field(default="", repr=False)
    sse: str = ""
    sse_kms_key_id: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    checksum: str = ""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    renewal: AwsSettings | None = field(default=None, repr=False)
    connect_seconds: float = 5
    read_seconds: float = 60

    @property
    def read_timeout(self) -> float:
        """Seconds after which an endpoint that stays silent is asked anew."""
        return self.retry_policy.read_timeout(self.read_seconds)

    @property
    def is_aws(self) -> bool:
        """Whether requests go to AWS itself.

        >>> AwsSettings(endpoint="https://s3.eu-west-1.amazonaws.com").is_aws
        True
        >>> AwsSettings(endpoint="http://127.0.0.1:9000").is_aws
        False
        """
        host = urlsplit(self.endpoint).hostname or ""
        return not self.endpoint or host.endswith((".amazonaws.com", ".amazonaws.com.cn"))

    @property
    def addressing(self) -> str:
        """The SDK's name of the addressing style.

        >>> AwsSettings().addressing
        'auto'
        >>> AwsSettings(endpoint="https://nyc3.digitaloceanspaces.com").addressing
        'path'
        >>> AwsSettings(endpoint="https://oss-cn-beijing.aliyuncs.com").addressing
        'virtual'
        """
        if self.addressing_style or self.is_aws:
            return self.addressing_style or "auto"
        host = urlsplit(self.endpoint).hostname or ""
        return "virtual" if host.endswith(_VIRTUAL_ONLY) else "path"

    @property
    def content_checksum(self) -> str:
        """What the store verifies uploads with: `crc32c`, `md5` or `signature`."""
        if self.checksum or self.is_aws:
            return self.checksum or "crc32c"
        return "md5" if self.endpoint.startswith("https:") else "signature"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may hold."""
        values = (self.access_key_id, self.secret_access_key, self.session_token, self.external_id)
        return tuple(value for value in values if value)

    def object_parameters(self) -> dict[str, str]:
        """Request parameters that encrypt an object."""
        if not self.sse:
            return {}
        key = {"SSEKMSKeyId": self.sse_kms_key_id} if self.sse_kms_key_id else {}
        return {"ServerSideEncryption": self.sse, **key}
