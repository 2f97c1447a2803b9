"""Folders and files on this machine's disk: scratch, cache, and files written whole.

The process that makes a folder holds a lock in it for as long as it lives. What a killed process
left is removed by the next one of the same user that makes a folder in the same place.
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


class Scratch:
    """A folder that only this user can open.

    Attributes:
        path: where the folder is.
    """

    def __init__(
        self,
        kind: str = "",
        parent: str | os.PathLike[str] | None = None,
        *,
        hidden: bool = False,
    ) -> None:
        """Make a folder, after what killed processes left beside it is gone.

        Args:
            kind: a word for its name.
            parent: where; the system's folder for temporary files by default.
            hidden: whether its name begins with a dot.

        Raises:
            ConfigError: there is no such place, no room in it, or it may not be written.
        """
        above = Path(tempfile.gettempdir() if parent is None else parent).absolute()
        sweep(above)
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
        with suppress(OSError):  # a disk without locks: age decides
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.write(self._lock, _here())

    def remove(self) -> None:
        """Remove the folder with all that is in it. Never raises, and may be repeated."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _remove(self.path)
            os.close(lock)


@contextmanager
def scratch(kind: str = "", parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A folder for as long as the body runs; see `Scratch`."""
    made = Scratch(kind, parent)
    try:
        yield made.path
    finally:
        made.remove()


def sweep(parent: Path) -> None:
    """Remove what processes of this user that were killed left in a folder. Never raises.

    A folder whose process lives keeps its lock. Locks tell nothing about another machine that
    mounts the same disk: its folders go after a week without a change.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_left(Path(entry.path))


def _remove_left(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    lock = None
    with suppress(FileNotFoundError):
        lock = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _is_left(path, lock):
            _remove(path)
    finally:
        if lock is not None:
            os.close(lock)


def _is_left(path: Path, lock: int | None) -> bool:
    inside = list(path.iterdir())
    if lock is None and inside:
        return False  # none of ours
    if lock is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.read(lock, 1024) == _here():
            return True
    newest = max(item.lstat().st_mtime for item in (path, *inside))
    # Killed before it had said where it is: it takes no time to get from there to here.
    begun = all(item.name == _OWNER and not item.lstat().st_size for item in inside)
    return newest < time.time() - (_MINUTE if begun else _WEEK)


def _here() -> bytes:
    """This machine, as far as locks hold."""
    return platform.node().encode()


def _remove(path: Path) -> None:
    """Remove a folder, its lock last: one that is half gone is still known for what it is."""
    with suppress(OSError):
        for item in path.iterdir():
            if item.name == _OWNER:
                continue
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item, ignore_errors=True)
            else:
                item.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def replace_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old content or the new; a device is written to.

    Args:
        path: the file; it keeps its mode if it is there.
        content: what it is to hold.

    Raises:
        OSError: it can't be written; nothing is left beside it.
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


def check_output(path: Path) -> None:
    """Refuse a path that no file can be written to.

    Raises:
        ConfigError: it is a folder, or in none.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", "name a file, such as page.html.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}", "make it, or name another file.")


def write_output(text: str, path: Path) -> None:
    """Write a file that a user has named, whole or not at all.

    Raises:
        ConfigError: it can't be written there.
    """
    check_output(path)
    try:
        replace_whole(path, text.encode())
    except OSError as error:
        raise ConfigError(
            f"{path} can't be written: {error.strerror}", "name another file."
        ) from None


def cache_folder() -> Path:
    """The folder for jars and class archives; it need not exist yet.

    `$LAKEPORT_CACHE`, else `$XDG_CACHE_HOME/lakeport`, else `~/.cache/lakeport`.
    """
    if own := os.environ.get("LAKEPORT_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "lakeport"
