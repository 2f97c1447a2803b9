"""The run's spool: made, moved to where every task sees it, and removed."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.errors import ConfigError, LakeportError
from lakeport.host.scratch import scratch
from lakeport.model import Flush, Split
from lakeport.sources.spool.location import Place

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.model import Batch, Storage
    from lakeport.spark.session import Runtime

__all__ = ["Mover", "spooling"]

_THREADS = 4
_CHUNK = 1 << 20


@contextmanager
def spooling(config: DestinationConfig, runtime: Runtime) -> Iterator[Place]:
    """A spool for one run, which is gone afterwards.

    Args:
        config: its `spool_dir`, `spool_uri` and credentials.
        runtime: on a local master, `spool_uri` is not needed and not used.

    Raises:
        ConfigError: `spool_uri` names neither a folder nor a store, or can't be used.
    """
    mount, storage = (None, None) if runtime.is_local else _shared(config)
    folder = config.spool_dir if mount is None else str(mount)
    with scratch(parent=folder) as path:
        try:
            yield Place(path, storage, runtime.is_local, mount)
        finally:
            if storage is not None:
                _remove(storage)


def _shared(config: DestinationConfig) -> tuple[Path | None, Storage | None]:
    """The mounted folder or the store that `spool_uri` names, if it is set."""
    uri = config.spool_uri
    if uri is None:
        return None, None
    scheme, mark, path = uri.partition("://")
    if not mark or scheme == "file":
        folder = Path(path if mark else uri).absolute()
        if not folder.is_dir():
            raise ConfigError(
                f"`spool_uri` is {uri!r}, and there is no such folder",
                "name one that this machine and every worker mount under the same path, or a "
                "prefix in a store, such as s3://bucket/spool.",
            )
        return folder, None
    from lakeport.sources.remote import storage_of

    return None, storage_of(config, f"{uri.rstrip('/')}/lakeport-{secrets.token_hex(8)}")


def _remove(storage: Storage) -> None:
    """Empty a store's spool; what can't be removed is left to the store's lifecycle rule."""
    with suppress(LakeportError), ThreadPoolExecutor(_THREADS, "lakeport-spool") as executor:
        for done in [executor.submit(storage.delete, found.key) for found in storage.list("")]:
            done.result()


class Mover:
    """Moves what this machine spooled to the place's store, while more is being spooled.

    Without a store, everything stays where it is.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._executor = ThreadPoolExecutor(_THREADS, "lakeport-spool")
        self._moving: dict[str, Future[Split]] = {}

    def begin(self, split: Split) -> None:
        """Begin to move a file that is complete."""
        if self._place.storage is not None:
            self._moving[split.uri] = self._executor.submit(self._move, split)

    def flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """The same flushes, their batches' files moved.

        Raises:
            DestinationError: the store refuses.
        """
        try:
            for flush in source:
                yield replace(flush, batches=tuple(map(self._moved, flush.batches)))
        finally:
            self._executor.shutdown(cancel_futures=True)

    def discard(self, flush: Flush) -> None:
        """Delete the spooled files of a flush that has landed; fine if they are gone.

        On this machine only they have a sidecar: the others are the user's own.
        """
        storage = self._place.storage
        for split in (split for batch in flush.batches for split in batch.splits):
            if storage is None and split.lines:
                for path in filter(None, (split.uri, split.lines, split.times)):
                    Path(path).unlink(missing_ok=True)
            elif storage is not None and split.storage == storage:
                with suppress(LakeportError):
                    for key in filter(None, (split.key, split.lines, split.times)):
                        storage.delete(key)

    def _moved(self, batch: Batch) -> Batch:
        if self._place.storage is None:
            return batch
        for split in batch.splits:
            if split.storage is None and split.uri not in self._moving:
                self.begin(split)
        splits = tuple(
            split if split.storage is not None else self._moving.pop(split.uri).result()
            for split in batch.splits
        )
        return replace(batch, splits=splits)

    def _move(self, split: Split) -> Split:
        storage = self._place.storage
        if storage is None:
            raise TypeError("nothing moves without a store")
        names = (split.uri, split.lines, split.times)
        key, lines, times = (self._upload(Path(name)) for name in names)
        uri = storage.uri(key)
        return replace(split, uri=uri, key=key, lines=lines, times=times, storage=storage)

    def _upload(self, path: Path) -> str:
        if path == Path():
            return ""
        with path.open("rb") as source, self._place.create(path.name) as target:
            shutil.copyfileobj(source, target, _CHUNK)
        path.unlink()
        return path.name
