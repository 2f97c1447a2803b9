"""The connection test of Azure: each thing that a load needs, tried on its own."""

from __future__ import annotations

import dataclasses

from lakeport.storage.azure.client import connect
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.store import AzureStorage
from lakeport.storage.checks import Checks, clock_item, item_of, with_short_timeouts, writing_items

__all__ = ["check_azure"]


def check_azure(storage: AzureStorage) -> Checks:
    """Try credentials, container, clock, writing and create-only, reading, listing, deleting.

    What can't work any more after a failure is left out.
    """
    settings = with_short_timeouts(storage.settings)
    storage = dataclasses.replace(storage, settings=settings)
    found = item_of("credentials", lambda: _credentials(settings))
    yield found
    if found.status == "failed":
        return
    headers: dict[str, str] = {}
    found = item_of("container", lambda: _container(storage, headers))
    yield found
    yield clock_item(headers)
    if found.status == "failed":
        return
    yield from writing_items(storage, "If-None-Match", "block upload")
    yield item_of("delete", lambda: _delete(storage))


def _credentials(settings: AzureSettings) -> str:
    connect(settings).authenticate()
    if settings.access_key:
        return "`access_key` is used"
    if settings.sas_token:
        return "`sas_token` is used"
    if settings.client_secret:
        return "the service principal (`client_id`) has logged in"
    if settings.managed_identity:
        return "the managed identity gives tokens"
    return "found by the Azure SDK's default chain"


def _container(storage: AzureStorage, headers: dict[str, str]) -> str:
    """List one blob, which tables need to be allowed anyway."""
    connection = connect(storage.settings)
    container = connection.container(storage.container)

    def keep(response: object) -> None:
        headers.update(getattr(getattr(response, "http_response", None), "headers", {}))

    def send() -> None:
        pages = container.list_blobs(
            name_starts_with=storage.prefix or None, results_per_page=1, raw_response_hook=keep
        ).by_page()
        next(pages)

    connection.call("list", storage.uri(), send)
    return f"{storage.uri()} can be listed"


def _delete(storage: AzureStorage) -> str:
    key = "_lakeport/probe-delete"
    storage.put(key, b"")
    storage.delete(key)
    return "blobs can be deleted"
