"""Jars, fetched once from a Maven repository and kept in the cache folder.

A jar has its final name only when its checksum was right, so a name that exists is whole; several
processes may fetch the same jar at once.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lakeport.cache import cache_folder
from lakeport.errors import MissingDependency
from lakeport.spark.versions import Jar, jars_for

__all__ = ["ensure", "missing"]

CENTRAL: Final = "https://repo1.maven.org/maven2"
LOG_STORE: Final = Path(__file__).parent.parent / "jars" / "lakeport-logstore.jar"
"""Ours: what makes Delta's commits on S3 safe for several writers."""

_CHUNK: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 60


def ensure(needs: Iterable[str], cache: Path | None = None) -> list[Path]:
    """Local files of all jars for `needs`, downloading those that the cache lacks.

    What S3 needs ends with the log store, which comes with lakeport.

    Args:
        needs: names of `versions.JARS`.
        cache: the cache folder, `cache_folder()` by default.

    Raises:
        ConfigError: an unknown need.
        MissingDependency: a jar is not there and can't be downloaded, or is not what was pinned.
    """
    folder = (cache or cache_folder()) / "jars"
    wanted = set(needs)
    found = [_ensure(jar, folder) for jar in jars_for(wanted)]
    return [*found, LOG_STORE] if "s3a" in wanted else found


def missing(needs: Iterable[str], cache: Path | None = None) -> list[Jar]:
    """The jars for `needs` that the cache lacks."""
    folder = (cache or cache_folder()) / "jars"
    return [jar for jar in jars_for(needs) if not (folder / jar.name).is_file()]


def _ensure(jar: Jar, folder: Path) -> Path:
    target = folder / jar.name
    if target.is_file():
        return target
    base = os.environ.get("LAKEPORT_MAVEN_URL") or CENTRAL
    address = f"{base.rstrip('/')}/{jar.path}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{jar.name}.")
    except OSError as error:
        raise MissingDependency(
            f"the jar folder {folder} can't be written: {error.strerror}",
            "set LAKEPORT_CACHE to a folder that can.",
        ) from error
    part = Path(name)
    try:
        found = _download(address, handle)
        if found != jar.sha256:
            raise MissingDependency(
                f"{_shown(address)} is not the file that was pinned: its SHA-256 is {found}, "
                f"not {jar.sha256}",
                "a proxy or a mirror changed it; set LAKEPORT_MAVEN_URL to a repository that has "
                "the original.",
            )
        part.chmod(0o644)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _download(address: str, handle: int) -> str:
    """Copy what is at `address` into an open file, and return its SHA-256."""
    from http.client import HTTPException
    from urllib.request import urlopen

    digest = hashlib.sha256()
    try:
        with open(handle, "wb") as sink, urlopen(address, timeout=_TIMEOUT_SECONDS) as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    except (OSError, ValueError, HTTPException) as error:
        raise MissingDependency(
            f"{_shown(address)} can't be downloaded: {getattr(error, 'reason', error)}",
            "run `lakeport jars` where there is a network and copy the cache folder "
            "(LAKEPORT_CACHE), or set LAKEPORT_MAVEN_URL to a mirror within reach.",
        ) from error
    return digest.hexdigest()


def _shown(address: str) -> str:
    """The address without the user and password that a mirror's URL may hold."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
