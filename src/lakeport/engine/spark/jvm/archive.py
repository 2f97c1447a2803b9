"""An archive of Spark's classes, parsed once and mapped into memory at later starts.

It is a class-data-sharing archive, or, from Java 25 on, an ahead-of-time cache, which needs no
archive of Java's own classes to build on (JEP 483, 514). Java, the class path and the machine are
part of its name, so it is never used for anything else; Java checks that again by itself. It takes
one that was made for the beginning of its class path, too, so that the first load into a store
gains from those into others. Without an archive everything works, only slower.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final

from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.gateway import class_path
from lakeport.engine.spark.jvm.java import Java, find_java
from lakeport.host.cache import cache_folder

_KEPT: Final = 4
_LONGEST: Final = 3600.0
"""Seconds that the making of one may take, by far."""
_SPACE_NEEDED: Final = 1 << 30
_AHEAD_OF_TIME: Final = 25
"""The first Java with a cache that one run records and makes."""
_CACHE: Final = ".aot"
_SHARED: Final = ".jsa"
_QUIET: Final = {
    _CACHE: ("-Xlog:aot*=off", "-Xlog:class+path=off"),
    _SHARED: ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"),
}


def enabled() -> bool:
    """Whether archives are used: not with `LAKEPORT_CDS=off`."""
    return _asked() not in {"off", "0", "false", "no"}


def _asked() -> str:
    return os.environ.get("LAKEPORT_CDS", "").lower()


def path(java: Java, entries: Sequence[Path]) -> Path | None:
    """Where the archive for this Java and class path is or would be; None if it can't have one."""
    return places(java, entries)[-1]


def places(java: Java, entries: Sequence[Path]) -> list[Path | None]:
    """The same for the first entry of a class path, the first two and so on; the last is for all.

    Java makes no archive with an absent entry or a folder.
    """
    suffix = _CACHE if java.version >= _AHEAD_OF_TIME else _SHARED
    if suffix == _SHARED and not java.shares_classes:
        return [None] * len(entries)
    folder = cache_folder() / "classes"
    seen = hashlib.sha256(f"{java.path}\n{java.full_version}\n{os.uname().machine}".encode())
    found: list[Path | None] = []
    for entry in entries:
        try:
            stat = entry.stat()
        except OSError:
            break
        if not S_ISREG(stat.st_mode):
            break
        seen.update(f"\n{entry} {stat.st_size} {stat.st_mtime_ns}".encode())
        found.append(folder / f"spark-{seen.hexdigest()[:20]}{suffix}")
    return [*found, *[None] * (len(entries) - len(found))]


def find(places: Sequence[Path | None]) -> Path | None:
    """The archive to use: for the class path, else for the longest beginning of it; None if none.

    Java asks no more than that the class path begins with the archive's (guide to the `java`
    command, application class-data sharing).

    Args:
        places: as the function of that name returns them.
    """
    if not enabled():
        return None
    return next((place for place in reversed(places) if place and _whole(place)), None)


def options(archive: Path | None) -> tuple[str, ...]:
    """JVM options that use an archive; none without one."""
    if archive is None:
        return ()
    if archive.suffix == _CACHE:
        return (f"-XX:AOTCache={archive}", "-XX:AOTMode=auto", *_QUIET[_CACHE])
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET[_SHARED])


def drop(archive: Path) -> None:
    """Remove an archive that Java stumbled over."""
    with suppress(OSError):
        archive.unlink()


def refresh(archive: Path | None, needs: Iterable[str]) -> None:
    """Have an absent archive made by a process that outlives this one, if nobody does it yet.

    With `LAKEPORT_CDS=use` none is made.
    """
    if archive is None or not enabled() or _asked() == "use" or _whole(archive):
        return
    with suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock(archive)
        if lock is None:
            return
        os.close(lock)
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeport.engine.spark.warmup.training", *sorted(needs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=tempfile.gettempdir(),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        # It is not waited for; without a return code its object would complain of that.
        process.returncode = 0


def make(
    needs: frozenset[str], record: Callable[[frozenset[str], Sequence[str]], None]
) -> Path | None:
    """Make the archive now.

    Args:
        needs: names of `versions.JARS`.
        record: runs what loads run in a JVM with these jars and these options of Java's, which
            write its classes down when it ends.

    Returns:
        The archive, or None if it can't be made here or another process is making it.
    """
    archive = path(find_java(), class_path(jars.ensure(needs)))
    if archive is None or _whole(archive):
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(archive) if _has_space(archive.parent) else None
    if lock is None:
        return None
    part = archive.with_suffix(f".{os.getpid()}.part")
    try:
        written = "AOTCacheOutput" if archive.suffix == _CACHE else "ArchiveClassesAtExit"
        record(needs, (f"-XX:{written}={part}", *_QUIET[archive.suffix]))
        if part.is_file():
            _size_file(archive).write_text(str(part.stat().st_size))
            part.replace(archive)
            _prune(archive)
            return archive
        return None
    finally:
        part.unlink(missing_ok=True)
        os.close(lock)


def _size_file(archive: Path) -> Path:
    return archive.with_suffix(".size")


def _whole(archive: Path) -> bool:
    """Whether it is there in full: Java crashes on an archive that a full disk cut short."""
    try:
        return archive.stat().st_size == int(_size_file(archive).read_text())
    except (OSError, ValueError):
        return False


def _lock(archive: Path) -> int | None:
    """Open the archive's lock file, locked; None if a living process has it. Close to let go."""
    import fcntl

    handle = os.open(archive.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _has_space(folder: Path) -> bool:
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize > _SPACE_NEEDED


def _prune(newest: Path) -> None:
    """Remove archives of versions long gone, and what killed processes have left: they are big."""
    for part in newest.parent.glob("*.part*"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _LONGEST:
                part.unlink()
    made = (file for file in newest.parent.iterdir() if file.suffix in _QUIET)
    others = sorted(made, key=lambda file: file.stat().st_mtime)
    for old in others[:-_KEPT]:
        for file in (old, _size_file(old), old.with_suffix(".lock")):
            file.unlink(missing_ok=True)
