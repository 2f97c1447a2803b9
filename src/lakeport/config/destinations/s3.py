"""Configs of the destinations `amazon_s3`, files in a bucket, and `delta_lake_s3`, Delta tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from lakeport.config.base import Settings
from lakeport.config.clouds import (
    BucketConfig,
    OptionalEndpoint,
    OptionalSecret,
    OptionalText,
    blank_to_none,
    reveal,
)
from lakeport.engine.session_options import read_session_options
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.client import ID_KEY
from lakeport.storage.s3.settings import AwsSettings

if TYPE_CHECKING:
    from lakeport.storage.s3.store import S3Storage

_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_ROLE = re.compile(r"arn:\S+")  # stores other than AWS have ARNs of any form
_TAG = re.compile(r"[\w +\-=.:/@]*")  # characters that S3 allows in names and values of tags
_MOST_TAGS = 10
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # metadata are sent as headers
_MOST_METADATA = 2000  # characters, names and values together
_S3A_KEYS = ("access.key", "secret.key", "session.token")
_S3A = (*_S3A_KEYS, "endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled")
_AWS_HOST = re.compile(r"s3(?:[.-]([a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?")


def _parse_s3a_endpoint(text: str, *, tls: bool) -> tuple[str | None, str]:
    """Return the URL and region of S3A's option `endpoint`; no URL for a region of AWS.

    >>> _parse_s3a_endpoint("s3.eu-west-1.amazonaws.com", tls=True)
    (None, 'eu-west-1')
    >>> _parse_s3a_endpoint("minio:9000", tls=False)
    ('http://minio:9000', '')
    """
    url = text if "://" in text or not text else f"{'https' if tls else 'http'}://{text}"
    region = _AWS_HOST.fullmatch(urlsplit(url).netloc)
    return (None, region[1] or "") if region else (url.rstrip("/") or None, "")


def _check_role(value: str) -> str:
    """Return an IAM role's ARN unchanged; raise ValueError for other text."""
    if not _ROLE.fullmatch(value):
        raise ValueError("has to look like arn:aws:iam::123456789012:role/name")
    return value


def _check_metadata(values: dict[str, str]) -> dict[str, str]:
    """Return object metadata unchanged; raise ValueError for what S3 would not store."""
    if any(
        not (name + value).isascii() or not value.isprintable() for name, value in values.items()
    ):
        raise ValueError("can hold printable ASCII only")
    for name in values:
        if not _HEADER_NAME.fullmatch(name) or name.lower() == ID_KEY:
            raise ValueError(f"{name!r} is no name for it: letters, digits and hyphens are")
    if len({name.lower() for name in values}) < len(values):
        raise ValueError("has two names that differ only in case, which S3 does not tell apart")
    if sum(len(name) + len(value) for name, value in values.items()) > _MOST_METADATA:
        raise ValueError(f"can hold {_MOST_METADATA} characters in all")
    return values


def _check_tags(values: dict[str, str]) -> dict[str, str]:
    """Return object tags unchanged; ValueError for over 10, or ones that S3 would not store."""
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


class AwsConfig(BucketConfig):
    """Base class of configs for S3 and stores with its protocol, for files and Delta tables.

    Credentials come from the two key fields; else from `aws_profile`; else from an adopted Spark
    session (`fs.s3a.access.key`); else from the AWS SDK's chain (AWS_ACCESS_KEY_ID, AWS_PROFILE,
    web identity, SSO, the files in ~/.aws, the container's and the instance's role).
    """

    extra = "s3"

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
        default=None, description="Profile of ~/.aws with the credentials (AWS_PROFILE)."
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
        description="Where requests name the bucket: in the path, virtual (in the host name), or "
        "auto: virtual for AWS, path for other endpoints except those that refuse it.",
    )
    role_arn: Annotated[
        Annotated[str, AfterValidator(_check_role)] | None, BeforeValidator(blank_to_none)
    ] = Field(
        default=None,
        description="Role to assume with these credentials; renewed during a run.",
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
    object_tags: Annotated[Settings, AfterValidator(_check_tags)] = Field(
        default_factory=dict,
        description="Tags of data objects, 10 at most; they need s3:PutObjectTagging.",
    )
    object_metadata: Annotated[Settings, AfterValidator(_check_metadata)] = Field(
        default_factory=dict, description="Metadata of data objects: names and ASCII values."
    )

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        """Raise ValueError for half a key pair, keys and a profile, or a misplaced KMS key."""
        if (self.aws_access_key_id is None) != (self.aws_secret_access_key is None):
            raise ValueError("`aws_access_key_id` and `aws_secret_access_key` go together")
        if self.aws_session_token is not None and self.aws_access_key_id is None:
            raise ValueError("`aws_session_token` needs the two keys of its session")
        if self.aws_profile is not None and self.aws_access_key_id is not None:
            raise ValueError("`aws_profile` and the two keys exclude each other")
        if self.sse_kms_key_id is not None and self.sse != "aws:kms":
            raise ValueError("`sse_kms_key_id` needs `sse: aws:kms`")
        return self

    def aws_settings(self) -> AwsSettings:
        """Return credentials, endpoint, encryption, tags and retry limit for an S3 client."""
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
            from_session=self._from_session,
        )

    def storage(self) -> S3Storage:
        """Return the S3 storage, rooted at `object_key_path` in the bucket."""
        from lakeport.storage.s3.store import S3Storage

        settings = self.with_session_keys().aws_settings()
        return S3Storage(self.bucket, self.object_key_path, settings)

    def _session_keys(self) -> dict[str, Any]:
        """Return keys, endpoint and region of S3A's options, the bucket's before the others."""
        if self.aws_access_key_id is not None or self.aws_profile is not None:
            return {}
        own, common = f"fs.s3a.bucket.{self.bucket}.", "fs.s3a."
        options = read_session_options(f"{at}{name}" for at in (own, common) for name in _S3A)

        def option(name: str) -> str:
            return options.get(f"{own}{name}") or options.get(f"{common}{name}", "")

        tls = option("connection.ssl.enabled").lower() != "false"
        endpoint, region = _parse_s3a_endpoint(option("endpoint"), tls=tls)
        if self.aws_endpoint not in (None, endpoint):
            return {}
        found: dict[str, Any] = {"aws_endpoint": endpoint} if endpoint else {}
        if endpoint and option("path.style.access").lower() == "true":
            found["aws_addressing_style"] = "path"
        region = option("endpoint.region") or region
        if region and "aws_region" not in self.model_fields_set:
            found["aws_region"] = region
        for at in (own, common):  # a token belongs to the keys beside it
            key, secret, token = (options.get(f"{at}{name}") for name in _S3A_KEYS)
            if key and secret:
                found |= {"aws_access_key_id": SecretStr(key)}
                found |= {"aws_secret_access_key": SecretStr(secret)}
                found |= {"aws_session_token": SecretStr(token) if token else None}
                break
        return found


class AmazonS3Config(AwsConfig):
    """Config of Parquet or CSV files in an S3 bucket.

    Their paths are `<object_key_path>/<table>/[date folders/]YYYYMMDD-HHMMSS.<file_type>`.

    Example:
        >>> AmazonS3Config(bucket="lake", aws_access_key_id="AK", aws_secret_access_key="s3cr3t")
        AmazonS3Config(aws_access_key_id=SecretStr('**********'), \
aws_secret_access_key=SecretStr('**********'), bucket='lake')
    """

    destination: Literal["amazon_s3"] = Field(default="amazon_s3", description="`amazon_s3`.")
    file_type: Literal["parquet", "csv"] = Field(
        default="parquet",
        description="Format of the files: parquet or csv; Delta tables on S3 are for "
        "`destination: delta_lake_s3`.",
    )


class DeltaLakeS3Config(AwsConfig):
    """Config of Delta tables at `s3://<bucket>/<object_key_path>/<table>`.

    Example:
        >>> DeltaLakeS3Config(bucket="lake", object_key_path="silver", mode="overwrite").mode
        <Mode.OVERWRITE: 'overwrite'>
    """

    delta_jars = frozenset({"delta", "s3a"})

    destination: Literal["delta_lake_s3"] = Field(
        default="delta_lake_s3", description="`delta_lake_s3`."
    )
    file_type: Literal["delta"] = Field(default="delta", description="Format of the tables: delta.")
    single_writer: bool = Field(
        default=False,
        description="Whether nobody else writes to the table meanwhile: delta-spark may then "
        "commit in a session of yours that lacks lakeport's log store. A second writer's commit "
        "could be overwritten.",
    )

    @model_validator(mode="after")
    def _check_bucket_for_spark(self) -> Self:
        """Raise ValueError if the bucket's name is no host name: Spark can't reach it."""
        if not _HOST_NAME.fullmatch(self.bucket):
            raise ValueError(
                f"`bucket`: {self.bucket!r} can't be reached by Spark, which takes names of lower "
                "case letters, digits, dots and hyphens only"
            )
        return self
