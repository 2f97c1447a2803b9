"""The upload of a stream of bytes in parts, with its checksum: one loop for all clouds."""

from __future__ import annotations

import base64
import hashlib
import io
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import google_crc32c


class Chunker:
    """Cuts a byte stream into upload parts; counts parts and bytes, and computes a CRC32C.

    `part_bytes` returns the size of part number n, counted from 1; `number` is the last part's.

    >>> chunker = Chunker(lambda number: 4)
    >>> list(chunker.feed(b"abcdef")), chunker.flush(), chunker.bytes
    ([b'abcd'], b'ef', 6)
    """

    def __init__(self, part_bytes: Callable[[int], int]) -> None:
        self._part_bytes = part_bytes
        self._buffer = io.BytesIO()
        self._crc = 0
        self.number = 0
        self.bytes = 0

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Append bytes to the buffer; yield each part that is full."""
        view = memoryview(data).cast("B")
        while len(view):
            room = self._part_bytes(self.number + 1) - self._buffer.tell()
            self._buffer.write(view[:room])
            if len(view) >= room:
                yield self._cut()
            view = view[room:]

    def flush(self) -> bytes:
        """Return the rest of the buffer as the last part; empty bytes if nothing is left."""
        return self._cut() if self._buffer.tell() else b""

    @property
    def checksum(self) -> str:
        """CRC32C of all parts so far, in base64."""
        return _base64(self._crc)

    def _cut(self) -> bytes:
        """Return the buffered bytes as the next part, empty the buffer, update counts and CRC."""
        part = self._buffer.getvalue()
        self._buffer = io.BytesIO()
        self._crc = google_crc32c.extend(self._crc, part)
        self.number += 1
        self.bytes += len(part)
        return part


class CloudStageWriter(ABC):
    """Base class of upload writers: sends parts in threads while the caller writes.

    Implements `model.StageWriter`. A cloud's class begins the upload, sends a part and makes the
    token for `publish`. A failure raises from a later `write` or from `finish`. At most one part
    more than there are threads is in memory. `part_bytes` returns the size of part number n,
    counted from 1.
    """

    def __init__(
        self,
        storage: Any,
        key: str,
        content_type: str,
        part_bytes: Callable[[int], int],
        threads: int,
    ) -> None:
        self._storage, self._key, self._content_type = storage, key, content_type
        self._id = uuid.uuid4().hex
        self._chunker = Chunker(part_bytes)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakeport-upload")
        self._parts: list[Future[Any]] = []
        self._begun = self._pool.submit(self._begin)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes, upload full parts, return the byte count; wait while all threads are busy.

        Raises the error of an earlier part that failed.
        """
        for part in self._chunker.feed(data):
            self._submit(part)
        return memoryview(data).nbytes

    def finish(self) -> Mapping[str, Any]:
        """Send the last part, wait for all parts; return `token`, `bytes`, `checksum`, or raise."""
        self._send_last(self._chunker.flush())
        self._begun.result()
        parts = [part.result() for part in self._parts]
        self._pool.shutdown()
        return {
            "token": {"id": self._id, **self._token(parts)},
            "bytes": self._chunker.bytes,
            "checksum": f"crc32c:{self._chunker.checksum}",
        }

    def abort(self) -> None:
        """Cancel the parts that wait for a thread, and wait for those being sent. Never raises."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, part: bytes) -> None:
        """Upload the newest part in a thread; wait first while all threads are busy."""
        if len(self._parts) >= self._threads:
            self._parts[-self._threads].result()
        number = max(1, self._chunker.number)
        self._parts.append(self._pool.submit(self._send, number, part))

    def _send_last(self, part: bytes) -> None:
        """Send the bytes after the last whole part, if there are any."""
        if part:
            self._submit(part)

    def _begin(self) -> Any:
        """Begin the upload, in a thread; return its id, or None if the cloud needs none."""
        return None

    @abstractmethod
    def _send(self, number: int, part: bytes) -> Any:
        """Send a part, in a thread; return an entry for `_token`."""

    @abstractmethod
    def _token(self, parts: list[Any]) -> dict[str, Any]:
        """Return the members of the token for `publish`, from `_send`'s results in order."""


def crc32c_text(data: bytes) -> str:
    """Return the CRC32C of some bytes in base64, as S3 and Google Cloud Storage write it.

    >>> crc32c_text(b"123456789")
    '4waSgw=='
    """
    return _base64(google_crc32c.value(data))


def md5_text(data: bytes) -> str:
    """Return the MD5 of some bytes in base64, as in the header Content-MD5.

    >>> md5_text(b"")
    '1B2M2Y8AsgTpgAmY7PhCfg=='
    """
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _base64(crc: int) -> str:
    """Return a CRC32C as base64 of four bytes."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode()
