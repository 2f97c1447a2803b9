"""Upload a stream of bytes in parts, with its checksum and size along the way."""

from __future__ import annotations

import base64
import hashlib
import io
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import google_crc32c


class Chunker:
    """Cuts what is written into parts, and knows the checksum of all that was cut.

    Args:
        size: bytes of part number n, counted from 1.

    >>> chunker = Chunker(lambda number: 4)
    >>> list(chunker.feed(b"abcdef")), chunker.rest(), chunker.bytes
    ([b'abcd'], b'ef', 6)
    """

    def __init__(self, size: Callable[[int], int]) -> None:
        self._size = size
        self._buffer = io.BytesIO()
        self._crc = 0
        self.number = 0
        self.bytes = 0

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Take bytes; yield each part that they complete."""
        view = memoryview(data).cast("B")
        while len(view):
            room = self._size(self.number + 1) - self._buffer.tell()
            self._buffer.write(view[:room])
            if len(view) >= room:
                yield self._cut()
            view = view[room:]

    def rest(self) -> bytes:
        """The bytes behind the last complete part; they count as cut afterwards."""
        return self._cut() if self._buffer.tell() else b""

    @property
    def checksum(self) -> str:
        """CRC32C of all bytes cut so far, in base64."""
        return _base64(self._crc)

    def _cut(self) -> bytes:
        part = self._buffer.getvalue()
        self._buffer = io.BytesIO()
        self._crc = google_crc32c.extend(self._crc, part)
        self.number += 1
        self.bytes += len(part)
        return part


class CloudStageWriter(ABC):
    """Uploads parts while the encoder goes on. Implements `model.StageWriter`.

    A failure of an upload comes out of a later `write` or of `finish`. One part more than there
    are threads is in memory at the most.

    Args:
        size: bytes of part number n, counted from 1.
        threads: how many parts are under way at the most.
    """

    def __init__(self, size: Callable[[int], int], threads: int) -> None:
        self._id = uuid.uuid4().hex
        self._chunker = Chunker(size)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakeport-upload")
        self._running: deque[Future[Any]] = deque()

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; waits while as many parts as there are threads are under way."""
        for part in self._chunker.feed(data):
            self._submit(self._send, self._chunker.number, part)
        return memoryview(data).nbytes

    def finish(self) -> Mapping[str, Any]:
        """Send the rest and wait until all parts are stored."""
        self._send_rest(self._chunker.rest())
        while self._running:
            self._running.popleft().result()
        self._pool.shutdown()
        return {
            "token": {"id": self._id, **self._token()},
            "bytes": self._chunker.bytes,
            "checksum": f"crc32c:{self._chunker.checksum}",
        }

    def abort(self) -> None:
        """Drop what has not begun and wait for the rest. Never raises."""
        self._running.clear()
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a call in the background; wait first while too many are under way."""
        while len(self._running) >= self._threads:
            self._running.popleft().result()
        self._running.append(self._pool.submit(call, *arguments))
        return self._running[-1]

    def _send_rest(self, rest: bytes) -> None:
        if rest:
            self._submit(self._send, self._chunker.number, rest)

    @abstractmethod
    def _send(self, number: int, part: bytes) -> None:
        """Upload a part."""

    @abstractmethod
    def _token(self) -> dict[str, Any]:
        """What publishing needs, beside the object's mark, once all parts are stored."""


def crc32c_text(data: bytes) -> str:
    """CRC32C in base64, as S3 and Google Cloud Storage write it.

    >>> crc32c_text(b"123456789")
    '4waSgw=='
    """
    return _base64(google_crc32c.value(data))


def md5_text(data: bytes) -> str:
    """MD5 in base64, as the header Content-MD5 has it.

    >>> md5_text(b"")
    '1B2M2Y8AsgTpgAmY7PhCfg=='
    """
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _base64(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()
