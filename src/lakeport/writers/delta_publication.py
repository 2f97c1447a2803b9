"""A batch's data files become visible right before their commit, and go again if it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from lakeport.errors import LakeportError
from lakeport.model import Staged, Storage

__all__ = ["Publication", "published"]

_PUBLISHERS = 8


class Publication:
    """Makes a batch's files visible, once."""

    def __init__(self, storage: Storage, staged: Sequence[Staged]) -> None:
        self._storage = storage
        self._staged = staged
        self._visible: set[str] = set()
        self._kept = False

    def publish(self) -> None:
        """Make every file visible under the key that it was staged for.

        Raises:
            DestinationError: the store refused.
        """
        waiting = [item for item in self._staged if item.key not in self._visible]
        with ThreadPoolExecutor(_PUBLISHERS) as pool:
            list(pool.map(self._publish, waiting))

    def keep(self) -> None:
        """Leave the visible files where they are."""
        self._kept = True

    def close(self) -> None:
        """Drop what was staged, and what is visible unless that is kept. Never raises."""
        for item in self._staged:
            if item.key in self._visible and not self._kept:
                with suppress(LakeportError):
                    self._storage.delete(item.key)
            self._storage.discard(item)

    def _publish(self, item: Staged) -> None:
        self._visible.add(item.key)
        self._storage.publish(item, item.key)


@contextmanager
def published(storage: Storage, staged: Sequence[Staged]) -> Iterator[Publication]:
    """Files that stay visible only if the body says so with `keep`."""
    files = Publication(storage, staged)
    try:
        yield files
    finally:
        files.close()
