"""What this machine spooled, moved to the spool's store, and deleted once it has landed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.errors import LakeportError
from lakeport.model import Flush, Split
from lakeport.sources.spool.location import SpoolLocation

if TYPE_CHECKING:
    from lakeport.model import Batch

_THREADS = 4
_CHUNK = 1 << 20


class SpoolUploader:
    """Moves what this machine spooled to the spool's store, while more is being spooled.

    Without a store, everything stays where it is.
    """

    def __init__(self, spool: SpoolLocation) -> None:
        self._spool = spool
        self._executor = ThreadPoolExecutor(_THREADS, "lakeport-spool")
        self._uploads: dict[str, Future[Split]] = {}

    def begin(self, split: Split) -> None:
        """Begin to move a file that is complete."""
        if self._spool.storage is not None:
            self._uploads[split.uri] = self._executor.submit(self._upload_split, split)

    def flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """The same flushes, their batches' files moved.

        Raises:
            DestinationError: the store refuses.
        """
        try:
            for flush in source:
                yield replace(flush, batches=tuple(map(self._uploaded, flush.batches)))
        finally:
            self._executor.shutdown(cancel_futures=True)

    def discard(self, flush: Flush) -> None:
        """Delete the spooled files of a flush that has landed; fine if they are gone.

        On this machine only they have a sidecar: the others are the user's own.
        """
        storage = self._spool.storage
        for split in (split for batch in flush.batches for split in batch.splits):
            if storage is None and split.lines:
                for path in filter(None, (split.uri, split.lines, split.times)):
                    Path(path).unlink(missing_ok=True)
            elif storage is not None and split.storage == storage:
                with suppress(LakeportError):
                    for key in filter(None, (split.key, split.lines, split.times)):
                        storage.delete(key)

    def _uploaded(self, batch: Batch) -> Batch:
        if self._spool.storage is None:
            return batch
        for split in batch.splits:
            if split.storage is None and split.uri not in self._uploads:
                self.begin(split)
        splits = tuple(
            split if split.storage is not None else self._uploads.pop(split.uri).result()
            for split in batch.splits
        )
        return replace(batch, splits=splits)

    def _upload_split(self, split: Split) -> Split:
        storage = self._spool.storage
        if storage is None:
            raise TypeError("nothing moves without a store")
        names = (split.uri, split.lines, split.times)
        key, lines, times = (self._upload_file(Path(name)) for name in names)
        uri = storage.uri(key)
        return replace(split, uri=uri, key=key, lines=lines, times=times, storage=storage)

    def _upload_file(self, path: Path) -> str:
        if path == Path():
            return ""
        with path.open("rb") as source, self._spool.create(path.name) as target:
            shutil.copyfileobj(source, target, _CHUNK)
        path.unlink()
        return path.name
