"""A seekable file over ranged requests, with read-ahead that grows while reading is sequential."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

_LEAST = 256 << 10
_MOST = 8 << 20


class RangedReader(io.RawIOBase):
    """One object, read in ranges.

    The read-ahead starts at 256 KiB, doubles up to 8 MiB while reads follow each other, and starts
    anew after a jump: small random reads stay cheap, a scan needs few requests.

    Args:
        fetch: `fetch(start, end)` returns the bytes of that half-open range.
        size: the object's size in bytes.
        name: the object's URI.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, name: str) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._at = 0
        self._buffer = memoryview(b"")
        self._start = 0
        self._ahead = _LEAST
        self.name = name

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position; nothing is fetched."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is before the start of {self.name}")
        self._at = base + offset
        return self._at

    def readinto(self, target: Any, /) -> int:
        """Fill a buffer as far as the object goes; fewer bytes only at its end."""
        view = memoryview(target).cast("B")
        wanted = max(0, min(len(view), self._size - self._at))
        filled = 0
        while filled < wanted:
            chunk = self._available(wanted - filled)
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
            self._at += len(chunk)
        return filled

    def _available(self, wanted: int) -> memoryview:
        end = self._start + len(self._buffer)
        if not self._start <= self._at < end:
            self._ahead = min(_MOST, self._ahead * 2) if self._at == end else _LEAST
            last = min(self._size, self._at + max(wanted, self._ahead))
            data = self._fetch(self._at, last)
            if not data:
                raise OSError(f"{self.name} ended at byte {self._at} of {self._size}")
            self._buffer, self._start = memoryview(data), self._at
        offset = self._at - self._start
        return self._buffer[offset : offset + wanted]
