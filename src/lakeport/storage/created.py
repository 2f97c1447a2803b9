"""Write an object of any size whole."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakeport.model import Staged

if TYPE_CHECKING:
    from lakeport.model import StageWriter, Storage


@contextmanager
def created(storage: Storage, key: str) -> Iterator[BinaryIO]:
    """Write a new object, which is there whole once the body has ended, and not at all otherwise.

    Raises:
        ObjectExists: something has that name.
        DestinationError: the store refuses.
    """
    writer = storage.stage(key, "application/octet-stream")
    try:
        yield cast(BinaryIO, _Written(writer))
        done = writer.finish()
    except BaseException:
        writer.abort()
        raise
    staged = Staged(key, done["token"], 0, int(done["bytes"]))
    storage.publish(staged, key)
    storage.discard(staged)


class _Written(io.RawIOBase):
    """A stage writer as a file."""

    def __init__(self, writer: StageWriter) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._writer.write(data)
