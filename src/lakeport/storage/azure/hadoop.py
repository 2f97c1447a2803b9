"""Settings of Hadoop's ABFS connector for one storage account."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from lakeport.storage.azure.settings import AzureSettings

_FIRST_DELAY = 0.5  # seconds
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
_LOGIN = "https://login.microsoftonline.com"
_TOKEN_FILE = "AZURE_FEDERATED_TOKEN_FILE"  # noqa: S105  # the variable's name


def hadoop_settings(settings: AzureSettings) -> dict[str, str]:
    """Return the options of Hadoop's ABFS connector for one account, secrets included.

    Set them on a running session's `hadoopConfiguration` before the account's first use, and never
    in Spark's own configuration, which Spark shows.

    Of the SDK's default chain the connector knows the managed identity. A service principal or a
    workload identity is read from this process's environment.

    >>> options = hadoop_settings(AzureSettings("lake", "a2V5"))
    >>> options["fs.azure.account.auth.type.lake.dfs.core.windows.net"]
    'SharedKey'
    """
    options = _credential_options(settings)
    options |= _retry_options(settings.retry_policy.deadline)
    result = {f"fs.azure.{name}.{settings.host}": value for name, value in options.items()}
    # A store without folders renames by copying. If the answer to a copy was cut, the connector
    # waits for the copy for five minutes; this option is for all accounts.
    watched = settings.retry_policy.deadline / 4
    result["fs.azure.blob.copy.max.wait.millis"] = f"{watched * 1000:.0f}"
    return result | _emulator_options(settings)


def _retry_options(deadline: float) -> dict[str, str]:
    """Return the ABFS options that limit retries to about `deadline` seconds.

    The connector counts retries and knows no deadline. Delays grow from half a second to an eighth
    of the deadline; a request without an answer ends after a twelfth.

    >>> _retry_options(120)["io.retry.max.retries"], _retry_options(120)["http.read.timeout"]
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


def _credential_options(settings: AzureSettings) -> dict[str, str]:
    """Return ABFS login options from the settings, else the environment, else managed identity."""
    if settings.access_key:
        return {"account.auth.type": "SharedKey", "account.key": settings.access_key}
    if settings.sas_token:
        return {"account.auth.type": "SAS", "sas.fixed.token": settings.sas_token}
    if settings.client_secret:
        return _principal_options(settings.tenant_id, settings.client_id, settings.client_secret)
    if not settings.managed_identity:
        tenant, client = os.getenv("AZURE_TENANT_ID"), os.getenv("AZURE_CLIENT_ID")
        if tenant and client and os.getenv("AZURE_CLIENT_SECRET"):
            return _principal_options(tenant, client, os.environ["AZURE_CLIENT_SECRET"])
        if tenant and client and os.getenv(_TOKEN_FILE):
            return _oauth_options("WorkloadIdentityTokenProvider") | {
                "account.oauth2.msi.tenant": tenant,
                "account.oauth2.client.id": client,
                "account.oauth2.token.file": os.environ[_TOKEN_FILE],
            }
    identity = _oauth_options("MsiTokenProvider")
    if settings.client_id:
        identity["account.oauth2.client.id"] = settings.client_id
    return identity


def _principal_options(tenant: str, client: str, secret: str) -> dict[str, str]:
    """Return the ABFS options to log in as a service principal."""
    return _oauth_options("ClientCredsTokenProvider") | {
        "account.oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token",
        "account.oauth2.client.id": client,
        "account.oauth2.client.secret": secret,
    }


def _oauth_options(provider: str) -> dict[str, str]:
    """Return the options for OAuth with one of the connector's token providers."""
    return {"account.auth.type": "OAuth", "account.oauth.provider.type": f"{_OAUTH}.{provider}"}


def _emulator_options(settings: AzureSettings) -> dict[str, str]:
    """Return the ABFS options for the emulator Azurite; empty without an endpoint."""
    if not settings.endpoint:
        return {}
    options = {
        "fs.azure.abfs.endpoint": urlsplit(settings.endpoint).netloc,
        f"fs.azure.account.hns.enabled.{settings.host}": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.ingress.service.type": "BLOB",
    }
    if settings.scheme == "abfs":
        options["fs.azure.always.use.https"] = "false"
        # The other library requires TLS.
        options["fs.azure.networking.library"] = "JDK_HTTP_URL_CONNECTION"
    return options
