"""Settings of Hadoop's S3A connector for one bucket."""

from __future__ import annotations

import math
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from lakeport.storage.s3.client import ROLE_SECONDS
from lakeport.storage.s3.settings import AwsSettings

_AUTH = "org.apache.hadoop.fs.s3a.auth"
_KEYS_PROVIDER = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_SESSION_PROVIDER = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_CHAIN_PROVIDER = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_PROFILE_PROVIDER = f"{_AUTH}.ProfileAWSCredentialsProvider"
_ROLE_PROVIDER = "io.lakeport.aws.AssumedRole"
_MIN_CALL_SECONDS = 15  # S3A raises shorter limits to it
_ENCRYPTION = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS"}


def hadoop_settings(bucket: str, settings: AwsSettings) -> dict[str, str]:
    """Return the options of Hadoop's S3A connector for one bucket only, secrets included.

    Set them on a running session's `hadoopConfiguration` before the bucket's first use, and never
    in Spark's own configuration, which Spark shows.

    >>> options = hadoop_settings("lake", AwsSettings(region="eu-west-1"))
    >>> options["fs.s3a.bucket.lake.endpoint.region"]
    'eu-west-1'
    """
    options = {
        "endpoint.region": settings.region,
        **_endpoint_options(settings),
        **_proxy_options(settings),
    }
    options |= _retry_options(settings.retry_policy.deadline)
    provider, keys = _credential_options(settings)
    options |= keys
    if settings.role_arn:
        options |= _role_options(settings)
        provider = _ROLE_PROVIDER
    options["aws.credentials.provider"] = provider
    if settings.sse:
        options["encryption.algorithm"] = _ENCRYPTION[settings.sse]
        if settings.sse_kms_key_id:
            options["encryption.key"] = settings.sse_kms_key_id
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in options.items()}


def _endpoint_options(settings: AwsSettings) -> dict[str, str]:
    """Return the S3A options for addressing style, endpoint and TLS; only the style for AWS."""
    style = {"path.style.access": "true" if settings.addressing == "path" else "false"}
    if not settings.endpoint:
        return style
    tls = "true" if urlsplit(settings.endpoint).scheme == "https" else "false"
    return {**style, "endpoint": settings.endpoint, "connection.ssl.enabled": tls}


def _retry_options(deadline: float) -> dict[str, str]:
    """Return the S3A options that keep retries and timeouts within `deadline` seconds.

    S3A retries calls of the SDK, which retries requests. After a commit's put has failed, the log
    store looks for the object, so each has half of the time. A call ends when its time is over; S3A
    allows no less than 15 s, and counts a part's upload to it, so that parts have to be small.

    >>> _retry_options(120)["connection.request.timeout"], _retry_options(120)["retry.limit"]
    ('30000ms', '1')
    """
    retries = 1 if deadline >= 4 * _MIN_CALL_SECONDS else 0
    call = max(_MIN_CALL_SECONDS, deadline / 2 / (retries + 1))
    # The SDK's delays double from about 0.1 s, and end at 20 s.
    repeats = max(3, math.floor(math.log2(deadline / 2 / (retries + 1) / 0.1)))
    return {
        "attempts.maximum": str(repeats),
        # Hadoop 3.3 takes numbers of milliseconds alone for these.
        "connection.establish.timeout": str(_MIN_CALL_SECONDS * 1000),
        "connection.timeout": str(_MIN_CALL_SECONDS * 1000),
        "connection.request.timeout": f"{call * 1000:.0f}ms",
        "connection.part.upload.timeout": f"{max(call, deadline / 2) * 1000:.0f}ms",
        "multipart.size": "8M",
        "retry.limit": str(retries),
        "retry.throttle.limit": str(retries),
    }


def _proxy_options(settings: AwsSettings) -> dict[str, str]:
    """Return the S3A options for the environment's proxy; empty if none applies to the endpoint.

    As the SDK for Python: Java's would take the proxy of `http`, also for an `https` endpoint.
    """
    endpoint = urlsplit(settings.endpoint or f"https://s3.{settings.region}.amazonaws.com")
    named = getproxies().get(endpoint.scheme, "")
    if not named or proxy_bypass(endpoint.netloc):
        return {}
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    tls = proxy.scheme == "https"
    port = proxy.port or (443 if tls else 80)
    options = {"proxy.host": proxy.hostname or "", "proxy.port": str(port)}
    if tls:
        options["proxy.ssl.enabled"] = "true"
    if proxy.username:
        options["proxy.username"] = unquote(proxy.username)
        options["proxy.password"] = unquote(proxy.password or "")
    return options


def _credential_options(settings: AwsSettings) -> tuple[str, dict[str, str]]:
    """Return the Java class of S3A's credentials provider, and its options."""
    if not settings.access_key_id:
        if settings.profile:
            return _PROFILE_PROVIDER, {"auth.profile.name": settings.profile}
        return _CHAIN_PROVIDER, {}
    keys = {"access.key": settings.access_key_id, "secret.key": settings.secret_access_key}
    if settings.session_token:
        return _SESSION_PROVIDER, {**keys, "session.token": settings.session_token}
    return _KEYS_PROVIDER, keys


def _role_options(settings: AwsSettings) -> dict[str, str]:
    """Return the S3A options to assume the role, by AWS's STS or the store's own endpoint."""
    options = {
        "assumed.role.arn": settings.role_arn,
        "assumed.role.session.name": settings.role_session_name,
        "assumed.role.session.duration": f"{ROLE_SECONDS}s",
        "assumed.role.sts.endpoint.region": settings.region,
    }
    if settings.external_id:
        options["assumed.role.external.id"] = settings.external_id
    if not settings.is_native:
        options["assumed.role.sts.endpoint"] = settings.endpoint
    return options
