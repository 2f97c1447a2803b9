"""Clients of S3 and everything that speaks its protocol: credentials, one request."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from lakeport.errors import LakeportError, PermissionRefused
from lakeport.host.packages import missing
from lakeport.storage.checks import CheckItem, CloudCheck
from lakeport.storage.retry import (
    CloudSettings,
    Condition,
    Connection,
    HollowAnswer,
    PerProcess,
    RetryPolicy,
    limited,
)
from lakeport.storage.s3 import errors as s3_errors
from lakeport.storage.s3.errors import NO_CREDENTIALS

if TYPE_CHECKING:
    from lakeport.storage.s3.store import S3Storage


ID_KEY = "lakeport-id"
"""The metadata by which an object is known as the one that was staged."""


_VIRTUAL_ONLY = (".aliyuncs.com", ".myqcloud.com", ".volces.com")

ROLE_SECONDS = 3600
"""How long a role is assumed for; it is renewed before."""
_CONTENDED = RetryPolicy(deadline=10)
_CONNECTIONS = 64  # kept open: as many streams may be landed at once
_RENEWED_ANYWHERE = {"assume-role-with-web-identity", "container-role", "iam-role"}
_CARRIED = {
    "complete_multipart_upload": "ETag",
    "create_multipart_upload": "UploadId",
    "get_object": "ETag",
    "head_object": "ETag",
    "list_objects_v2": "IsTruncated",
    "put_object": "ETag",
    "upload_part": "ETag",
}
_HTML = (b"<!doctype html", b"<html")
_WITHOUT_KEY = {"head_bucket", "list_multipart_uploads", "list_objects_v2"}

_SOURCES = {
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
    """How to reach a bucket.

    Without keys and without a profile, the default chain of the AWS SDK is searched wherever the
    settings are used. Attributes have the meaning of the configuration keys `aws_…`, and:

    Attributes:
        role_arn: a role to assume with the keys or the chain; renewed before it expires.
        addressing_style: `path`, `virtual`, or empty: virtual for AWS and the few stores that
            know nothing else, path for other endpoints.
        sse: `AES256`, `aws:kms` or empty.
        tags: names and values that data objects are tagged with.
        metadata: names and values that data objects have as their metadata.
        renewal: where the keys come from that a driver handed to its tasks, for when they expire.
    """

    hosts: ClassVar = (".amazonaws.com", ".amazonaws.com.cn")

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
    def addressing(self) -> str:
        """The SDK's name of the addressing style.

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
        return "virtual" if host.endswith(_VIRTUAL_ONLY) else "path"

    @property
    def content_checksum(self) -> str:
        """What the store verifies uploads with: `crc32c`, `md5` or `signature`.

        CRC32C for AWS; for other endpoints, several of which refuse newer checksum headers, MD5
        with TLS, and without it the signature, which has the SHA-256.
        """
        if self.is_native:
            return "crc32c"
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


class S3Connection(Connection):
    """A process's client of one endpoint."""

    is_transient = staticmethod(s3_errors.is_transient)
    has_response = staticmethod(s3_errors.has_response)

    def __init__(self, settings: AwsSettings) -> None:
        super().__init__(settings.retry_policy)
        self.settings = settings
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
        """Send one request, again while its failure is transient; name the failure that stays.

        Args:
            operation: the client's method, such as `put_object`.
            bucket: the bucket's name.
            key: the full key; the prefix where the operation has none.
            transient_failures: gets the failures that were tried again.
            retry_policy: instead of the settings' own.
            parameters: the request's parameters, without `Bucket` and `Key`.

        Raises:
            DestinationError: as `s3.errors.translate` names it.
        """
        parameters["Bucket"] = bucket
        if key and operation not in _WITHOUT_KEY:
            parameters["Key"] = key

        condition = _condition(parameters)

        def translate(error: Exception) -> LakeportError:
            return s3_errors.translate(error, operation, bucket, key, self.settings, condition)

        return self.repeat(
            lambda: self._send(operation, parameters),
            translate,
            transient_failures=transient_failures,
            retry_policy=retry_policy,
        )

    def policy_for(self, error: Exception) -> RetryPolicy:
        """Less time for a key that others write to: they may go on for ever."""
        return _CONTENDED if s3_errors.contended(error) else super().policy_for(error)

    def authenticate(self) -> None:
        """Fetch the credentials now: a role is assumed, an SSO session is used.

        Raises:
            PermissionRefused: they can't be had.
        """
        try:
            if self.credentials is not None:
                self.credentials.get_frozen_credentials()
        except Exception as error:
            raise s3_errors.translate(error, "connect", "", "", self.settings) from None

    def probe_bucket(self, bucket: str) -> tuple[int, dict[str, str]]:
        """Ask for the bucket once: HTTP status and headers, whatever the answer is.

        Raises:
            DestinationError: no answer came.
        """
        try:
            answer = self._client.head_bucket(Bucket=bucket)
        except Exception as error:
            if not s3_errors.has_response(error):
                raise s3_errors.translate(error, "head_bucket", bucket, "", self.settings) from None
            answer = getattr(error, "response", {})
        about = answer["ResponseMetadata"]
        return int(about["HTTPStatusCode"]), dict(about["HTTPHeaders"])

    def _send(self, operation: str, parameters: dict[str, Any]) -> Any:
        """One request; an object's body is read as part of it.

        Raises:
            HollowAnswer: the answer lacks a member that S3's always have.
        """
        try:
            answer = getattr(self._client, operation)(**parameters)
        except Exception as error:
            if not self._renew(error):
                raise
            answer = getattr(self._client, operation)(**parameters)
        if operation == "get_object":
            answer["Body"] = answer["Body"].read()
        carried = _CARRIED.get(operation, "ResponseMetadata")
        if carried not in answer:
            raise HollowAnswer(f"s3://{parameters['Bucket']}/{parameters.get('Key', '')}", carried)
        return answer

    def _renew(self, error: Exception) -> bool:
        """Make a new client once if credentials that can be fetched anew have expired."""
        source = self.settings.renewal or self.settings
        fixed = source.access_key_id and not source.role_arn
        if fixed or not s3_errors.expired(error):
            return False
        self.retrier.reached = True
        with self._lock:
            self._client, self.credentials = _client(source)
        return True


def _condition(parameters: dict[str, Any]) -> Condition:
    if "IfNoneMatch" in parameters:
        return "absent"
    return "same" if "IfMatch" in parameters else "none"


connect = PerProcess[AwsSettings, S3Connection](S3Connection)
"""The connection of this process for some settings; made at the first use."""


def found_keys(settings: AwsSettings) -> AwsSettings:
    """The settings with the keys that a profile or the chain come to, for another client's use.

    Other SDKs, Java's among them, lack some of the places that are searched here, such as SSO. Ask
    again before each use: keys that expire are renewed in time. A role is left to be assumed. Keys
    that every SDK finds and renews itself, such as those of an instance's role, are left to it.
    """
    if settings.access_key_id:
        return settings
    held = _found(replace(settings, role_arn="", external_id=""))
    if held is None or (held.method in _RENEWED_ANYWHERE and not settings.profile):
        return settings
    return _with_keys(settings, held)


def with_credentials(settings: AwsSettings) -> AwsSettings:
    """The settings with the keys that this process finds, so that no other has to look for them.

    The keys of a role, a profile or the SDK's chain last for at least ten minutes. Where nothing
    is found the settings stay as they are.
    """
    if settings.access_key_id and not settings.role_arn:
        return settings
    held = _found(settings)
    if held is None:
        return settings
    return replace(_with_keys(settings, held), role_arn="", external_id="", renewal=settings)


def _found(settings: AwsSettings) -> Any:
    """What the settings come to, as botocore holds it; None where nothing is found."""
    try:
        connection = connect(settings)
        connection.authenticate()
    except LakeportError:
        return None
    return connection.credentials


def _with_keys(settings: AwsSettings, held: Any) -> AwsSettings:
    keys = held.get_frozen_credentials()
    return replace(
        settings,
        access_key_id=keys.access_key,
        secret_access_key=keys.secret_key,
        session_token=keys.token or "",
        profile="",
    )


def read_models() -> None:
    """Have botocore read its files on S3, for this process and all that are forked from it."""
    _client(AwsSettings(access_key_id="none", region="us-east-1"))


@lru_cache
def _models(folders: str | None) -> Any:
    """What botocore knows of the services, read once in a process.

    Args:
        folders: where it is to look besides its own, as `AWS_DATA_PATH` has them.
    """
    from botocore.loaders import create_loader

    return create_loader(folders)


def _client(settings: AwsSettings) -> tuple[Any, Any]:
    """A client, and its credentials (None where the chain finds none)."""
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ImportError as error:
        raise missing("the AWS SDK for Python is not installed", "s3") from error
    try:
        session = Session(profile=settings.profile or None)
        models = _models(session.get_config_variable("data_path"))
        session.register_component("data_loader", models)
        if settings.access_key_id:
            session.set_credentials(
                settings.access_key_id, settings.secret_access_key, settings.session_token or None
            )
        if settings.role_arn:
            session._credentials = _assumed(session, settings)
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
        client.meta.events.register("response-received.s3", _refuse_page)
        return client, session.get_credentials()
    except Exception as error:
        raise s3_errors.translate(error, "connect", "", "", settings) from None


def _limit_answers(client: Any, settings: AwsSettings) -> None:
    """Limit the time of whole answers; botocore has no setting for it, nor for its connections."""
    sender = client._endpoint.http_session
    sender._pool_classes_by_scheme = limited(sender._pool_classes_by_scheme, settings.read_timeout)
    sender._manager.pool_classes_by_scheme = sender._pool_classes_by_scheme


def _refuse_page(response_dict: Any, event_name: str, **_: Any) -> None:
    """Refuse a page of HTML, which botocore takes for the store's own error 500.

    Raises:
        HollowAnswer: the answer is such a page, and no object's content.
    """
    if response_dict is None or response_dict["status_code"] >= 300:
        return
    body = response_dict["body"]  # of an object, it is still to be read
    if isinstance(body, bytes) and body.lstrip()[:14].lower().startswith(_HTML):
        raise HollowAnswer(f"S3's {event_name.rpartition('.')[2]}", "XML")


def _assumed(session: Any, settings: AwsSettings) -> Any:
    """Credentials of the role, fetched at their first use and renewed before they expire."""
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
    """Tries credentials, bucket, region, clock, writing and create-only."""

    upload = "multipart upload"
    endpoint = "aws_endpoint"
    storage: S3Storage

    def credentials(self) -> str:
        """Where they were found, once they have been fetched."""
        connection = connect(self.storage.settings)
        held = connection.credentials
        if held is None:
            raise PermissionRefused(*NO_CREDENTIALS)
        source = _SOURCES.get(str(held.method), str(held.method))
        connection.authenticate()
        if connection.settings.profile:
            source += f" (profile {connection.settings.profile!r})"
        return f"found in {source}"

    def told(self, headers: Mapping[str, str]) -> list[CheckItem]:
        """The bucket's region."""
        real, asked = headers.get("x-amz-bucket-region", ""), self.storage.settings.region
        if not real:
            silent = f"{asked}; the store does not tell the bucket's"
            return [CheckItem("region", "skipped", silent)]
        if real != asked:
            detail = f"the bucket is in {real}, not in {asked}"
            return [CheckItem("region", "failed", detail, f"set `aws_region: {real}`.")]
        return [CheckItem("region", "ok", real)]
