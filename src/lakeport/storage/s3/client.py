"""S3 and stores with its protocol: settings, credentials, a client that retries, and its test."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from lakeport.errors import LakeportError
from lakeport.host.packages import missing_extra_error
from lakeport.model import CheckItem
from lakeport.storage.checks import CloudCheck
from lakeport.storage.retry import (
    CloudSettings,
    Condition,
    Connection,
    ConnectionCache,
    InvalidAnswer,
    RetryPolicy,
    limit_pools,
)
from lakeport.storage.s3 import errors as s3_errors

if TYPE_CHECKING:
    from lakeport.storage.s3.store import S3Storage


ID_KEY = "lakeport-id"
"""Name of the metadata that holds an object's mark."""


_VIRTUAL_HOSTS = (".aliyuncs.com", ".myqcloud.com", ".volces.com")

ROLE_SECONDS = 3600
"""Seconds for which a role is assumed; it is renewed before they end."""
_CONTENDED_RETRIES = RetryPolicy(deadline=10)
_CONNECTIONS = 64  # kept open, for as many streams at once
_RENEWED_BY_EVERY_SDK = {"assume-role-with-web-identity", "container-role", "iam-role"}
_REQUIRED_MEMBERS = {
    "complete_multipart_upload": "ETag",
    "create_multipart_upload": "UploadId",
    "get_object": "ETag",
    "head_object": "ETag",
    "list_objects_v2": "IsTruncated",
    "put_object": "ETag",
    "upload_part": "ETag",
}
_HTML = (b"<!doctype html", b"<html")
_KEYLESS_OPERATIONS = {"head_bucket", "list_multipart_uploads", "list_objects_v2"}

_CREDENTIAL_SOURCES = {
    "assume-role": "`role_arn`, assumed",
    "assume-role-with-web-identity": "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)",
    "config-file": "~/.aws/config",
    "container-role": "the container's role",
    "custom-process": "the profile's credential_process",
    "env": "the environment (AWS_ACCESS_KEY_ID)",
    "explicit": "`aws_access_key_id` and `aws_secret_access_key`",
    "iam-role": "the instance's role",
    "manual": "`aws_access_key_id` and `aws_secret_access_key`",
    "shared-credentials-file": "~/.aws/credentials",
    "sso": "SSO",
}


@dataclass(frozen=True, slots=True)
class AwsSettings(CloudSettings):
    """Endpoint, credentials and object settings for buckets.

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
        """Addressing style by the SDK's name: `auto` for AWS, else `path` or `virtual`.

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
        """The checksum of uploaded bytes: `crc32c` for AWS, else `md5` with TLS, or `signature`.

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


class S3Connection(Connection):
    """Client of one endpoint, for one process."""

    is_transient = staticmethod(s3_errors.is_transient)
    has_response = staticmethod(s3_errors.has_response)
    translate = staticmethod(s3_errors.translate)

    def __init__(self, settings: AwsSettings) -> None:
        super().__init__(settings)
        self._lock = threading.Lock()
        self._client, self.credentials = _client(settings)

    def call(
        self,
        operation: str,
        bucket: str,
        key: str = "",
        *,
        transient_failures: list[Exception] | None = None,
        retry_policy: RetryPolicy | None = None,
        **parameters: Any,
    ) -> Any:
        """Send a request, such as `put_object`, with retries; return the answer with its body read.

        `key` is the full one, and a prefix for operations without a key. For the other arguments
        and the errors see `Connection.send_with_retries`.
        """
        parameters["Bucket"] = bucket
        if key and operation not in _KEYLESS_OPERATIONS:
            parameters["Key"] = key

        condition: Condition = "none"
        if "IfNoneMatch" in parameters or "IfMatch" in parameters:
            condition = "absent" if "IfNoneMatch" in parameters else "same"
        return self.send_with_retries(
            lambda: self._send(operation, parameters),
            operation,
            f"s3://{bucket}/{key}".rstrip("/"),
            condition,
            transient_failures=transient_failures,
            retry_policy=retry_policy,
        )

    def policy_for(self, error: Exception) -> RetryPolicy:
        """Return the settings' retry policy; one of 10 s if another writer holds the key."""
        return _CONTENDED_RETRIES if s3_errors.is_contended(error) else super().policy_for(error)

    def authenticate(self) -> None:
        """Fetch the credentials now; raise PermissionRefused if they are refused or incomplete."""
        try:
            if self.credentials is not None:
                self.credentials.get_frozen_credentials()
        except Exception as error:
            raise s3_errors.translate(error, "connect", "s3://", self.settings) from None

    def probe_bucket(self, bucket: str) -> tuple[int, dict[str, str]]:
        """Send a HEAD for the bucket; return status and headers, or raise if no answer came."""
        try:
            answer = self._client.head_bucket(Bucket=bucket)
        except Exception as error:
            if not s3_errors.has_response(error):
                name = f"s3://{bucket}"
                raise s3_errors.translate(error, "head_bucket", name, self.settings) from None
            answer = getattr(error, "response", {})
        about = answer["ResponseMetadata"]
        return int(about["HTTPStatusCode"]), dict(about["HTTPHeaders"])

    def _send(self, operation: str, parameters: dict[str, Any]) -> Any:
        """Send a request, again with renewed credentials; raise InvalidAnswer for a foreign answer.

        The answer of `get_object` has its body read.
        """
        try:
            answer = getattr(self._client, operation)(**parameters)
        except Exception as error:
            if not self._renew(error):
                raise
            answer = getattr(self._client, operation)(**parameters)
        if operation == "get_object":
            answer["Body"] = answer["Body"].read()
        member = _REQUIRED_MEMBERS.get(operation, "ResponseMetadata")
        if member not in answer:
            raise InvalidAnswer(f"s3://{parameters['Bucket']}/{parameters.get('Key', '')}", member)
        return answer

    def _renew(self, error: Exception) -> bool:
        """Replace the client after expired credentials; return False if they can't be renewed."""
        source = self.settings.renewal or self.settings
        fixed = source.access_key_id and not source.role_arn
        if fixed or not s3_errors.is_expired(error):
            return False
        self.retrier.reached = True
        with self._lock:
            self._client, self.credentials = _client(source)
        return True


connect = ConnectionCache[AwsSettings, S3Connection](S3Connection)
"""This process's connection for some settings, opened at its first use."""


def with_found_keys(settings: AwsSettings) -> AwsSettings:
    """Add the keys that a profile or the SDK's chain finds, for Java's SDK, which lacks e.g. SSO.

    The same settings, if they hold keys, none are found, or every SDK finds and renews them itself,
    as it does an instance's role. Call it before each use, so that keys are renewed in time. A role
    stays to be assumed.
    """
    if settings.access_key_id:
        return settings
    credentials = _find_credentials(replace(settings, role_arn="", external_id=""))
    if credentials is None or (
        credentials.method in _RENEWED_BY_EVERY_SDK and not settings.profile
    ):
        return settings
    return _with_keys(settings, credentials)


def with_credentials(settings: AwsSettings) -> AwsSettings:
    """Add the keys that this process finds, for other processes; unchanged if none are found.

    The keys of a role, a profile or the SDK's chain last for ten minutes at least. Settings with
    keys and without a role stay as they are.
    """
    if settings.access_key_id and not settings.role_arn:
        return settings
    credentials = _find_credentials(settings)
    if credentials is None:
        return settings
    return replace(_with_keys(settings, credentials), role_arn="", external_id="", renewal=settings)


def _find_credentials(settings: AwsSettings) -> Any:
    """Fetch and return botocore's credentials for some settings; None if none are usable."""
    try:
        connection = connect(settings)
        connection.authenticate()
    except LakeportError:
        return None
    return connection.credentials


def _with_keys(settings: AwsSettings, credentials: Any) -> AwsSettings:
    """Return the settings with the keys of botocore's credentials, and no profile."""
    keys = credentials.get_frozen_credentials()
    return replace(
        settings,
        access_key_id=keys.access_key,
        secret_access_key=keys.secret_key,
        session_token=keys.token or "",
        profile="",
    )


def load_models() -> None:
    """Load botocore's description of S3 into a cache, for this process and those forked from it."""
    _client(AwsSettings(access_key_id="none", region="us-east-1"))


@lru_cache
def _model_loader(folders: str | None) -> Any:
    """Return this process's loader of botocore's service descriptions for an `AWS_DATA_PATH`."""
    from botocore.loaders import create_loader

    return create_loader(folders)


def _client(settings: AwsSettings) -> tuple[Any, Any]:
    """Return botocore's client and credentials (None if there are none), or raise LakeportError."""
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ImportError as error:
        raise missing_extra_error("the AWS SDK for Python is not installed", "s3") from error
    try:
        session = Session(profile=settings.profile or None)
        models = _model_loader(session.get_config_variable("data_path"))
        session.register_component("data_loader", models)
        if settings.access_key_id:
            session.set_credentials(
                settings.access_key_id, settings.secret_access_key, settings.session_token or None
            )
        if settings.role_arn:
            session._credentials = _role_credentials(session, settings)
        config = Config(
            connect_timeout=settings.connect_seconds,
            read_timeout=settings.read_timeout,
            tcp_keepalive=True,
            max_pool_connections=_CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": settings.addressing},
            user_agent_extra="lakeport",
        )
        client = session.create_client(
            "s3", settings.region, endpoint_url=settings.endpoint or None, config=config
        )
        _limit_answers(client, settings)
        client.meta.events.register("response-received.s3", _check_no_html)
        return client, session.get_credentials()
    except Exception as error:
        raise s3_errors.translate(error, "connect", "s3://", settings) from None


def _limit_answers(client: Any, settings: AwsSettings) -> None:
    """Patch a client's connection pools so that a whole answer has a time limit."""
    sender = client._endpoint.http_session
    sender._pool_classes_by_scheme = limit_pools(
        sender._pool_classes_by_scheme, settings.read_timeout
    )
    sender._manager.pool_classes_by_scheme = sender._pool_classes_by_scheme


def _check_no_html(response_dict: Any, event_name: str, **_: Any) -> None:
    """Raise InvalidAnswer if a success is an HTML page, which botocore takes for an error 500."""
    if response_dict is None or response_dict["status_code"] >= 300:
        return
    body = response_dict["body"]  # of an object, it is still to be read
    if isinstance(body, bytes) and body.lstrip()[:14].lower().startswith(_HTML):
        raise InvalidAnswer(f"S3's {event_name.rpartition('.')[2]}", "XML")


def _role_credentials(session: Any, settings: AwsSettings) -> Any:
    """Return credentials of the role, fetched at their first use and renewed before they expire."""
    from botocore.config import Config
    from botocore.credentials import DeferredRefreshableCredentials

    extra = {"ExternalId": settings.external_id} if settings.external_id else {}
    sts = session.create_client(
        "sts",
        settings.region,
        endpoint_url=(settings.endpoint or None) if not settings.is_native else None,
        config=Config(
            connect_timeout=settings.connect_seconds,
            read_timeout=min(20, settings.read_timeout),
            retries={"total_max_attempts": 3, "mode": "standard"},
        ),
    )

    _limit_answers(sts, settings)

    def assume() -> dict[str, str]:
        answer = sts.assume_role(
            RoleArn=settings.role_arn,
            RoleSessionName=settings.role_session_name,
            DurationSeconds=ROLE_SECONDS,
            **extra,
        )["Credentials"]
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": answer["Expiration"].isoformat(),
        }

    return DeferredRefreshableCredentials(refresh_using=assume, method="assume-role")


class S3Check(CloudCheck):
    """Connection test of a bucket: credentials, region, clock, create-only writes."""

    upload = "multipart upload"
    endpoint = "aws_endpoint"
    storage: S3Storage

    def check_credentials(self) -> str:
        """Fetch the credentials; return where they were found, or raise LakeportError."""
        connection = connect(self.storage.settings)
        credentials = connection.credentials
        if credentials is None:
            from botocore.exceptions import NoCredentialsError

            settings = connection.settings
            raise s3_errors.translate(NoCredentialsError(), "connect", "s3://", settings)
        source = _CREDENTIAL_SOURCES.get(str(credentials.method), str(credentials.method))
        connection.authenticate()
        if connection.settings.profile:
            source += f" (profile {connection.settings.profile!r})"
        return f"found in {source}"

    def check_headers(self, headers: Mapping[str, str]) -> list[CheckItem]:
        """Return the item for the bucket's region: `failed` if it is not the configured one."""
        real, configured = headers.get("x-amz-bucket-region", ""), self.storage.settings.region
        if not real:
            silent = f"{configured}; the store does not tell the bucket's"
            return [CheckItem("region", "skipped", silent)]
        if real != configured:
            detail = f"the bucket is in {real}, not in {configured}"
            return [CheckItem("region", "failed", detail, f"set `aws_region: {real}`.")]
        return [CheckItem("region", "ok", real)]
