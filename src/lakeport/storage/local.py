"""Storage on the local disk."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import secrets
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    ObjectExists,
    PermissionRefused,
)
from lakeport.model import Level, Staged, Storage, StoredObject
from lakeport.storage.checks import CheckItem, item_of
from lakeport.storage.retry import replaced

_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_HINTS: Mapping[int, str] = {
    **dict.fromkeys(_REFUSED, "give this user write access, or choose another `path`."),
    errno.ENOSPC: "free space on that disk, or choose another `path`.",
    errno.EDQUOT: "free space on that disk, or choose another `path`.",
    errno.EFBIG: "raise the limit (`ulimit -f`), or lower `target_file_size_mb`.",
    errno.ENAMETOOLONG: "shorten `object_key_path`, `table` or the stream's name.",
    errno.ENOTDIR: "a file stands where a folder is needed: move it away.",
}

STAGING = "_lakeport/staging"
"""Folder of files that are not visible yet, and of what crashed runs left."""

PRIVATE = "_lakeport/quarantine"
"""Folder whose files hold records as they came: only their owner may read them."""

_WEEK = 7 * 24 * 3600


@contextlib.contextmanager
def translated(action: str, uri: str) -> Iterator[None]:
    """Turn an `OSError` of the block into a `DestinationError` that names the file."""
    try:
        yield
    except OSError as error:
        raise _failure(action, uri, error) from error


def _failure(action: str, uri: str, error: OSError) -> DestinationError:
    if isinstance(error, FileExistsError):
        return ObjectExists(f"{uri} exists already", "a create-only write takes the next name.")
    what = f"can't {action} {uri}: {error.strerror or type(error).__name__}"
    kind = PermissionRefused if error.errno in _REFUSED else DestinationError
    hint = _HINTS.get(error.errno or 0, "check the folder, its disk and your rights there.")
    return kind(what, hint)


def _entries(folder: str) -> list[tuple[str, os.DirEntry[str]]]:
    """What lies in a folder, by name; the names of folders end with a slash."""
    with os.scandir(folder) as entries:
        return sorted(
            (entry.name + "/" * entry.is_dir(follow_symlinks=False), entry) for entry in entries
        )


def _walk(folder: str, prefix: str, after: str) -> Iterator[StoredObject]:
    """Files below a folder and behind `after`, in the order of their keys; links are left out."""
    for name, entry in _entries(folder):
        with contextlib.suppress(FileNotFoundError):
            if name.endswith("/"):
                yield from _walk(entry.path, prefix + name, after)
            elif prefix + name > after and entry.is_file(follow_symlinks=False):
                yield stored(prefix + name, entry.stat(follow_symlinks=False))


def stored(key: str, found: os.stat_result) -> StoredObject:
    """Describe a file; its etag changes with the content."""
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return StoredObject(key, found.st_size, etag, found.st_mtime)


class Crc32:
    """A CRC32 in the manner of `hashlib`'s digests; an MD5 takes eight times as long."""

    name = "crc32"

    def __init__(self) -> None:
        self._crc = 0

    def update(self, data: bytes | memoryview, /) -> None:
        """Take bytes."""
        self._crc = zlib.crc32(data, self._crc)

    def digest(self) -> bytes:
        """The checksum of all bytes so far."""
        return self._crc.to_bytes(4, "big")


def checksum_of(digest: Any) -> str:
    """Return a digest as `model.Staged` has it."""
    return f"{digest.name}:{base64.b64encode(digest.digest()).decode()}"


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file's content has a checksum that `model.Staged` has."""
    digest: Any = Crc32
    with path.open("rb") as file:
        return checksum_of(hashlib.file_digest(file, digest)) == checksum


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Create a folder and its parents, durably.

    Args:
        folder: the folder.
        private: nobody but this user may open it; its parents are as others are.

    Raises:
        NotADirectoryError: a file stands in the way.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(0o700 if private else 0o777, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    sync_folder(folder.parent)


def link_or_rename(source: Path, target: Path) -> None:
    """Give a file a second name that nothing has; without hard links, rename it.

    Raises:
        FileExistsError: something has that name.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _reserve_and_rename(source, target)


def _reserve_and_rename(source: Path, target: Path) -> None:
    """Publish without hard links: whoever creates the reservation may rename.

    A crash leaves at worst a stale reservation: that name counts as taken until the sweep.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(target))).hexdigest()
    reservation = source.parent / f"{name}.reserved"
    os.close(os.open(reservation, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        source.replace(target)
    finally:
        reservation.unlink(missing_ok=True)


@dataclass(frozen=True)
class LocalStorage(Storage):
    """A folder of this machine; it and its parents are created when first written to.

    A key that leaves the root is a `DestinationError`, as is what the disk refuses.

    Attributes:
        root: path of the folder; made absolute.
    """

    root: str

    def __post_init__(self) -> None:
        if not self.root or "\0" in self.root:
            raise ConfigError(f"`path` is {self.root!r}", "name a folder of this machine.")
        object.__setattr__(self, "root", str(Path(self.root).expanduser().absolute()))

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

    def stage(self, key: str, content_type: str) -> LocalStageWriter:
        """Begin a file; the disk keeps no content type."""
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

    def owned(self, staged: Staged, key: str) -> bool:
        """Tell whether the visible file is this staged one."""
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
        """Read one small file; None when there is none."""
        with translated("read", self.uri(key)):
            try:
                return self._existing(key).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading."""
        with translated("read", self.uri(key)):
            return self._existing(key).open("rb")

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Files at or below `prefix` and behind `after`, sorted; symbolic links are left out."""
        start = self._path(prefix) if prefix else Path(self.root)
        with translated("list", self.uri(prefix)):
            if start.is_file() and not start.is_symlink():
                if prefix > after:
                    yield stored(prefix, start.stat())
            elif start.is_dir():
                yield from _walk(str(start), f"{prefix}/" if prefix else "", after)

    def level(self, prefix: str) -> Level:
        """What lies right in the folder `prefix`; symbolic links are left out."""
        start = self._path(prefix) if prefix else Path(self.root)
        folders, files = [], []
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with translated("list", self.uri(prefix)), absent:
            for name, entry in _entries(str(start)):
                if name.endswith("/"):
                    folders.append(name[:-1])
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        files.append(stored(f"{prefix}/{name}".lstrip("/"), found))
        return Level(tuple(sorted(folders)), tuple(files))

    def delete(self, key: str) -> None:
        """Remove a file; fine if there is none."""
        with translated("delete", self.uri(key)):
            self._path(key).unlink(missing_ok=True)

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try writing and create-only, one item each; tables need no more of a disk."""
        key = f"_lakeport/check-{uuid.uuid4().hex}"

        def write() -> str:
            self.put(key, b"", create_only=True)
            return f"{self.uri()} can be written to"

        def refuse() -> str:
            try:
                self.put(key, b"", create_only=True)
            except ObjectExists:
                return "nothing is overwritten"
            finally:
                self.delete(key)
            raise LakeportError(f"{self.uri()} let a file be overwritten", "use another folder.")

        found = item_of("write", write)
        yield found
        if found.status == "ok":
            yield item_of("conditional writes", refuse)

    def sweep(self, older_than_seconds: float = _WEEK) -> int:
        """Remove what crashed runs left in the staging folder; return the number of files.

        Published files are safe: only their staging name goes. A run that is still to be repeated
        with its `run_id` after that time stages its batch again."""
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
        """Append bytes."""
        with translated("stage", self._uri):
            written = self._file.write(data)
        self._crc.update(data)
        self._bytes += written
        return written

    def finish(self) -> Mapping[str, Any]:
        """Make the bytes durable; return `token`, `bytes` and `checksum`."""
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
