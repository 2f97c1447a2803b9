"""A stream of bytes cut into parts, with its CRC32C and size kept along the way."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator

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
