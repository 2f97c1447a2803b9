"""What was read, told by a digest that is made on the way: nothing is read for it.

A split's bytes are hashed as a task reads them. Readers that ask for parts in any order, in several
threads, have each part hashed with its place.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, BinaryIO, cast

_MODULUS = 1 << 256


class Content:
    """Takes what is read of one split."""

    def __init__(self) -> None:
        self._ordered = hashlib.sha256()
        self._parts = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        """Take the next bytes, of those that are read one after the other."""
        self._ordered.update(data)
        self._bytes += len(data)

    def add_part(self, at: int, data: bytes) -> None:
        """Take bytes from somewhere in the file."""
        part = hashlib.sha256(at.to_bytes(8, "big"))
        part.update(data)
        with self._lock:  # several threads come in any order: a sum does not depend on it
            self._parts = (self._parts + int.from_bytes(part.digest(), "big")) % _MODULUS
            self._bytes += len(data)

    def digest(self) -> str:
        """A name for all that was taken, in hex; empty if that was nothing."""
        if not self._bytes:
            return ""
        parts = self._parts.to_bytes(32, "big")
        return hashlib.sha256(self._ordered.digest() + parts).hexdigest()


_current: ContextVar[Content | None] = ContextVar("lakeport_content", default=None)


@contextmanager
def content_read() -> Iterator[Content]:
    """Take what is read through `hashed` while the body runs, in its thread."""
    content, before = Content(), _current.get()
    _current.set(content)
    try:
        yield content
    finally:
        _current.set(before)  # `reset` would insist on the context, which generators outlive


def asked_for() -> bool:
    """Whether somebody takes what this thread reads."""
    return _current.get() is not None


def hashed(file: BinaryIO, *, in_order: bool = True) -> BinaryIO:
    """The same file, whose bytes are taken by `content_read`; itself where nobody asks.

    Args:
        file: open for reading.
        in_order: it is read from one place on; otherwise in any order, by one thread at a time.
    """
    content = _current.get()
    return file if content is None else cast(BinaryIO, _Hashed(file, content, in_order))


class _Hashed(io.RawIOBase):
    def __init__(self, file: BinaryIO, content: Content, in_order: bool) -> None:
        self._file, self._content, self._in_order = file, content, in_order

    def read(self, size: int = -1, /) -> bytes:
        at = 0 if self._in_order else self._file.tell()
        data = self._file.read(size)
        if self._in_order:
            self._content.add(data)
        else:
            self._content.add_part(at, data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()
