"""Where what is spooled lies, so that every task can read it: a folder, or a store's prefix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from lakeport.model import Staged

if TYPE_CHECKING:
    from lakeport.model import Storage

__all__ = ["Place", "open_new"]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A spool. Picklable, because tasks write to it, too.

    Attributes:
        folder: an empty private folder: the spool itself, or what the driver needs before it
            moves it to `storage`.
        storage: the store that tasks read from; None where they read `folder`.
        local: whether tasks run on this machine and read its files where they are.
        mount: the shared folder, which tasks read in place on a cluster; None for none.
    """

    folder: Path
    storage: Storage | None = None
    local: bool = True
    mount: Path | None = None

    def reaches(self, uri: str, storage: Storage | None) -> bool:
        """Whether tasks can read ranges of a file where it is: in a store, or at a local path."""
        if storage is not None:
            return self.storage is not None
        return self.local or (self.mount is not None and Path(uri).is_relative_to(self.mount))

    def new(self, number: int, name: str) -> str:
        """Return a new key, or local path; a task that runs again gets another one."""
        unique = f"{number:06d}-{secrets.token_hex(4)}-{name}"
        return unique if self.storage is not None else str(self.folder / unique)

    @contextmanager
    def create(self, at: str) -> Iterator[BinaryIO]:
        """Write a file that `new` named; it is there whole once the body has ended.

        Raises:
            DestinationError: the store refuses.
        """
        if self.storage is None:
            with open_new(Path(at)) as file:
                yield file
            return
        writer = self.storage.stage(at, "application/octet-stream", {})
        try:
            yield cast(BinaryIO, writer)
            done = writer.finish()
        except BaseException:
            writer.abort()
            raise
        self.storage.publish(Staged(at, done["token"], 0, int(done["bytes"])), at)


def open_new(path: Path) -> BinaryIO:
    """Create a file that only this user can read; never follows a link, never overwrites."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK)
