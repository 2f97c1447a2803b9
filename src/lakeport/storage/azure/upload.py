"""Staged objects on Azure: blocks of a blob, whose list, once committed, is what makes it visible.

Blocks that nobody commits are never listed, and Azure drops them after a week.
"""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from lakeport.errors import ObjectExists, PermissionRefused
from lakeport.model import Staged
from lakeport.storage.azure.client import connect
from lakeport.storage.azure.errors import BlocksGone
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.background import BackgroundUploads
from lakeport.storage.checksums import Chunker
from lakeport.storage.failures import NotFound, already_exists, found

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
