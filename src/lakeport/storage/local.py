"""Storage in a folder of the local disk."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import secrets
import shutil
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
from lakeport.model import CheckItem, FolderEntries, Staged, Storage, StoredObject
from lakeport.storage.checks import run_check
from lakeport.storage.retry import replaced_error

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
"""Folder of staged files that are not visible yet, and of those that crashed runs left."""

PRIVATE = "_lakeport/quarantine"
"""Folder of quarantined records: only the owner of its files may read them."""

_WEEK = 7 * 24 * 3600
_BLOCK = 1 << 20


@contextlib.contextmanager
def translate_os_errors(action: str, uri: str) -> Iterator[None]:
    """Context manager that turns an OSError of its body into a DestinationError about `uri`."""
    try:
        yield
    except OSError as error:
        raise _describe_os_error(action, uri, error) from error


def _describe_os_error(action: str, uri: str, error: OSError) -> DestinationError:
    """Return the error for an `OSError`: ObjectExists, PermissionRefused or DestinationError."""
    if isinstance(error, FileExistsError):
        return ObjectExists(f"{uri} exists already", "a create-only write takes the next name.")
    what = f"can't {action} {uri}: {error.strerror or type(error).__name__}"
    kind = PermissionRefused if error.errno in _REFUSED else DestinationError
    hint = _HINTS.get(error.errno or 0, "check the folder, its disk and your rights there.")
    return kind(what, hint)


def _scan_folder(folder: str) -> list[tuple[str, os.DirEntry[str]]]:
    """List a folder as sorted (name, entry) pairs; names of subfolders end with a slash."""
    with os.scandir(folder) as entries:
        return sorted(
            (entry.name + "/" * entry.is_dir(follow_symlinks=False), entry) for entry in entries
        )


def _walk_files(folder: str, prefix: str, after: str) -> Iterator[StoredObject]:
    """Yield the files below a folder, sorted, with keys greater than `after`; no symbolic links."""
    for name, entry in _scan_folder(folder):
        with contextlib.suppress(FileNotFoundError):
            if name.endswith("/"):
                yield from _walk_files(entry.path, prefix + name, after)
            elif prefix + name > after and entry.is_file(follow_symlinks=False):
                yield describe_file(prefix + name, entry.stat(follow_symlinks=False))


def describe_file(key: str, found: os.stat_result) -> StoredObject:
    """Return size, time and etag of a file; the etag changes with the content."""
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return StoredObject(key, found.st_size, etag, found.st_mtime)


def _format_crc32(crc: int) -> str:
    """Format a CRC32 (an MD5 takes eight times as long) for `model.Staged.checksum`."""
    return f"crc32:{base64.b64encode(crc.to_bytes(4, 'big')).decode()}"


def _has_checksum(path: Path, checksum: str) -> bool:
    """Read a whole file; return whether its CRC32, formatted as `crc32:<base64>`, is `checksum`."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return _format_crc32(crc) == checksum


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that its entries survive a crash; do nothing where that is unsupported."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Create a folder and its parents, durably; raise NotADirectoryError if a file is in the way.

    Only this user may open a `private` folder; parents that are created get the default rights.
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
    """Hard-link a file to a new name, or rename it where links fail; FileExistsError if taken."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _reserve_and_rename(source, target)


def _reserve_and_rename(source: Path, target: Path) -> None:
    """Rename a file while a lock file reserves the name; raise FileExistsError if it is taken.

    After a crash a stale reservation may remain: the name counts as taken until `sweep`.
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
    """Storage of the files below a local folder, which the first write creates.

    Methods raise DestinationError for a key that leaves the root, and for what the disk refuses.

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
    def listing_page_size(self) -> int:
        """0: a listing reads the whole folder, and one file is found without a listing."""
        return 0

    def uri(self, key: str = "") -> str:
        """Return the file's path."""
        return str(Path(self.root, key)) if key else self.root

    def hadoop_uri(self, key: str = "") -> str:
        """Return the `file://` URI as Hadoop's `Path` reads it: not percent-encoded."""
        return f"file://{self.uri(key)}"

    def stage(self, key: str, content_type: str) -> LocalStageWriter:
        """Return a writer of a staged file; the disk keeps no content type."""
        self._path(key)
        return LocalStageWriter(self, key, self._new_staging_path())

    def publish(self, staged: Staged, key: str) -> None:
        """Link a staged file to its key, if not done yet; ObjectExists if another file is there."""
        target, source = self._path(key), self._staged_path(staged)
        with translate_os_errors("publish", self.uri(key)):
            make_folder(target.parent)
            try:
                link_or_rename(source, target)
            except FileExistsError:
                if not self.is_published(staged, key):
                    raise
            sync_folder(target.parent)

    def discard(self, staged: Staged) -> None:
        """Remove the staging name; a published file stays visible. Never raises."""
        with contextlib.suppress(OSError, DestinationError):
            self._staged_path(staged).unlink()

    def is_published(self, staged: Staged, key: str) -> bool:
        """Whether the file `key` is the staged one: same inode, or same size, time and CRC32."""
        target, source = self._path(key), self._staged_path(staged)
        with translate_os_errors("look at", self.uri(key)):
            if not target.is_file():
                return False
            if source.exists():
                return target.samefile(source)
            found = target.stat()
            if (found.st_size, found.st_mtime_ns) != (staged.bytes, staged.token.get("written")):
                return False
            return _has_checksum(target, staged.checksum)

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write a file atomically with fsync; with `create_only` raise ObjectExists if taken."""
        target, source = self._path(key), self._new_staging_path()
        private = key.startswith(f"{PRIVATE}/")
        with translate_os_errors("write", self.uri(key)):
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
        """Replace a file's content by `change(content)`; raise if it changed in the meantime."""
        path = self._existing_path(key)
        with translate_os_errors("read", self.uri(key)):
            before = describe_file(key, path.stat())
            data = change(path.read_bytes())
            if describe_file(key, path.stat()) != before:
                raise replaced_error(self.uri(key))
        self.put(key, data)

    def get(self, key: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        with translate_os_errors("read", self.uri(key)):
            try:
                return self._existing_path(key).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading."""
        with translate_os_errors("read", self.uri(key)):
            return self._existing_path(key).open("rb")

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Yield files at and below `prefix`, sorted, if their key is above `after`; no symlinks."""
        start = self._path(prefix) if prefix else Path(self.root)
        with translate_os_errors("list", self.uri(prefix)):
            if start.is_file() and not start.is_symlink():
                if prefix > after:
                    yield describe_file(prefix, start.stat())
            elif start.is_dir():
                yield from _walk_files(str(start), f"{prefix}/" if prefix else "", after)

    def list_folder(self, prefix: str) -> FolderEntries:
        """Return the direct subfolders and files of a folder, without symbolic links.

        Nothing if there is no such folder.
        """
        start = self._path(prefix) if prefix else Path(self.root)
        folders, files = [], []
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with translate_os_errors("list", self.uri(prefix)), absent:
            for name, entry in _scan_folder(str(start)):
                if name.endswith("/"):
                    folders.append(name[:-1])
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        files.append(describe_file(f"{prefix}/{name}".lstrip("/"), found))
        return FolderEntries(tuple(sorted(folders)), tuple(files))

    def delete(self, key: str) -> None:
        """Remove a file; fine if there is none."""
        with translate_os_errors("delete", self.uri(key)):
            self._path(key).unlink(missing_ok=True)

    def move_folder(self, source: str, target: str) -> None:
        """Rename a folder; ObjectExists if something has the new name."""
        start, end = self._path(source), self._path(target)
        with translate_os_errors("move", self.uri(source)):
            make_folder(end.parent)
            if os.path.lexists(end):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(end))
            start.rename(end)
            sync_folder(start.parent)
            sync_folder(end.parent)

    def delete_folder(self, key: str) -> None:
        """Delete a folder with all that it holds."""
        with translate_os_errors("delete", self.uri(key)):
            shutil.rmtree(self._path(key))

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Write and delete a probe file; yield items for writes and for create-only writes."""
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

        found = run_check("write", write)
        yield found
        if found.status == "ok":
            yield run_check("conditional writes", refuse)

    def sweep(self, older_than_seconds: float = _WEEK) -> int:
        """Delete staging files older than the given age, a week by default; return their number.

        Published files stay: only their staging name goes. A run that is repeated with its `run_id`
        after that time stages its batch again.
        """
        removed = 0
        oldest = time.time() - older_than_seconds
        with translate_os_errors("sweep", self.uri(STAGING)):
            for path in sorted(Path(self.root, STAGING).glob("*")):
                with contextlib.suppress(FileNotFoundError):
                    if path.lstat().st_mtime < oldest:
                        path.unlink()
                        removed += 1
        return removed

    def _path(self, key: str) -> Path:
        """Return a key's path; raise DestinationError if it is invalid or leads out of the root."""
        segments = key.split("/")
        if "\0" in key or not _is_encodable(key) or any(p in ("", ".", "..") for p in segments):
            raise DestinationError(
                f"the key {key!r} does not name a file below {self.root}",
                "use folder names separated by `/`.",
            )
        path = Path(self.root, *segments)
        self._check_inside(path.parent, key)
        return path

    def _existing_path(self, key: str) -> Path:
        """Return a key's path; raise DestinationError also if the file links out of the root."""
        path = self._path(key)
        self._check_inside(path, key)
        return path

    def _check_inside(self, path: Path, key: str) -> None:
        """Raise DestinationError unless a path, with symbolic links resolved, is below the root."""
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root)):
            raise DestinationError(
                f"the key {key!r} leaves {self.root} through a symbolic link",
                "remove the link, or make its target the destination's `path`.",
            )

    def _staged_path(self, staged: Staged) -> Path:
        """Return the path of a staged file."""
        return self._path(f"{STAGING}/{staged.token['name']}")

    def _new_staging_path(self) -> Path:
        """Return a random path in the staging folder; create the folder if it is missing."""
        path = self._path(f"{STAGING}/{secrets.token_hex(16)}")
        with translate_os_errors("create", self.uri(STAGING)):
            make_folder(path.parent)
        return path


class LocalStageWriter:
    """Writes a file in the staging folder. Implements `model.StageWriter`."""

    def __init__(self, storage: LocalStorage, key: str, path: Path) -> None:
        self._uri = storage.uri(key)
        self._path = path
        self._bytes = 0
        self._crc = 0
        with translate_os_errors("stage", self._uri):
            self._file = path.open("xb", buffering=_BLOCK)

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; return their number."""
        with translate_os_errors("stage", self._uri):
            written = self._file.write(data)
        self._crc = zlib.crc32(data, self._crc)
        self._bytes += written
        return written

    def finish(self) -> Mapping[str, Any]:
        """Fsync and close the file; return `token`, `bytes` and `checksum` for `model.Staged`."""
        with translate_os_errors("stage", self._uri):
            self._file.flush()
            os.fsync(self._file.fileno())
            written = os.fstat(self._file.fileno()).st_mtime_ns
            self._file.close()
            sync_folder(self._path.parent)
        return {
            "token": {"name": self._path.name, "written": written},
            "bytes": self._bytes,
            "checksum": _format_crc32(self._crc),
        }

    def abort(self) -> None:
        """Delete and close the staged file. Never raises."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._file.close()


def _is_encodable(key: str) -> bool:
    """Whether the file system can encode a key."""
    try:
        os.fsencode(key)
    except UnicodeEncodeError:
        return False
    return True
