"""The local disk as a storage: hard links make a staged file visible whole, under a free name only.

A staged file lies in `_lakeport/staging` below the root, so on the table's own file system. It is
published with `link(2)`, which fails if the name is taken, and it keeps its staging name until
`discard`: after a crash, a visible file with the same inode proves that it was ours. Where the file
system has no hard links, a reservation file guards a rename instead, and size, time of writing and
checksum are the proof.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lakeport.errors import ConfigError, DestinationError
from lakeport.model import Level, Staged, StoredObject
from lakeport.storage.checks import CheckItem
from lakeport.storage.failures import replaced
from lakeport.storage.local.check import check_folder
from lakeport.storage.local.disk import (
    Crc32,
    checksum_of,
    has_checksum,
    level,
    link_or_rename,
    make_folder,
    stored,
    sync_folder,
    translated,
    walk,
)

STAGING = "_lakeport/staging"
"""Folder of files that are not visible yet, and of what crashed runs left."""

PRIVATE = "_lakeport/quarantine"
"""Folder whose files hold records as they came: only their owner may read them."""

_WEEK = 7 * 24 * 3600


@dataclass(frozen=True)
class LocalStorage:
    """A folder of this machine; it and its parents are created when first written to.

    Attributes:
        root: path of the folder; made absolute.
    """

    root: str

    def __post_init__(self) -> None:
        if not self.root or "\0" in self.root:
            raise ConfigError(f"`path` is {self.root!r}", "name a folder of this machine.")
        object.__setattr__(self, "root", str(Path(self.root).expanduser().absolute()))

    def needs_unique_names(self) -> bool:
        """False: a link is never made over a name that is taken."""
        return False

    @property
    def can_rename_staged(self) -> bool:
        """True: a staged file can take any name."""
        return True

    @property
    def listed_at_once(self) -> int:
        """None: a listing reads the whole folder, and one file is looked up in no time."""
        return 0

    def uri(self, key: str = "") -> str:
        """Return the file's path."""
        return str(Path(self.root, key)) if key else self.root

    def hadoop_uri(self, key: str = "") -> str:
        """Return the `file://` URI as Hadoop's `Path` reads it: not percent-encoded."""
        return f"file://{self.uri(key)}"

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """None: Spark reaches every folder."""
        return {}

    def stage(self, key: str, content_type: str) -> LocalStageWriter:
        """Begin a file; the disk keeps no content type.

        Raises:
            DestinationError: the key leaves the root, or the disk refuses.
        """
        self._path(key)
        return LocalStageWriter(self, key, self._new_staging())

    def publish(self, staged: Staged, key: str) -> None:
        """Make a staged file visible; nothing happens if it is already, under that key.

        Raises:
            ObjectExists: another file has that name.
            DestinationError: the staged file is gone, or the disk refuses.
        """
        target, source = self._path(key), self._staged(staged)
        with translated("publish", self.uri(key)):
            make_folder(target.parent)
            try:
                link_or_rename(source, target)
            except FileExistsError:
                if not self.owned(staged, key):
                    raise
            sync_folder(target.parent)

    def discard(self, staged: Staged) -> None:
        """Drop the staging name; a published file stays visible. Never raises."""
        with contextlib.suppress(OSError, DestinationError):
            self._staged(staged).unlink()

    def marked(self, mark: str) -> LocalStorage:
        """The same: nothing here needs a mark."""
        return self

    def drop_strays(self, staged: Sequence[Staged]) -> None:
        """Nothing: `sweep` removes them."""

    def owned(self, staged: Staged, key: str) -> bool:
        """Tell whether the visible file is this staged one.

        Raises:
            DestinationError: the key leaves the root, or the disk refuses.
        """
        target, source = self._path(key), self._staged(staged)
        with translated("look at", self.uri(key)):
            if not target.is_file():
                return False
            if source.exists():
                return target.samefile(source)
            found = target.stat()
            if (found.st_size, found.st_mtime_ns) != (staged.bytes, staged.token.get("written")):
                return False
            return has_checksum(target, staged.checksum)

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small file whole, and durably.

        Raises:
            ObjectExists: `create_only`, and something has that name.
            DestinationError: the key leaves the root, or the disk refuses.
        """
        target, source = self._path(key), self._new_staging()
        private = key.startswith(f"{PRIVATE}/")
        with translated("write", self.uri(key)):
            try:
                with source.open("xb") as file:
                    if private:
                        os.fchmod(file.fileno(), 0o600)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                make_folder(target.parent, private=private)
                if create_only:
                    link_or_rename(source, target)
                else:
                    source.replace(target)
                sync_folder(target.parent)
            finally:
                source.unlink(missing_ok=True)

    def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Replace a file's content; see `model.Storage`.

        Raises:
            DestinationError: it is gone or another one, or the disk refuses.
        """
        path = self._existing(key)
        with translated("read", self.uri(key)):
            before = stored(key, path.stat())
            data = change(path.read_bytes())
            if stored(key, path.stat()) != before:
                raise replaced(self.uri(key))
        self.put(key, data)

    def get(self, key: str) -> bytes | None:
        """Read one small file; None when there is none.

        Raises:
            DestinationError: the key leaves the root, or the disk refuses.
        """
        with translated("read", self.uri(key)):
            try:
                return self._existing(key).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading.

        Raises:
            DestinationError: there is none, the key leaves the root, or the disk refuses.
        """
        with translated("read", self.uri(key)):
            return self._existing(key).open("rb")

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Files at or below `prefix` and behind `after`, sorted; symbolic links are left out.

        Raises:
            DestinationError: the prefix leaves the root, or the disk refuses.
        """
        start = self._path(prefix) if prefix else Path(self.root)
        with translated("list", self.uri(prefix)):
            if start.is_file() and not start.is_symlink():
                if prefix > after:
                    yield stored(prefix, start.stat())
            elif start.is_dir():
                yield from walk(str(start), f"{prefix}/" if prefix else "", after)

    def level(self, prefix: str) -> Level:
        """What lies right in the folder `prefix`; symbolic links are left out.

        Raises:
            DestinationError: the prefix leaves the root, or the disk refuses.
        """
        start = self._path(prefix) if prefix else Path(self.root)
        with translated("list", self.uri(prefix)):
            return level(str(start), f"{prefix}/" if prefix else "")

    def delete(self, key: str) -> None:
        """Remove a file; fine if there is none.

        Raises:
            DestinationError: the key leaves the root, or the disk refuses.
        """
        with translated("delete", self.uri(key)):
            self._path(key).unlink(missing_ok=True)

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs; what tables need of a disk is the same."""
        return check_folder(self)

    def shorten_deadline(self) -> None:
        """Nothing: a disk answers, or fails for good."""

    def sweep(self, older_than_seconds: float = _WEEK) -> int:
        """Remove what crashed runs left in the staging folder; return the number of files.

        Published files are safe: only their staging name goes. A run that is still to be repeated
        with its `run_id` after that time stages its batch again.

        Raises:
            DestinationError: the disk refuses.
        """
        removed = 0
        oldest = time.time() - older_than_seconds
        with translated("sweep", self.uri(STAGING)):
            for path in sorted(Path(self.root, STAGING).glob("*")):
                with contextlib.suppress(FileNotFoundError):
                    if path.lstat().st_mtime < oldest:
                        path.unlink()
                        removed += 1
        return removed

    def _path(self, key: str) -> Path:
        segments = key.split("/")
        if "\0" in key or not _encodable(key) or any(p in ("", ".", "..") for p in segments):
            raise DestinationError(
                f"the key {key!r} does not name a file below {self.root}",
                "use folder names separated by `/`.",
            )
        path = Path(self.root, *segments)
        self._inside(path.parent, key)
        return path

    def _existing(self, key: str) -> Path:
        path = self._path(key)
        self._inside(path, key)
        return path

    def _inside(self, path: Path, key: str) -> None:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root)):
            raise DestinationError(
                f"the key {key!r} leaves {self.root} through a symbolic link",
                "remove the link, or make its target the destination's `path`.",
            )

    def _staged(self, staged: Staged) -> Path:
        return self._path(f"{STAGING}/{staged.token['name']}")

    def _new_staging(self) -> Path:
        path = self._path(f"{STAGING}/{secrets.token_hex(16)}")
        with translated("create", self.uri(STAGING)):
            make_folder(path.parent)
        return path


class LocalStageWriter:
    """A file below the staging folder while it is written. Implements `model.StageWriter`."""

    def __init__(self, storage: LocalStorage, key: str, path: Path) -> None:
        self._uri = storage.uri(key)
        self._path = path
        self._bytes = 0
        self._crc = Crc32()
        with translated("stage", self._uri):
            self._file = path.open("xb", buffering=1 << 20)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes.

        Raises:
            DestinationError: the disk is full or refuses.
        """
        with translated("stage", self._uri):
            written = self._file.write(data)
        self._crc.update(data)
        self._bytes += written
        return written

    def finish(self) -> Mapping[str, Any]:
        """Make the bytes durable; return `token`, `bytes` and `checksum`.

        Raises:
            DestinationError: the disk is full or refuses.
        """
        with translated("stage", self._uri):
            self._file.flush()
            os.fsync(self._file.fileno())
            written = os.fstat(self._file.fileno()).st_mtime_ns
            self._file.close()
            sync_folder(self._path.parent)
        return {
            "token": {"name": self._path.name, "written": written},
            "bytes": self._bytes,
            "checksum": checksum_of(self._crc),
        }

    def abort(self) -> None:
        """Drop what was written. Never raises."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._file.close()


def _encodable(key: str) -> bool:
    try:
        os.fsencode(key)
    except UnicodeEncodeError:
        return False
    return True
