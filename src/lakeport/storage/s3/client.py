"""S3 and stores with its protocol: credentials, and a client that repeats requests."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lakeport.errors import LakeportError
from lakeport.host.packages import missing_extra_error
from lakeport.storage.retry import (
    Condition,
    Connection,
    ConnectionCache,
    InvalidAnswer,
    RetryPolicy,
    limit_pools,
)
from lakeport.storage.s3 import errors as s3_errors
from lakeport.storage.s3.settings import AwsSettings

ID_KEY = "lakeport-id"
"""Name of the metadata that holds an object's mark."""


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
_HEADERS = {
    "ChecksumType": "x-amz-checksum-type",
    "IfMatch": "If-Match",
    "IfNoneMatch": "If-None-Match",
}
"""Parameters of writes that botocore has had since 1.36, as headers for older versions."""
_HTML = (b"<!doctype html", b"<html")
_KEYLESS_OPERATIONS = {"head_bucket", "list_multipart_uploads", "list_objects_v2"}


class S3Connection(Connection):
    """Botocore client of one S3 endpoint: sends requests with retries, renews credentials."""

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
        """Call a botocore operation with retries; return its response, with `Body` as bytes.

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
        """Send a HEAD for the bucket; return status and headers, or raise without a response."""
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
        """Call a botocore operation; if its credentials have expired, renew them and call again.

        The response of `get_object` has its body read. Raises InvalidAnswer for a response without
        the operation's own member.
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
        """Replace the client if `error` says that credentials expired; return whether it did."""
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
    """Return the settings with keys that only Python's SDK finds, e.g. by SSO, for Java's SDK.

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
    """Return the settings with the keys that this process finds, for workers; unchanged if none.

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
    """Load botocore's credentials for the settings; None if there are none or they are refused."""
    try:
        connection = connect(settings)
        connection.authenticate()
    except LakeportError:
        return None
    return connection.credentials


def _with_keys(settings: AwsSettings, credentials: Any) -> AwsSettings:
    """Return the settings with botocore's keys and session token, and without a profile."""
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
    """Return botocore's loader of service models for a search path; one loader per process."""
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
        checksums = ("request_checksum_calculation", "response_checksum_validation")
        config = Config(
            connect_timeout=settings.connect_seconds,
            read_timeout=settings.read_timeout,
            tcp_keepalive=True,
            max_pool_connections=_CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            **{key: "when_required" for key in checksums if key in Config.OPTION_DEFAULTS},
            s3={"addressing_style": settings.addressing},
            user_agent_extra="lakeport",
        )
        client = session.create_client(
            "s3", settings.region, endpoint_url=settings.endpoint or None, config=config
        )
        _limit_answers(client, settings)
        client.meta.events.register("response-received.s3", _check_no_html)
        client.meta.events.register("provide-client-params.s3", _move_headers)
        client.meta.events.register("before-call.s3", _add_headers)
        return client, session.get_credentials()
    except Exception as error:
        raise s3_errors.translate(error, "connect", "s3://", settings) from None


def _limit_answers(client: Any, settings: AwsSettings) -> None:
    """Patch a botocore client's connection pools so that whole responses have a time limit."""
    sender = client._endpoint.http_session
    sender._pool_classes_by_scheme = limit_pools(
        sender._pool_classes_by_scheme, settings.read_timeout
    )
    sender._manager.pool_classes_by_scheme = sender._pool_classes_by_scheme


def _move_headers(params: Any, model: Any, context: Any, **_: Any) -> None:
    """Botocore event handler: move parameters that its model lacks from a call to its context."""
    known = model.input_shape.members
    names = [name for name in _HEADERS if name in params and name not in known]
    context[ID_KEY] = {_HEADERS[name]: params.pop(name) for name in names}


def _add_headers(params: Any, context: Any, **_: Any) -> None:
    """Botocore event handler: set the headers that `_move_headers` has put in the context."""
    params["headers"].update(context.get(ID_KEY, {}))


def _check_no_html(response_dict: Any, event_name: str, **_: Any) -> None:
    """Botocore event handler: raise InvalidAnswer if a successful response is an HTML page."""
    if response_dict is None or response_dict["status_code"] >= 300:
        return
    body = response_dict["body"]  # of an object, it is still to be read
    if isinstance(body, bytes) and body.lstrip()[:14].lower().startswith(_HTML):
        raise InvalidAnswer(f"S3's {event_name.rpartition('.')[2]}", "XML")


def _role_credentials(session: Any, settings: AwsSettings) -> Any:
    """Return credentials of the assumed role, fetched at first use and renewed before expiry."""
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
