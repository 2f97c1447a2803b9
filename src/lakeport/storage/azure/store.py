"""Azure Blob Storage and Data Lake Storage as keys below one folder of a container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lakeport.model import Staged, StoredObject
from lakeport.storage.azure.check import AzureCheck
from lakeport.storage.azure.client import AzureConnection, connect, with_credentials
from lakeport.storage.azure.hadoop import hadoop_settings
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.upload import ID_KEY, AzureStageWriter, commit, is_ours
from lakeport.storage.base import CloudStorage, Page, folder_names, start_of_keys
from lakeport.storage.checks import CheckItem
from lakeport.storage.failures import Condition, condition_of
from lakeport.storage.keys import join_key, under

T = TypeVar("T")
_FOLDER = "hdi_isfolder"
_PAGE = 5000


@dataclass(frozen=True, slots=True)
class AzureStorage(CloudStorage):
    """A folder of a container, through the account's Blob service.

    Attributes:
        container: the container's name.
        prefix: clean, see `keys.clean_prefix`; empty for the whole container.
        settings: how to reach it.
    """

    container: str
    prefix: str
    settings: AzureSettings

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the credentials along to tasks, which may run where none can be found."""
        return AzureStorage, (self.container, self.prefix, with_credentials(self.settings))

    @property
    def connection(self) -> AzureConnection:
        """This process's client."""
        return connect(self.settings)

    @property
    def always_conditional(self) -> bool:
        """True: Azure honours `If-None-Match`, and so does its emulator."""
        return True

    def uri(self, key: str = "") -> str:
        """`abfss://container@account.dfs.core.windows.net/prefix/key`."""
        at = f"{self.settings.scheme}://{self.container}@{self.settings.host}"
        return f"{at}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """What Spark's Azure connector needs to reach the account; some values are secrets.

        Args:
            for_workers: without effect: the connector takes no token, and looks for a managed
                identity on each worker.
        """
        return hadoop_settings(self.settings)

    def stage(self, key: str, content_type: str) -> AzureStageWriter:
        """Begin a blob of blocks."""
        full = join_key(self.prefix, key)
        return AzureStageWriter(self.container, full, self.uri(key), self.settings, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Commit the list of blocks; see `azure.upload.commit`."""
        commit(self.container, join_key(self.prefix, key), self.uri(key), staged, self.settings)

    def discard(self, staged: Staged) -> None:
        """Leave the blocks to Azure, which drops them after a week. Never raises."""

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs; only tables lie on Azure, so that `tables` changes nothing."""
        return AzureCheck(self).items()

    def _put(self, key: str, data: bytes, mark: str, over: str | None) -> None:
        same = _unchanged(over) if over else {}

        def send(blob: Any) -> None:
            blob.upload_blob(
                data,
                length=len(data),
                overwrite=over != "",
                metadata={ID_KEY: mark},
                validate_content=True,
                **same,
            )

        self._call("write", key, send, condition_of(over))

    def _has_mark(self, key: str, mark: str) -> bool:
        full = join_key(self.prefix, key)
        return is_ours(self.container, full, self.uri(key), mark, self.settings)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        if not version:
            return self._call("read", key, lambda blob: bytes(blob.download_blob().readall()))
        same = _unchanged(version)

        def send(blob: Any) -> bytes:
            return bytes(blob.download_blob(start, end - start, **same).readall())

        return self._call("read", key, send, "same")

    def _size_and_version(self, key: str) -> tuple[int, str]:
        found = self._call("read", key, lambda blob: blob.get_blob_properties())
        return int(found.size), str(found.etag)

    def _page(
        self,
        prefix: str,
        *,
        below: bool = False,
        one_level: bool = False,
        token: str = "",
        limit: int = 0,
        after: str = "",
    ) -> Page:
        container = self.connection.container(self.container)
        start = start_of_keys(self.prefix, prefix, below=below)

        def send() -> tuple[Sequence[Any], str | None]:
            listing = container.walk_blobs if one_level else container.list_blobs
            pages = listing(
                name_starts_with=start or None,
                include=["metadata"],
                results_per_page=limit or _PAGE,
            ).by_page(token or None)
            rows = tuple(next(pages))
            return rows, pages.continuation_token

        rows, following = self.connection.call("list", self.uri(prefix), send)
        blobs = [row for row in rows if hasattr(row, "size")]  # those that are no prefixes
        folders = [row.name for row in rows if not hasattr(row, "size")]
        found = [_stored(self.prefix, row) for row in blobs if not _is_folder(row)]
        return Page(found, following or "", folder_names(start, folders))

    def _delete(self, key: str) -> None:
        self._call("delete", key, lambda blob: blob.delete_blob())

    def _call(
        self, action: str, key: str, send: Callable[[Any], T], condition: Condition = "none"
    ) -> T:
        blob = self.connection.blob(self.container, join_key(self.prefix, key))
        return self.connection.call(action, self.uri(key), lambda: send(blob), condition=condition)


def _is_folder(row: Any) -> bool:
    """Whether it only stands for a folder, as Data Lake accounts and Hadoop make them."""
    about = {name.lower(): value for name, value in (row.metadata or {}).items()}
    return about.get(_FOLDER) == "true" or row.name.endswith("/")


def _stored(prefix: str, row: Any) -> StoredObject:
    modified = row.last_modified.timestamp() if row.last_modified else 0.0
    return StoredObject(under(prefix, row.name), row.size, str(row.etag).strip('"'), modified)


def _unchanged(version: str) -> dict[str, Any]:
    """Return the parameters of a request for one version of a blob."""
    from azure.core import MatchConditions

    return {"etag": version, "match_condition": MatchConditions.IfNotModified}
