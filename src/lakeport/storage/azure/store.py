"""Azure Blob Storage and Data Lake Storage: blobs below one folder of a container.

Uncommitted blocks are never listed, and Azure removes them after a week.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lakeport.errors import ObjectExists, PermissionRefused
from lakeport.model import CheckItem, Staged, StoredObject
from lakeport.storage.azure.client import AzureConnection, connect, with_credentials
from lakeport.storage.azure.errors import BlocksGone
from lakeport.storage.azure.hadoop import hadoop_settings
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.base import CloudStorage, ListingPage, join_key
from lakeport.storage.checks import Checks, CloudCheck, check_clock, run_check
from lakeport.storage.parts import CloudStageWriter
from lakeport.storage.retry import (
    Condition,
    condition_for,
    exists_error,
)

ID_KEY = "lakeport_id"
_MIB = 1 << 20

T = TypeVar("T")
_FOLDER_METADATA = "hdi_isfolder"
_PAGE = 5000


_PROBE_KEY = "_lakeport/probe-delete"


def block_bytes(number: int) -> int:
    """Return the size of block `number`, from 1: 16 MiB, and 128 MiB from block 40,001 on.

    So the 50,000 blocks that Azure allows hold 1.8 TiB.

    >>> block_bytes(1) >> 20, block_bytes(40_001) >> 20
    (16, 128)
    """
    return 16 * _MIB if number <= 40_000 else 128 * _MIB


class AzureStageWriter(CloudStageWriter):
    """Uploads a blob's blocks in two threads while the caller writes; at most three in memory."""

    def __init__(self, storage: AzureStorage, key: str, content_type: str) -> None:
        super().__init__(storage, key, content_type, block_bytes, threads=2)

    def _send(self, number: int, part: bytes) -> str:
        """Upload a block, which stays uncommitted; return its id."""
        # All ids of a blob's blocks have to have one length, also those of other writers.
        block = base64.b64encode(f"{self._id}{number:06d}".encode()).decode()

        def send(blob: Any) -> None:
            blob.stage_block(block, part, length=len(part), validate_content=True)

        self._storage._call("write", self._key, send)
        return block

    def _token(self, parts: list[Any]) -> dict[str, Any]:
        """Return the blocks' ids, the media type and the metadata, for `publish`."""
        return {"blocks": parts, "type": self._content_type, "metadata": {ID_KEY: self._id}}


@dataclass(frozen=True, slots=True)
class AzureStorage(CloudStorage):
    """Storage of the blobs below a folder of an Azure container.

    The prefix is clean, see `base.clean_prefix`, and empty for the whole container.
    """

    container: str
    prefix: str
    settings: AzureSettings

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the storage with its credentials, as a worker may find none."""
        return AzureStorage, (self.container, self.prefix, with_credentials(self.settings))

    @property
    def connection(self) -> AzureConnection:
        """This process's connection to the account."""
        return connect(self.settings)

    def needs_unique_names(self) -> bool:
        """False: Azure honours `If-None-Match`, and so does its emulator."""
        return False

    def uri(self, key: str = "") -> str:
        """Return `abfss://container@account.dfs.core.windows.net/prefix/key`."""
        at = f"{self.settings.scheme}://{self.container}@{self.settings.host}"
        return f"{at}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """Return the settings of Hadoop's ABFS connector for the account, secrets included.

        `for_workers` has no effect: the connector takes no token, and finds a managed identity on
        each worker itself. Empty if the user's Spark session, whose connector it is, has them.
        """
        return {} if self.settings.from_session else hadoop_settings(self.settings)

    def stage(self, key: str, content_type: str) -> AzureStageWriter:
        """Return a writer that stages a new blob in blocks."""
        return AzureStageWriter(self, key, content_type)

    def publish(self, staged: Staged, key: str) -> None:
        """Commit the staged blocks as a visible blob; raise ObjectExists if the name is taken.

        If the name is taken, or the blocks are gone, an earlier answer may have been lost: the mark
        of the blob shows whether this upload was committed.

        Raises:
            BlocksGone: the blocks are gone, and the blob is not visible.
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
                ours = self._find_mark(
                    key, str(token["id"]), exists=isinstance(error, ObjectExists)
                )
            except PermissionRefused:
                ours = False
            if ours:
                return
            if isinstance(error, BlocksGone) and ours is not None:
                # A commit under a name removes the blocks that others have staged for it.
                raise exists_error(self.uri(key)) from None
            raise

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Return the connection test; `tables` changes nothing, as only tables lie on Azure."""
        return AzureCheck(self).items()

    def _put(self, key: str, data: bytes, mark: str, expected_version: str | None) -> None:
        """Put a blob with `mark` in its metadata, conditional on its ETag; or raise."""
        same = _if_version(expected_version) if expected_version else {}

        def send(blob: Any) -> None:
            blob.upload_blob(
                data,
                length=len(data),
                overwrite=expected_version != "",
                metadata={ID_KEY: mark},
                validate_content=True,
                **same,
            )

        self._call("write", key, send, condition_for(expected_version))

    def _has_mark(self, key: str, mark: str) -> bool:
        """Whether the object has this mark in its metadata; see `CloudStorage._has_mark`."""
        about = self._call("read", key, lambda blob: blob.get_blob_properties())
        return bool((about.metadata or {}).get(ID_KEY) == mark)

    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        """Return a blob's content, or with `version` (ETag) bytes `start` to `end`, exclusive."""
        if not version:
            return self._call("read", key, lambda blob: bytes(blob.download_blob().readall()))
        same = _if_version(version)

        def send(blob: Any) -> bytes:
            return bytes(blob.download_blob(start, end - start, **same).readall())

        return self._call("read", key, send, "same")

    def _size_and_version(self, key: str) -> tuple[int, str]:
        """Return an object's size in bytes and its version, its ETag."""
        found = self._call("read", key, lambda blob: blob.get_blob_properties())
        return int(found.size), str(found.etag)

    def _list_page(
        self, start: str, one_level: bool, token: str, limit: int, after: str
    ) -> ListingPage:
        """List one page of blobs whose names begin with `start`; `after` is ignored."""
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
        rows, following = self.connection.send_with_retries(send, "list", place)
        blobs = [row for row in rows if hasattr(row, "size")]  # the others are prefixes
        folders = [row.name for row in rows if not hasattr(row, "size")]
        return ListingPage(
            [_describe_object(row) for row in blobs if not _is_folder(row)],
            following or "",
            folders,
        )

    def _delete(self, key: str) -> None:
        """Delete an object; see `CloudStorage._delete`."""
        self._call("delete", key, lambda blob: blob.delete_blob())

    def _call(
        self, action: str, key: str, send: Callable[[Any], T], condition: Condition = "none"
    ) -> T:
        """Call `send` with the SDK's client of the blob `key`, with retries; return its result."""
        connection = self.connection
        blob = connection.blob(self.container, join_key(self.prefix, key))
        return connection.send_with_retries(lambda: send(blob), action, self.uri(key), condition)


def _is_folder(row: Any) -> bool:
    """Whether a blob only marks a folder, as Data Lake accounts and Hadoop create them."""
    about = {name.lower(): value for name, value in (row.metadata or {}).items()}
    return about.get(_FOLDER_METADATA) == "true"


def _describe_object(row: Any) -> StoredObject:
    """Convert a blob of Azure's listing; the ETag loses its quotes."""
    modified = row.last_modified.timestamp() if row.last_modified else 0.0
    return StoredObject(row.name, row.size, str(row.etag).strip('"'), modified)


def _if_version(version: str) -> dict[str, Any]:
    """Return the SDK's arguments that make a request conditional on this ETag."""
    from azure.core import MatchConditions

    return {"etag": version, "match_condition": MatchConditions.IfNotModified}


class AzureCheck(CloudCheck):
    """Connection test of a container: credentials, clock, create-only writes and deletes."""

    upload = "block upload"
    storage: AzureStorage

    def check_credentials(self) -> str:
        """Fetch a token, or raise LakeportError; return a text about the credentials in use."""
        settings = self.storage.settings
        connect(settings).access_token()
        if settings.access_key:
            return "`access_key` is used"
        if settings.sas_token:
            return "`sas_token` is used"
        if settings.client_secret:
            return "the service principal (`client_id`) has logged in"
        if settings.managed_identity:
            return "the managed identity gives tokens"
        return "found by the Azure SDK's default chain"

    def check_place(self) -> list[CheckItem]:
        """Return the items for listing the container and for the clock."""
        headers: dict[str, str] = {}
        return [run_check("container", lambda: self._list_container(headers)), check_clock(headers)]

    def check_more(self) -> Checks:
        """Yield the item for deleting blobs, which tables need."""
        yield run_check("delete", self._check_delete)

    def _list_container(self, headers: dict[str, str]) -> str:
        """List one blob; copy the response's headers into `headers`, return the success text."""
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

        connection.send_with_retries(send, "list", storage.uri())
        return f"{storage.uri()} can be listed"

    def _check_delete(self) -> str:
        """Write a probe blob and delete it; return the success text."""
        self.storage.put(_PROBE_KEY, b"")
        self.storage.delete(_PROBE_KEY)
        return "blobs can be deleted"
