"""Azure Blob Storage and Data Lake Storage as keys below one folder of a container.

Blocks that nobody commits are never listed, and Azure drops them after a week.
"""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from lakeport.storage.base import (
    BackgroundUploads,
    CloudStorage,
    Page,
    folder_names,
    join_key,
    start_of_keys,
    under,
)
from lakeport.storage.checks import CheckItem
from lakeport.storage.checksums import Chunker
from lakeport.storage.retry import Condition, NotFound, already_exists, condition_of, found

ID_KEY = "lakeport_id"
_MIB = 1 << 20
_THREADS = 2


def block_bytes(number: int) -> int:
    """Size of block `number`, from 1: 16 MiB, and 128 MiB from block 40,001 on.

    The 50,000 blocks that Azure allows come to 1.8 TiB.

    >>> block_bytes(1) >> 20, block_bytes(40_001) >> 20
    (16, 128)
    """
    return 16 * _MIB if number <= 40_000 else 128 * _MIB


class AzureStageWriter:
    """Uploads blocks while the encoder goes on; at most three blocks are in memory.

    Args:
        container: the container's name.
        key: the full key.
        name: the blob's URI, for messages.
        settings: how to reach it.
        content_type: the blob's MIME type.
    """

    def __init__(
        self,
        container: str,
        key: str,
        name: str,
        settings: AzureSettings,
        content_type: str,
    ) -> None:
        self._container, self._key, self._name, self._settings = container, key, name, settings
        self._id = uuid.uuid4().hex
        self._type = content_type
        self._metadata = {ID_KEY: self._id}
        self._chunker = Chunker(block_bytes)
        self._lock = threading.Lock()
        self._blocks: dict[int, str] = {}
        self._uploads = BackgroundUploads(_THREADS)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; waits while two blocks are under way."""
        for block in self._chunker.feed(data):
            self._uploads.submit(self._send, self._chunker.number, block)
        return memoryview(data).nbytes

    def finish(self) -> Mapping[str, Any]:
        """Send the rest and wait until all blocks are stored."""
        rest = self._chunker.rest()
        if rest:
            self._uploads.submit(self._send, self._chunker.number, rest)
        self._uploads.drain()
        token = {
            "id": self._id,
            "blocks": [self._blocks[number] for number in sorted(self._blocks)],
            "type": self._type,
            "metadata": self._metadata,
        }
        checksum = f"crc32c:{self._chunker.checksum}"
        return {"token": token, "bytes": self._chunker.bytes, "checksum": checksum}

    def abort(self) -> None:
        """Leave the blocks to Azure, which drops them. Never raises."""
        self._uploads.cancel()

    def _send(self, number: int, body: bytes) -> None:
        # All ids of a blob's blocks have to have one length, also those of other writers.
        block = base64.b64encode(f"{self._id}{number:06d}".encode()).decode()
        connection = connect(self._settings)
        blob = connection.blob(self._container, self._key)
        connection.call(
            "write",
            self._name,
            lambda: blob.stage_block(block, body, length=len(body), validate_content=True),
        )
        with self._lock:
            self._blocks[number] = block


def commit(container: str, key: str, name: str, staged: Staged, settings: AzureSettings) -> None:
    """Make a staged blob visible, only if nothing has its name.

    A lost or untrue answer is made up for: when the request meets a blob of that name, the blob's
    own mark tells whether it is ours.

    Raises:
        ObjectExists: something else has that name.
        BlocksGone: what was staged is gone, and the blob is not visible.
    """
    from azure.core import MatchConditions
    from azure.storage.blob import BlobBlock, ContentSettings

    token = staged.token
    connection = connect(settings)
    blob = connection.blob(container, key)

    def send() -> None:
        blob.commit_block_list(
            [BlobBlock(block_id=block) for block in token["blocks"]],
            content_settings=ContentSettings(content_type=str(token["type"])),
            metadata=dict(token["metadata"]),
            match_condition=MatchConditions.IfMissing,
        )

    try:
        connection.call("write", name, send, condition="absent")
    except (ObjectExists, BlocksGone) as error:

        def look() -> str:
            return _mark(container, key, name, settings)

        try:
            mark = found(look) if isinstance(error, ObjectExists) else look()
        except NotFound:
            raise error from None
        if mark == token["id"]:
            return
        if isinstance(error, BlocksGone):
            # Whoever commits a name drops the blocks that others have staged for it.
            raise already_exists(name) from None
        raise


def is_ours(container: str, key: str, name: str, mark: str, settings: AzureSettings) -> bool:
    """Whether the visible blob carries that mark.

    Raises:
        NotFound: there is none.
        PermissionRefused: reading is not allowed.
    """
    connection = connect(settings)
    blob = connection.blob(container, key)
    about = connection.call("read", name, blob.get_blob_properties)
    return bool((about.metadata or {}).get(ID_KEY) == mark)


def _mark(container: str, key: str, name: str, settings: AzureSettings) -> str:
    """The mark of the visible blob, empty where it has none or may not be read.

    Raises:
        NotFound: there is none.
    """
    connection = connect(settings)
    blob = connection.blob(container, key)
    try:
        about = connection.call("read", name, blob.get_blob_properties)
    except PermissionRefused:
        return ""
    return str((about.metadata or {}).get(ID_KEY, ""))


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
