"""Scratch folders, the cache folder, and files that are written whole or not at all.

A process holds a lock in each scratch folder while it lives. The folders of killed processes are
removed by the next process of the same user that makes one in the same place.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakeport.errors import ConfigError

_NAME = re.compile(r"[.]?lakeport-(?:[a-z]+-)?[a-z0-9_]{8}")
_OWNER = ".owner"
_MINUTE = 60
_WEEK = 7 * 24 * 3600


class ScratchFolder:
    """A private temporary folder, locked by this process; leftovers of killed ones are removed."""

    def __init__(
        self,
        kind: str = "",
        parent: str | os.PathLike[str] | None = None,
        *,
        hidden: bool = False,
    ) -> None:
        """Make a folder, and remove those of killed processes in the same place.

        Args:
            kind: a word for its name.
            parent: the place; by default the system's folder for temporary files.

        Raises:
            ConfigError: the place does not exist, is full, or may not be written.
        """
        above = Path(tempfile.gettempdir() if parent is None else parent).absolute()
        remove_leftovers(above)
        prefix = ("." if hidden else "") + (f"lakeport-{kind}-" if kind else "lakeport-")
        try:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
            self._lock: int | None = os.open(
                self.path / _OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise ConfigError(
                f"no folder for temporary files can be made in {above}: {error.strerror}",
                "free room there, in bytes and in inodes (`df -h`, `df -i`), or name another "
                "place: `spool_dir` for what is read, TMPDIR for all.",
            ) from error
        with suppress(OSError):  # on a disk without locks, age decides
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.write(self._lock, _machine_name())

    def remove(self) -> None:
        """Delete the folder with its content. Never raises, and may be called again."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _remove_folder(self.path)
            os.close(lock)


@contextmanager
def scratch_folder(kind: str = "", parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Context manager that yields a private temporary folder and deletes it afterwards."""
    folder = ScratchFolder(kind, parent)
    try:
        yield folder.path
    finally:
        folder.remove()


def remove_leftovers(parent: Path) -> None:
    """Delete this user's scratch folders in `parent` whose process was killed. Never raises.

    A folder whose process lives is locked. Another machine that mounts the same disk may not see
    the lock: its folders are removed after a week without a change.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_leftover(Path(entry.path))


def _remove_leftover(path: Path) -> None:
    """Delete a scratch folder if its process was killed; raise OSError if that fails."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    lock = None
    with suppress(FileNotFoundError):
        lock = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _is_leftover(path, lock):
            _remove_folder(path)
    finally:
        if lock is not None:
            os.close(lock)


def _is_leftover(path: Path, lock: int | None) -> bool:
    """Whether a scratch folder's process was killed: its lock is free, or a week has passed.

    Args:
        lock: descriptor of its lock file, which stays locked if this returns True; None without it.
    """
    inside = list(path.iterdir())
    if lock is None and inside:
        return False  # it is no scratch folder
    if lock is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.read(lock, 1024) == _machine_name():
            return True
    newest = max(item.lstat().st_mtime for item in (path, *inside))
    # Killed right after it made the lock file, which takes a process no time.
    has_only_lock = all(item.name == _OWNER and not item.lstat().st_size for item in inside)
    return newest < time.time() - (_MINUTE if has_only_lock else _WEEK)


def _machine_name() -> bytes:
    """Return the name of this machine, within which locks hold."""
    return platform.node().encode()


def _remove_folder(path: Path) -> None:
    """Delete a scratch folder, its lock file last. Never raises."""
    with suppress(OSError):
        for item in path.iterdir():
            if item.name == _OWNER:
                continue
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item, ignore_errors=True)
            else:
                item.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to a file by an atomic rename; write directly to a device.

    An existing file keeps its mode.

    Raises:
        OSError: it can't be written; no temporary file is left.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            if path.exists():
                shutil.copymode(path, temporary)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def check_output_path(path: Path) -> None:
    """Raise ConfigError if `path` is a folder, or if its parent folder does not exist."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", "name a file, such as page.html.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}", "make it, or name another file.")


def write_output(text: str, path: Path) -> None:
    """Write a text file atomically; raise ConfigError if it can't be written."""
    check_output_path(path)
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(
            f"{path} can't be written: {error.strerror}", "name another file."
        ) from None


def cache_folder() -> Path:
    """Return the folder for cached jars and class archives, which may not exist yet.

    `$LAKEPORT_CACHE`, else `$XDG_CACHE_HOME/lakeport`, else `~/.cache/lakeport`.
    """
    if own := os.environ.get("LAKEPORT_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "lakeport"
