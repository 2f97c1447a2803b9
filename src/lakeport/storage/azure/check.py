"""The connection test of Azure: each thing that a load needs, tried on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.storage.azure.client import connect
from lakeport.storage.checks import CheckItem, Checks, CloudCheck, clock_item, item_of

if TYPE_CHECKING:
    from lakeport.storage.azure.store import AzureStorage

_DELETED = "_lakeport/probe-delete"


class AzureCheck(CloudCheck):
    """Tries credentials, container, clock, writing and create-only, deleting."""

    upload = "block upload"
    storage: AzureStorage

    def credentials(self) -> str:
        """Which of the settings are used, once they have been."""
        settings = self.storage.settings
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

    def place(self) -> list[CheckItem]:
        """The container, listed, and the clock."""
        headers: dict[str, str] = {}
        return [item_of("container", lambda: self._container(headers)), clock_item(headers)]

    def further(self) -> Checks:
        """Whether blobs can be deleted, which tables need."""
        yield item_of("delete", self._delete)

    def _container(self, headers: dict[str, str]) -> str:
        """List one blob, which tables need to be allowed anyway."""
        storage = self.storage
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

    def _delete(self) -> str:
        self.storage.put(_DELETED, b"")
        self.storage.delete(_DELETED)
        return "blobs can be deleted"
