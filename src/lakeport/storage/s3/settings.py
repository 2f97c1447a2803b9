"""Settings of S3 and stores with its protocol: endpoint, credentials, and what objects get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from lakeport.storage.retry import CloudSettings

_VIRTUAL_HOSTS = (".aliyuncs.com", ".myqcloud.com", ".volces.com")


@dataclass(frozen=True, slots=True)
class AwsSettings(CloudSettings):
    """Endpoint, credentials, encryption and tags for S3 buckets.

    Without keys and a profile, the default chain of the AWS SDK is searched where the settings are
    used. Attributes have the meaning of the config keys `aws_…`, and:

    Attributes:
        role_arn: a role to assume with the keys or the chain; renewed before it expires.
        addressing_style: `path`, `virtual`, or empty: virtual for AWS and the few stores that
            know nothing else, path for other endpoints.
        sse: `AES256`, `aws:kms` or empty.
        tags: tags of data objects, as their metadata.
        renewal: the settings that a driver's keys come from, for tasks whose keys expire.
    """

    hosts: ClassVar = (".amazonaws.com", ".amazonaws.com.cn")
    address_keys: ClassVar = "`aws_endpoint`, `aws_region`"

    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    profile: str = ""
    region: str = "us-west-2"
    addressing_style: str = ""
    role_arn: str = ""
    role_session_name: str = "mage-data-integration"
    external_id: str = field(default="", repr=False)
    sse: str = ""
    sse_kms_key_id: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    renewal: AwsSettings | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The endpoint's URL, else S3 and the region, for messages."""
        return self.endpoint or f"S3 in region {self.region!r}"

    @property
    def addressing(self) -> str:
        """Addressing style for botocore: as configured, else `auto` for AWS, `path` or `virtual`.

        >>> AwsSettings().addressing
        'auto'
        >>> AwsSettings(endpoint="https://nyc3.digitaloceanspaces.com").addressing
        'path'
        >>> AwsSettings(endpoint="https://oss-cn-beijing.aliyuncs.com").addressing
        'virtual'
        """
        if self.addressing_style or self.is_native:
            return self.addressing_style or "auto"
        host = urlsplit(self.endpoint).hostname or ""
        return "virtual" if host.endswith(_VIRTUAL_HOSTS) else "path"

    @property
    def content_checksum(self) -> str:
        """Kind of checksum for uploads: `crc32c` for AWS, else `md5` with TLS, else `signature`.

        Several other stores refuse newer checksum headers. A signature has the SHA-256.
        """
        if self.is_native:
            return "crc32c"
        return "md5" if self.endpoint.startswith("https:") else "signature"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not appear in messages."""
        values = (self.access_key_id, self.secret_access_key, self.session_token, self.external_id)
        return tuple(value for value in values if value)

    def object_parameters(self) -> dict[str, str]:
        """Return the request parameters for server-side encryption; empty without `sse`."""
        if not self.sse:
            return {}
        key = {"SSEKMSKeyId": self.sse_kms_key_id} if self.sse_kms_key_id else {}
        return {"ServerSideEncryption": self.sse, **key}
