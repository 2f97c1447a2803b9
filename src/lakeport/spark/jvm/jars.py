"""Jars, fetched once from a Maven repository and kept in the cache folder.

A jar has its final name only when its checksum was right, so a name that exists is whole; several
processes may fetch the same jar at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lakeport.errors import MissingDependency
from lakeport.host.cache import cache_folder
from lakeport.spark.jvm.java import find_java
from lakeport.spark.jvm.versions import JARS, Jar, jars_for

__all__ = ["LOG_STORE", "ensure", "missing", "with_cached"]

LOG_STORE: Final = Path(__file__).parents[2] / "jars" / "lakeport-logstore.jar"
"""What comes with lakeport: commits on S3 that are safe for several writers, warm sessions."""

_CHUNK: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 60
_FETCH_SECONDS: Final = 900
_OFFLINE: Final = (
    "run `lakeport jars` where there is a network and copy the cache folder (LAKEPORT_CACHE), or "
    "set LAKEPORT_MAVEN_URL to a mirror within reach."
)


def ensure(needs: Iterable[str], cache: Path | None = None) -> list[Path]:
    """Local files of all jars for `needs`, downloading those that the cache lacks.

    They end with lakeport's own.

    Args:
        needs: names of `versions.JARS`.
        cache: the cache folder, `cache_folder()` by default.

    Raises:
        ConfigError: an unknown need.
        MissingDependency: a jar is not there and can't be downloaded, or is not what was pinned.
    """
    needs = tuple(needs)
    folder = (cache or cache_folder()) / "jars"
    absent = missing(needs, cache)
    if absent:
        _fetch(absent, folder)
    found = [folder / jar.name for jar in jars_for(needs)]
    return [*found, LOG_STORE]


def missing(needs: Iterable[str], cache: Path | None = None) -> list[Jar]:
    """The jars for `needs` that the cache lacks."""
    folder = (cache or cache_folder()) / "jars"
    return [jar for jar in jars_for(needs) if not (folder / jar.name).is_file()]


def with_cached(needs: Iterable[str], cache: Path | None = None) -> frozenset[str]:
    """`needs`, and every other need whose jars the cache has in full.

    A JVM on this machine has all of them on its class path, so that one class archive is for every
    destination.
    """
    cached = {need for need in JARS if not missing([need], cache)}
    return frozenset(needs) | cached


def _fetch(jars: Sequence[Jar], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder, prefix=".fetch-"))
    except OSError as error:
        raise MissingDependency(
            f"the jar folder {folder} can't be written: {error.strerror}",
            "set LAKEPORT_CACHE to a folder that can.",
        ) from error
    try:
        mirror = os.environ.get("LAKEPORT_MAVEN_URL")
        if mirror:
            for jar in jars:
                _download(f"{mirror.rstrip('/')}/{jar.path}", work / jar.name)
        else:
            _retrieve(jars, work)
        for jar in jars:
            _accept(jar, work / jar.name, folder / jar.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _accept(jar: Jar, part: Path, target: Path) -> None:
    """Give a fetched file its final name, if it is the one that was pinned."""
    if not part.is_file():
        raise MissingDependency(f"the jar {jar.name} can't be downloaded", _OFFLINE)
    found = hashlib.sha256(part.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise MissingDependency(
            f"{jar.name} is not the file that was pinned: its SHA-256 is {found}, not {jar.sha256}",
            "a proxy or a mirror changed it; set LAKEPORT_MAVEN_URL to a repository that has "
            "the original.",
        )
    part.chmod(0o644)
    part.replace(target)


def _retrieve(jars: Sequence[Jar], work: Path) -> None:
    """Fetch through Ivy, which Spark ships and which knows Maven's central repository."""
    import pyspark

    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    wanted = "".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" '
        'conf="default->master" transitive="false"/>'
        for jar in jars
    )
    module = work / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="lakeport" module="jars"/>'
        f'<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
    command = [str(find_java().path), "-cp", str(ivy), "org.apache.ivy.Main", "-warn"]
    command += ["-ivy", str(module), "-cache", str(work / "cache")]
    command += ["-retrieve", str(work / "[artifact]-[revision].[ext]")]
    try:
        subprocess.run(command, capture_output=True, timeout=_FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingDependency(f"the jars can't be downloaded: {error}", _OFFLINE) from error


def _download(address: str, target: Path) -> None:
    """Copy what is at `address` into a file."""
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        # The user names the mirror, and what comes from it is compared with a digest.
        opened = urlopen(address, timeout=_TIMEOUT_SECONDS)  # noqa: S310
        with target.open("wb") as sink, opened as source:
            shutil.copyfileobj(source, sink, _CHUNK)
    except (OSError, ValueError, HTTPException) as error:
        raise MissingDependency(
            f"{_shown(address)} can't be downloaded: {getattr(error, 'reason', error)}", _OFFLINE
        ) from error


def _shown(address: str) -> str:
    """The address without the user and password that a mirror's URL may hold."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
