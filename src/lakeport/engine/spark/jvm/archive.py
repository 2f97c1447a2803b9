"""Archives of Spark's parsed classes, which Java maps into memory at later starts.

An archive is made by class-data sharing, or, from Java 25 on, as an ahead-of-time cache, which
needs no archive of Java's own classes (JEP 483, 514). Java checks whether an archive was made for
the beginning of its class path, so that a load into one store gains from loads into others. Without
an archive Spark starts more slowly.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakeport.engine.spark.jvm.java import Java
from lakeport.host.scratch import cache_folder

_UNUSED_SECONDS: Final = 30 * 24 * 3600.0
_RECORDING_SECONDS: Final = 600.0
"""Limit for recording an archive, in seconds."""
_AHEAD_OF_TIME: Final = 25
"""The first Java with an ahead-of-time cache that a single run records."""
_CACHE: Final = ".aot"
_SHARED: Final = ".jsa"
_OFF_MODES: Final = frozenset({"off", "0", "false", "no"})
_QUIET: Final = {
    _CACHE: ("-Xlog:aot*=off", "-Xlog:class+path=off"),
    _SHARED: ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"),
}


def archive_path(java: Java, entries: Sequence[Path]) -> Path | None:
    """Return where a Java's class archive (CDS or AOT cache) goes; None if it can make none.

    Java can make none for an entry that is absent or a folder. Archives of one installation of Java
    and Spark have names with the same beginning.
    """
    suffix = _CACHE if java.version >= _AHEAD_OF_TIME else _SHARED
    if suffix == _SHARED and not java.has_class_archive:
        return None
    if not entries or not all(entry.is_file() for entry in entries):
        return None
    machine = f"{java.path} {java.full_version} {os.uname().machine} {entries[0].parent}"
    stats = [(entry, entry.stat()) for entry in entries]
    jars = "\n".join(f"{entry} {stat.st_size} {stat.st_mtime_ns}" for entry, stat in stats)
    return cache_folder() / "classes" / f"{_short_hash(machine)}-{_short_hash(jars)}{suffix}"


def find_archive(archive: Path | None) -> Path | None:
    """Return this class archive or an older one of the same installation; None without one."""
    if archive is None or _mode() in _OFF_MODES:
        return None
    found = archive if archive.is_file() else next(iter(_other_archives(archive)), None)
    with suppress(OSError):
        if found is not None:
            os.utime(found)  # `publish_archive` removes unused ones by their time
    return found


def use_options(archive: Path | None) -> tuple[str, ...]:
    """Return the JVM options that load a class archive; empty for None."""
    if archive is None:
        return ()
    if archive.suffix == _CACHE:
        return (f"-XX:AOTCache={archive}", "-XX:AOTMode=auto", *_QUIET[_CACHE])
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET[_SHARED])


def record_options(archive: Path) -> tuple[str, ...]:
    """Return JVM options that record an archive of the classes that a JVM loads, at its end."""
    written = "AOTCacheOutput" if archive.suffix == _CACHE else "ArchiveClassesAtExit"
    return (f"-XX:{written}={partial_path(archive)}", *_QUIET[archive.suffix])


def partial_path(archive: Path) -> Path:
    """Return the path of an archive that this process is recording."""
    return archive.with_suffix(f".{os.getpid()}.part")


def record_in_background(archive: Path | None, needs: Iterable[str]) -> None:
    """Start a detached process that records a missing class archive, unless one runs.

    With `LAKEPORT_CDS=use` or `off` none is recorded.
    """
    if archive is None or _mode() in {*_OFF_MODES, "use"} or archive.is_file():
        return
    with suppress(OSError):
        marker = archive.with_suffix(".making")
        marker.parent.mkdir(parents=True, exist_ok=True)
        if time.time() - (marker.stat().st_mtime if marker.exists() else 0) < _RECORDING_SECONDS:
            return
        marker.touch()
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeport.engine.spark.jvm.training", *sorted(needs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=tempfile.gettempdir(),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        # Nobody waits for it: with a return code its object does not warn of that.
        process.returncode = 0


def publish_archive(archive: Path) -> bool:
    """Move a recorded class archive into place and delete old ones; False if none was recorded."""
    if not partial_path(archive).is_file():
        return False
    partial_path(archive).replace(archive)
    for file in archive.parent.iterdir():
        if file in _other_archives(archive) or time.time() - file.stat().st_mtime > _UNUSED_SECONDS:
            file.unlink(missing_ok=True)
    archive.with_suffix(".making").unlink(missing_ok=True)
    return True


def _mode() -> str:
    """Return the variable LAKEPORT_CDS in lower case."""
    return os.environ.get("LAKEPORT_CDS", "").lower()


def _short_hash(text: str) -> str:
    """Return twelve hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _other_archives(archive: Path) -> list[Path]:
    """Return the other archives of the same installation."""
    same = archive.parent.glob(f"{archive.name.partition('-')[0]}-*{archive.suffix}")
    return [file for file in same if file != archive]
