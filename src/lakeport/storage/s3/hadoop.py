"""S3 as Hadoop's S3A connector sees it: the settings of one bucket."""

from __future__ import annotations

import math
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from lakeport.storage.s3.client import ROLE_SECONDS, AwsSettings

_AUTH = "org.apache.hadoop.fs.s3a.auth"
_FIXED = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_SESSION = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_PROFILE = f"{_AUTH}.ProfileAWSCredentialsProvider"
_ROLE = "io.lakeport.aws.AssumedRole"
_SHORTEST_CALL = 15  # seconds; what is less is taken for it
_ENCRYPTION = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS"}


def hadoop_settings(bucket: str, settings: AwsSettings) -> dict[str, str]:
    """Settings of `s3a://bucket`, each for that bucket alone.

    They hold the keys, so they belong on a running session's `hadoopConfiguration`, set before the
    bucket is first used, and never into Spark's own configuration.

    >>> found = hadoop_settings("lake", AwsSettings(region="eu-west-1"))
    >>> found["fs.s3a.bucket.lake.endpoint.region"]
    'eu-west-1'
    """
    found = {"endpoint.region": settings.region, **_endpoint(settings), **_proxy(settings)}
    found |= _retries(settings.retry_policy.deadline)
    provider, keys = _credentials(settings)
    found |= keys
    if settings.role_arn:
        found |= _role(settings)
        provider = _ROLE
    found["aws.credentials.provider"] = provider
    if settings.sse:
        found["encryption.algorithm"] = _ENCRYPTION[settings.sse]
        if settings.sse_kms_key_id:
            found["encryption.key"] = settings.sse_kms_key_id
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in found.items()}


def _endpoint(settings: AwsSettings) -> dict[str, str]:
    style = {"path.style.access": "true" if settings.addressing == "path" else "false"}
    if not settings.endpoint:
        return style
    tls = "true" if urlsplit(settings.endpoint).scheme == "https" else "false"
    return {**style, "endpoint": settings.endpoint, "connection.ssl.enabled": tls}


def _retries(deadline: float) -> dict[str, str]:
    """How long the connector goes on, in three layers: S3A's retries of the SDK's of a request.

    A commit's put that fails is looked for, which may fail as long: each has half of the time. A
    call of the SDK ends when its time is over, however it fails; S3A takes 15 s for the least, and
    counts a part's upload to it, so that parts have to be small.

    >>> _retries(120)["connection.request.timeout"], _retries(120)["retry.limit"]
    ('30000ms', '1')
    """
    again = 1 if deadline >= 4 * _SHORTEST_CALL else 0
    call = max(_SHORTEST_CALL, deadline / 2 / (again + 1))
    # The SDK's delays double from about 0.1 s, and end at 20 s.
    repeats = max(3, math.floor(math.log2(deadline / 2 / (again + 1) / 0.1)))
    return {
        "attempts.maximum": str(repeats),
        "connection.establish.timeout": f"{_SHORTEST_CALL}s",
        "connection.timeout": f"{_SHORTEST_CALL}s",
        "connection.request.timeout": f"{call * 1000:.0f}ms",
        "connection.part.upload.timeout": f"{max(call, deadline / 2) * 1000:.0f}ms",
        "multipart.size": "8M",
        "retry.limit": str(again),
        "retry.throttle.limit": str(again),
    }


def _proxy(settings: AwsSettings) -> dict[str, str]:
    """The proxy that the environment names for the endpoint, as the SDK for Python takes it.

    Java's SDK would look for the proxy of `http` in `http_proxy` whatever the endpoint speaks.
    """
    endpoint = urlsplit(settings.endpoint or f"https://s3.{settings.region}.amazonaws.com")
    named = getproxies().get(endpoint.scheme, "")
    if not named or proxy_bypass(endpoint.netloc):
        return {}
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    tls = proxy.scheme == "https"
    port = proxy.port or (443 if tls else 80)
    found = {"proxy.host": proxy.hostname or "", "proxy.port": str(port)}
    if tls:
        found["proxy.ssl.enabled"] = "true"
    if proxy.username:
        found["proxy.username"] = unquote(proxy.username)
        found["proxy.password"] = unquote(proxy.password or "")
    return found


def _credentials(settings: AwsSettings) -> tuple[str, dict[str, str]]:
    if not settings.access_key_id:
        if settings.profile:
            return _PROFILE, {"auth.profile.name": settings.profile}
        return _CHAIN, {}
    keys = {"access.key": settings.access_key_id, "secret.key": settings.secret_access_key}
    if settings.session_token:
        return _SESSION, {**keys, "session.token": settings.session_token}
    return _FIXED, keys


def _role(settings: AwsSettings) -> dict[str, str]:
    """The role, at AWS or at a store that answers STS at its own address."""
    found = {
        "assumed.role.arn": settings.role_arn,
        "assumed.role.session.name": settings.role_session_name,
        "assumed.role.session.duration": f"{ROLE_SECONDS}s",
        "assumed.role.sts.endpoint.region": settings.region,
    }
    if settings.external_id:
        found["assumed.role.external.id"] = settings.external_id
    if not settings.is_native:
        found["assumed.role.sts.endpoint"] = settings.endpoint
    return found
