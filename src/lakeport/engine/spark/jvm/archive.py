"""An archive of Spark's classes, parsed once and mapped into memory at later starts.

It is a class-data-sharing archive, or, from Java 25 on, an ahead-of-time cache, which needs no
archive of Java's own classes to build on (JEP 483, 514). Java checks by itself whether it was made
for the beginning of the class path that there is (guide to the `java` command, application
class-data sharing), so that the first load into a store gains from those into others. Without an
archive everything works, only slower.
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
_MAKING_SECONDS: Final = 600.0
"""How long the making of one may take."""
_AHEAD_OF_TIME: Final = 25
"""The first Java with a cache that one run records and makes."""
_CACHE: Final = ".aot"
_SHARED: Final = ".jsa"
_OFF: Final = frozenset({"off", "0", "false", "no"})
_QUIET: Final = {
    _CACHE: ("-Xlog:aot*=off", "-Xlog:class+path=off"),
    _SHARED: ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"),
}


def place(java: Java, entries: Sequence[Path]) -> Path | None:
    """Return where the archive for this Java and class path is or would be.

    Its name begins with what those of one installation of Java and Spark have in common.

    Returns:
        None if there can be none: Java makes no archive with an absent entry or a folder.
    """
    suffix = _CACHE if java.version >= _AHEAD_OF_TIME else _SHARED
    if suffix == _SHARED and not java.shares_classes:
        return None
    if not entries or not all(entry.is_file() for entry in entries):
        return None
    machine = f"{java.path} {java.full_version} {os.uname().machine} {entries[0].parent}"
    told = [(entry, entry.stat()) for entry in entries]
    jars = "\n".join(f"{entry} {stat.st_size} {stat.st_mtime_ns}" for entry, stat in told)
    return cache_folder() / "classes" / f"{_short(machine)}-{_short(jars)}{suffix}"


def find(archive: Path | None) -> Path | None:
    """Return the archive to use: this one, else another of the same installation; None if none."""
    if archive is None or _mode() in _OFF:
        return None
    found = archive if archive.is_file() else next(iter(_others(archive)), None)
    with suppress(OSError):
        if found is not None:
            os.utime(found)  # those that nobody uses are removed
    return found


def options(archive: Path | None) -> tuple[str, ...]:
    """JVM options that use an archive; none without one."""
    if archive is None:
        return ()
    if archive.suffix == _CACHE:
        return (f"-XX:AOTCache={archive}", "-XX:AOTMode=auto", *_QUIET[_CACHE])
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET[_SHARED])


def recording(archive: Path) -> tuple[str, ...]:
    """JVM options that write the classes of a run down as an archive, when it ends."""
    written = "AOTCacheOutput" if archive.suffix == _CACHE else "ArchiveClassesAtExit"
    return (f"-XX:{written}={part(archive)}", *_QUIET[archive.suffix])


def part(archive: Path) -> Path:
    """Where this process makes an archive."""
    return archive.with_suffix(f".{os.getpid()}.part")


def refresh(archive: Path | None, needs: Iterable[str]) -> None:
    """Have an absent archive made by a process that outlives this one, if nobody does it yet.

    With `LAKEPORT_CDS=use` none is made.
    """
    if archive is None or _mode() in {*_OFF, "use"} or archive.is_file():
        return
    with suppress(OSError):
        making = archive.with_suffix(".making")
        making.parent.mkdir(parents=True, exist_ok=True)
        if time.time() - (making.stat().st_mtime if making.exists() else 0) < _MAKING_SECONDS:
            return
        making.touch()
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeport.engine.spark.jvm.training", *sorted(needs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=tempfile.gettempdir(),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        # It is not waited for; without a return code its object would complain of that.
        process.returncode = 0


def publish(archive: Path) -> bool:
    """Put a recorded archive in place of older ones, and remove what nobody uses any more.

    Returns:
        Whether Java has written it.
    """
    if not part(archive).is_file():
        return False
    part(archive).replace(archive)
    for file in archive.parent.iterdir():
        if file in _others(archive) or time.time() - file.stat().st_mtime > _UNUSED_SECONDS:
            file.unlink(missing_ok=True)
    archive.with_suffix(".making").unlink(missing_ok=True)
    return True


def _mode() -> str:
    return os.environ.get("LAKEPORT_CDS", "").lower()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _others(archive: Path) -> list[Path]:
    """Other archives of the same installation."""
    same = archive.parent.glob(f"{archive.name.partition('-')[0]}-*{archive.suffix}")
    return [file for file in same if file != archive]
