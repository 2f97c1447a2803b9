"""Azure as Hadoop's ABFS connector sees it: the settings of one storage account."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from lakeport.storage.azure.client import AzureSettings

_FIRST_DELAY = 0.5  # seconds
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
_LOGIN = "https://login.microsoftonline.com"
_TOKEN_FILE = "AZURE_FEDERATED_TOKEN_FILE"  # noqa: S105  # the variable's name


def hadoop_settings(settings: AzureSettings) -> dict[str, str]:
    """Settings of one account's `abfss://` and `abfs://` URIs.

    They hold secrets, so they belong on a running session's `hadoopConfiguration`, set before the
    account is first used, and never into Spark's own configuration.

    Of the default chain the connector knows the machine's managed identity, and what this process
    finds in its environment: a service principal or a workload identity.

    >>> found = hadoop_settings(AzureSettings("lake", "a2V5"))
    >>> found["fs.azure.account.auth.type.lake.dfs.core.windows.net"]
    'SharedKey'
    """
    found = _credentials(settings)
    found |= _retries(settings.retry_policy.deadline)
    result = {f"fs.azure.{name}.{settings.host}": value for name, value in found.items()}
    # A store without folders renames by copying. The connector takes a copy for going on when the
    # answer to it was cut, and watches it for five minutes; this setting is for all accounts.
    watched = settings.retry_policy.deadline / 4
    result["fs.azure.blob.copy.max.wait.millis"] = f"{watched * 1000:.0f}"
    return result | _emulator(settings)


def _retries(deadline: float) -> dict[str, str]:
    """How long the connector goes on: by counts, as it knows no deadline.

    The delays grow from half a second to an eighth of the whole; a silent store is asked anew
    after a twelfth.

    >>> _retries(120)["io.retry.max.retries"], _retries(120)["http.read.timeout"]
    ('11', '10000')
    """
    longest, waited, retries = deadline / 8, 0.0, 0
    while waited < deadline * 0.8:
        waited += min(longest, _FIRST_DELAY * 2.0**retries)
        retries += 1
    return {
        "io.retry.max.retries": str(retries),
        "io.retry.min.backoff.interval": "0",
        "io.retry.backoff.interval": f"{_FIRST_DELAY * 1000:.0f}",
        "io.retry.max.backoff.interval": f"{longest * 1000:.0f}",
        "http.read.timeout": f"{max(0.5, deadline / 12) * 1000:.0f}",
    }


def _credentials(settings: AzureSettings) -> dict[str, str]:
    if settings.access_key:
        return {"account.auth.type": "SharedKey", "account.key": settings.access_key}
    if settings.sas_token:
        return {"account.auth.type": "SAS", "sas.fixed.token": settings.sas_token}
    if settings.client_secret:
        return _principal(settings.tenant_id, settings.client_id, settings.client_secret)
    if not settings.managed_identity:
        tenant, client = os.getenv("AZURE_TENANT_ID"), os.getenv("AZURE_CLIENT_ID")
        if tenant and client and os.getenv("AZURE_CLIENT_SECRET"):
            return _principal(tenant, client, os.environ["AZURE_CLIENT_SECRET"])
        if tenant and client and os.getenv(_TOKEN_FILE):
            return _oauth("WorkloadIdentityTokenProvider") | {
                "account.oauth2.msi.tenant": tenant,
                "account.oauth2.client.id": client,
                "account.oauth2.token.file": os.environ[_TOKEN_FILE],
            }
    identity = _oauth("MsiTokenProvider")
    if settings.client_id:
        identity["account.oauth2.client.id"] = settings.client_id
    return identity


def _principal(tenant: str, client: str, secret: str) -> dict[str, str]:
    return _oauth("ClientCredsTokenProvider") | {
        "account.oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token",
        "account.oauth2.client.id": client,
        "account.oauth2.client.secret": secret,
    }


def _oauth(provider: str) -> dict[str, str]:
    return {"account.auth.type": "OAuth", "account.oauth.provider.type": f"{_OAUTH}.{provider}"}


def _emulator(settings: AzureSettings) -> dict[str, str]:
    """What Azurite needs, which has the Blob service only, and that without TLS."""
    if not settings.endpoint:
        return {}
    found = {
        "fs.azure.abfs.endpoint": urlsplit(settings.endpoint).netloc,
        f"fs.azure.account.hns.enabled.{settings.host}": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.ingress.service.type": "BLOB",
    }
    if settings.scheme == "abfs":
        found["fs.azure.always.use.https"] = "false"
        # The other library can't do without TLS here.
        found["fs.azure.networking.library"] = "JDK_HTTP_URL_CONNECTION"
    return found
