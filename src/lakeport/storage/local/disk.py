"""File operations behind `LocalStorage`: durable names, create-only links, errors in our words."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused
from lakeport.model import Level, StoredObject

_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


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
    if error.errno in _REFUSED:
        return PermissionRefused(what, "give this user write access, or choose another `path`.")
    if error.errno in _FULL:
        return DestinationError(what, "free space on that disk, or choose another `path`.")
    if error.errno == errno.EFBIG:
        hint = "raise the limit (`ulimit -f`), or lower `target_file_size_mb`."
        return DestinationError(what, hint)
    if error.errno == errno.ENAMETOOLONG:
        return DestinationError(what, "shorten `object_key_path`, `table` or the stream's name.")
    if error.errno == errno.ENOTDIR:
        return DestinationError(what, "a file stands where a folder is needed: move it away.")
    return DestinationError(what, "check the folder, its disk and your rights there.")


def walk(folder: str, prefix: str, after: str) -> Iterator[StoredObject]:
    """Files below a folder and behind `after`, in the order of their keys; links are left out."""
    with os.scandir(folder) as entries:
        found = sorted(
            (entry.name + "/" * entry.is_dir(follow_symlinks=False), entry) for entry in entries
        )
    for name, entry in found:
        if name.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                yield from walk(entry.path, prefix + name, after)
        elif prefix + name > after and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                yield stored(prefix + name, entry.stat(follow_symlinks=False))


def level(folder: str, prefix: str) -> Level:
    """Folders and files right in a folder, none where that is no folder; links are left out."""
    folders, files = list[str](), list[StoredObject]()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    files.append(stored(prefix + entry.name, found))
    return Level(tuple(folders), tuple(files))


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


# What runs of earlier versions staged. FIPS builds of OpenSSL allow it for finding damage.
_EARLIER: Mapping[str, Callable[[], Any]] = {"md5": partial(hashlib.md5, usedforsecurity=False)}


def checksum_of(digest: Any) -> str:
    """Return a digest as `model.Staged` has it."""
    return f"{digest.name}:{base64.b64encode(digest.digest()).decode()}"


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file's content has a checksum that `model.Staged` has."""
    digest = _EARLIER.get(checksum.partition(":")[0], Crc32)
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
