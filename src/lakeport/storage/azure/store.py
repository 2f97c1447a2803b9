"""Azure Blob Storage and Data Lake Storage as keys below one folder of a container."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar, cast

from lakeport.errors import ObjectExists, PermissionRefused
from lakeport.model import Staged, StoredObject
from lakeport.storage.azure.client import connect, with_credentials
from lakeport.storage.azure.errors import Absent
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.upload import ID_KEY, AzureStageWriter, commit, is_ours
from lakeport.storage.keys import join_key, under
from lakeport.storage.ranged import RangedReader, replaced
from lakeport.storage.retry import Condition

__all__ = ["AzureStorage"]

T = TypeVar("T")
_FOLDER = "hdi_isfolder"


@dataclass(frozen=True, slots=True)
class AzureStorage:
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
    def can_rename_staged(self) -> bool:
        """Never: blocks belong to one blob."""
        return False

    def uri(self, key: str = "") -> str:
        """`abfss://container@account.dfs.core.windows.net/prefix/key`."""
        at = f"{self.settings.scheme}://{self.container}@{self.settings.host}"
        return f"{at}/{join_key(self.prefix, key)}".rstrip("/")

    def hadoop_uri(self, key: str = "") -> str:
        """The same as `uri`."""
        return self.uri(key)

    def needs_unique_names(self) -> bool:
        """Never: Azure honours `If-None-Match`, and so does its emulator."""
        return False

    def stage(self, key: str, content_type: str, metadata: Mapping[str, str]) -> AzureStageWriter:
        """Begin a blob of blocks."""
        full = join_key(self.prefix, key)
        return AzureStageWriter(
            self.container, full, self.uri(key), self.settings, content_type, metadata
        )

    def publish(self, staged: Staged, key: str) -> None:
        """Commit the list of blocks; see `azure_upload.commit`."""
        commit(self.container, join_key(self.prefix, key), self.uri(key), staged, self.settings)

    def discard(self, staged: Staged) -> None:
        """Leave the blocks to Azure, which drops them after a week. Never raises."""

    def marked(self, mark: str) -> AzureStorage:
        """The same: nothing here needs a mark."""
        return self

    def drop_strays(self, staged: Sequence[Staged]) -> None:
        """Nothing: Azure drops uncommitted blocks when the blob is written."""

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible blob carries the mark of these blocks."""
        return self._marked(key, str(staged.token["id"]))

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small blob.

        A lost or untrue answer is made up for where reading is allowed; where it is not, the blob
        counts as somebody else's.
        """
        mark = uuid.uuid4().hex

        def send(blob: Any) -> None:
            blob.upload_blob(
                data,
                length=len(data),
                overwrite=not create_only,
                metadata={ID_KEY: mark},
                validate_content=True,
            )

        try:
            self._call("write", key, send, "absent" if create_only else "none")
        except ObjectExists:
            if not self._readably_marked(key, mark):
                raise

    def get(self, key: str) -> bytes | None:
        """Read one small blob whole."""
        try:
            return self._call("read", key, lambda blob: bytes(blob.download_blob().readall()))
        except Absent:
            return None

    def open(self, key: str) -> BinaryIO:
        """Open a blob; it is an error if it is replaced while it is read."""
        from azure.core import MatchConditions

        about = self._call("read", key, lambda blob: blob.get_blob_properties())
        same = {"etag": about.etag, "match_condition": MatchConditions.IfNotModified}

        def fetch(start: int, end: int) -> bytes:
            def send(blob: Any) -> bytes:
                return bytes(blob.download_blob(start, end - start, **same).readall())

            try:
                return self._call("read", key, send, "same")
            except Absent:
                raise replaced(self.uri(key)) from None

        reader = RangedReader(fetch, int(about.size), self.uri(key))
        return cast(BinaryIO, io.BufferedReader(reader, 64 << 10))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Blobs named `prefix` or below it, in the order of their keys' bytes."""
        full = join_key(self.prefix, prefix)
        if prefix:
            first, _ = self._page(prefix, full, None, 1)
            yield from (_stored(self.prefix, row) for row in first if row.name == full)
        token: str | None = None
        while True:
            rows, token = self._page(prefix, f"{full}/" if full else "", token, 5000)
            yield from (_stored(self.prefix, row) for row in rows)
            if not token:
                return

    def sweep(self) -> int:
        """Nothing: uncommitted blocks expire by themselves."""
        return 0

    def delete(self, key: str) -> None:
        """Remove a blob."""
        try:
            self._call("delete", key, lambda blob: blob.delete_blob())
        except Absent:
            return

    def shorten_deadline(self) -> None:
        """Give the requests that come next a few seconds together."""
        connect(self.settings).retrier.shorten_deadline()

    def _call(
        self,
        action: str,
        key: str,
        send: Callable[[Any], T],
        condition: Condition = "none",
    ) -> T:
        full = join_key(self.prefix, key)
        connection = connect(self.settings)
        blob = connection.blob(self.container, full)
        return connection.call(action, self.uri(key), lambda: send(blob), condition=condition)

    def _page(
        self, key: str, start: str, token: str | None, size: int
    ) -> tuple[Sequence[Any], str | None]:
        connection = connect(self.settings)
        container = connection.container(self.container)

        def send() -> tuple[Sequence[Any], str | None]:
            pages = container.list_blobs(
                name_starts_with=start or None, include=["metadata"], results_per_page=size
            ).by_page(token)
            rows = tuple(next(pages))
            return rows, pages.continuation_token

        rows, following = connection.call("list", self.uri(key), send)
        return tuple(row for row in rows if not _is_folder(row)), following

    def _marked(self, key: str, mark: str) -> bool:
        full = join_key(self.prefix, key)
        return is_ours(self.container, full, self.uri(key), mark, self.settings)

    def _readably_marked(self, key: str, mark: str) -> bool:
        try:
            return self._marked(key, mark)
        except PermissionRefused:
            return False


def _is_folder(row: Any) -> bool:
    """Whether it only stands for a folder, as Data Lake accounts and Hadoop make them."""
    about = {name.lower(): value for name, value in (row.metadata or {}).items()}
    return about.get(_FOLDER) == "true" or row.name.endswith("/")


def _stored(prefix: str, row: Any) -> StoredObject:
    modified = row.last_modified.timestamp() if row.last_modified else 0.0
    return StoredObject(under(prefix, row.name), row.size, str(row.etag).strip('"'), modified)
