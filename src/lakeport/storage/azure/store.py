"""Azure Blob Storage and Data Lake Storage as keys below one folder of a container.

Blocks that nobody commits are never listed, and Azure drops them after a week.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lakeport.errors import ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.azure.client import (
    AzureCheck,
    AzureConnection,
    AzureSettings,
    connect,
    with_credentials,
)
from lakeport.storage.azure.errors import BlocksGone
from lakeport.storage.azure.hadoop import hadoop_settings
from lakeport.storage.base import CloudStorage, ListingPage, join_key
from lakeport.storage.checks import CheckItem
from lakeport.storage.parts import CloudStageWriter
from lakeport.storage.retry import Condition, already_exists, condition_of

ID_KEY = "lakeport_id"
_MIB = 1 << 20

T = TypeVar("T")
_FOLDER = "hdi_isfolder"
_PAGE = 5000


def block_bytes(number: int) -> int:
    """Size of block `number`, from 1: 16 MiB, and 128 MiB from block 40,001 on.

    The 50,000 blocks that Azure allows come to 1.8 TiB.

    >>> block_bytes(1) >> 20, block_bytes(40_001) >> 20
    (16, 128)
    """
    return 16 * _MIB if number <= 40_000 else 128 * _MIB


class AzureStageWriter(CloudStageWriter):
    """Uploads blocks while the encoder goes on; at most three blocks are in memory."""

    def __init__(self, storage: AzureStorage, key: str, content_type: str) -> None:
        super().__init__(block_bytes, 2)
        self._storage, self._key, self._type = storage, key, content_type
        self._blocks: dict[int, str] = {}

    def _token(self) -> dict[str, Any]:
        blocks = [self._blocks[number] for number in sorted(self._blocks)]
        return {"blocks": blocks, "type": self._type, "metadata": {ID_KEY: self._id}}

    def _send(self, number: int, part: bytes) -> None:
        # All ids of a blob's blocks have to have one length, also those of other writers.
        block = base64.b64encode(f"{self._id}{number:06d}".encode()).decode()

        def send(blob: Any) -> None:
            blob.stage_block(block, part, length=len(part), validate_content=True)

        self._storage._call("write", self._key, send)
        self._blocks[number] = block


@dataclass(frozen=True, slots=True)
class AzureStorage(CloudStorage):
    """A folder of a container, through the account's Blob service.

    Attributes:
        container: the container's name.
        prefix: clean, see `base.clean_prefix`; empty for the whole container.
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

    def needs_unique_names(self) -> bool:
        """False: Azure honours `If-None-Match`, and so does its emulator."""
        return False

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
        return AzureStageWriter(self, key, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Commit the list of blocks, only if nothing has the name.

        A lost or untrue answer is made up for: when the request meets a blob of that name, the
        blob's own mark tells whether it is ours.

        Raises:
            ObjectExists: something else has that name.
            BlocksGone: what was staged is gone, and the blob is not visible.
        """
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock, ContentSettings

        token = staged.token

        def send(blob: Any) -> None:
            blob.commit_block_list(
                [BlobBlock(block_id=block) for block in token["blocks"]],
                content_settings=ContentSettings(content_type=str(token["type"])),
                metadata=dict(token["metadata"]),
                match_condition=MatchConditions.IfMissing,
            )

        try:
            self._call("write", key, send, "absent")
        except (ObjectExists, BlocksGone) as error:
            try:
                ours = self._carries(key, str(token["id"]), said=isinstance(error, ObjectExists))
            except PermissionRefused:
                ours = False
            if ours:
                return
            if isinstance(error, BlocksGone) and ours is not None:
                # Whoever commits a name drops the blocks that others have staged for it.
                raise already_exists(self.uri(key)) from None
            raise

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
        about = self._call("read", key, lambda blob: blob.get_blob_properties())
        return bool((about.metadata or {}).get(ID_KEY) == mark)

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

    def _rows(self, start: str, one_level: bool, token: str, limit: int, after: str) -> ListingPage:
        container = self.connection.container(self.container)

        def send() -> tuple[Sequence[Any], str | None]:
            listing = container.walk_blobs if one_level else container.list_blobs
            pages = listing(
                name_starts_with=start or None,
                include=["metadata"],
                results_per_page=limit or _PAGE,
            ).by_page(token or None)
            rows = tuple(next(pages))
            return rows, pages.continuation_token

        place = replace(self, prefix=start.rstrip("/")).uri()
        rows, following = self.connection.call("list", place, send)
        blobs = [row for row in rows if hasattr(row, "size")]  # those that are no prefixes
        folders = [row.name for row in rows if not hasattr(row, "size")]
        return ListingPage(
            [_stored(row) for row in blobs if not _is_folder(row)], following or "", folders
        )

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
    return about.get(_FOLDER) == "true"


def _stored(row: Any) -> StoredObject:
    modified = row.last_modified.timestamp() if row.last_modified else 0.0
    return StoredObject(row.name, row.size, str(row.etag).strip('"'), modified)


def _unchanged(version: str) -> dict[str, Any]:
    """Return the parameters of a request for one version of a blob."""
    from azure.core import MatchConditions

    return {"etag": version, "match_condition": MatchConditions.IfNotModified}
