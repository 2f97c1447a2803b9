"""Where what is spooled lies, so that every task can read it: a folder, or a store's prefix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import ConfigError, LakeportError
from lakeport.host.scratch import scratch
from lakeport.storage.base import created

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.model import Storage

_CHUNK = 1 << 20
_THREADS = 4


@dataclass(frozen=True, slots=True)
class SpoolLocation:
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
        with created(self.storage, at) as file:
            yield file


def number_of(at: str) -> int:
    """The number that `SpoolLocation.new` took for a key, a path, or a URI of it.

    >>> number_of("/spool/000012-9f3c01ab-a.csv")
    12
    """
    return int(PurePosixPath(at).name.partition("-")[0])


def open_new(path: Path) -> BinaryIO:
    """Create a file that only this user can read; never follows a link, never overwrites."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK)


@contextmanager
def open_spool(config: DestinationConfig, engine: Engine) -> Iterator[SpoolLocation]:
    """A spool for one run, which is gone afterwards.

    Args:
        config: its `spool_dir`, `spool_uri` and credentials.
        engine: where its tasks run on this machine, `spool_uri` is not needed and not used.

    Raises:
        ConfigError: `spool_uri` names neither a folder nor a store, or can't be used.
    """
    mount, storage = (None, None) if engine.is_local else _shared(config)
    folder = config.spool_dir if mount is None else str(mount)
    with scratch(parent=folder) as path:
        try:
            yield SpoolLocation(path, storage, engine.is_local, mount)
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
