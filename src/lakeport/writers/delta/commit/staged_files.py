"""A batch's data files become visible right before their commit, and go again if it is not made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from lakeport.errors import LakeportError, OutcomeUnknown
from lakeport.model import Staged, Storage
from lakeport.writers.delta.log.commits import CommitLog

_PUBLISHERS = 8


class StagedFiles:
    """Makes a batch's files visible, once.

    Args:
        storage: where the files are staged.
        staged: the files.
        log: the log of the table that they are for; None for files that no table will name.
    """

    def __init__(
        self, storage: Storage, staged: Sequence[Staged], log: CommitLog | None = None
    ) -> None:
        self._storage = storage
        self._staged = staged
        self._log = log
        self._read: int | None = None
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

    @contextmanager
    def committing(self, read: int) -> Iterator[None]:
        """Keep the files while a commit is tried, and after it unless its outcome is known.

        Args:
            read: the version that the commit is to follow.
        """
        self._read = read if self._read is None else min(read, self._read)
        self._kept = True
        try:
            yield
        except OutcomeUnknown:
            raise
        except LakeportError:
            self._kept = False
            raise
        self._kept = False

    def close(self) -> None:
        """Drop what was staged, and what is visible unless that is kept. Never raises.

        No file goes before the table's log was read and is found not to name it.
        """
        going = () if self._kept or self._named() else tuple(self._visible)
        for key in going:
            with suppress(LakeportError):
                self._storage.delete(key)
        for item in self._staged:
            self._storage.discard(item)

    def _named(self) -> bool:
        """Whether the table's log may name one of the visible files."""
        if not self._visible or self._log is None:
            return False
        try:
            return self._read is None or self._log.adds_any(self._visible, self._read)
        except LakeportError:
            return True

    def _publish(self, item: Staged) -> None:
        self._visible.add(item.key)
        self._storage.publish(item, item.key)


@contextmanager
def published(
    storage: Storage, staged: Sequence[Staged], log: CommitLog | None = None
) -> Iterator[StagedFiles]:
    """Files that stay visible only if the body says so; see `StagedFiles`."""
    files = StagedFiles(storage, staged, log)
    try:
        yield files
    finally:
        files.close()
