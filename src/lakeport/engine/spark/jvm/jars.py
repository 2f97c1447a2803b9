"""Jars, fetched once from a Maven repository and kept in the cache folder.

A jar has its final name only when its checksum was right, so a name that exists is whole; several
processes may fetch the same jar at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from lakeport.engine.spark.jvm.fetching import fetch
from lakeport.engine.spark.jvm.versions import JARS, Jar, jars_for
from lakeport.errors import ConfigError, MissingDependency
from lakeport.host.activity import activity
from lakeport.host.cache import cache_folder
from lakeport.host.process import ended_at_exit
from lakeport.host.scratch import Scratch

__all__ = ["LOG_STORE", "ensure", "missing", "with_cached"]

LOG_STORE: Final = Path(__file__).parents[2] / "jars" / "lakeport-logstore.jar"
"""What comes with lakeport: commits on S3 that are safe for several writers, warm sessions."""

_STARTING: Final = "starting Spark"  # what those say that wait for the jars


def _on() -> None:
    """Let a fetch go on."""


def ensure(
    needs: Iterable[str], cache: Path | None = None, go_on: Callable[[], None] = _on
) -> list[Path]:
    """Local files of all jars for `needs`, downloading those that the cache lacks.

    They end with lakeport's own.

    Args:
        needs: names of `versions.JARS`.
        cache: the cache folder, `cache_folder()` by default.
        go_on: called all the time while jars are fetched; what it raises ends that.

    Raises:
        ConfigError: an unknown need.
        MissingDependency: a jar is not there and can't be downloaded, or is not what was pinned.
    """
    needs = tuple(needs)
    folder = (cache or cache_folder()) / "jars"
    absent = missing(needs, cache)
    if absent:
        _fetch(absent, folder, go_on)
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


def _fetch(jars: Sequence[Jar], folder: Path, go_on: Callable[[], None]) -> None:
    """Fetch jars; those that came stay, though another one did not."""
    size = sum(jar.size for jar in jars)
    with (
        activity("fetching", "jars", total=size, count_total=len(jars), part_of=_STARTING),
        ended_at_exit() as left,
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            work = Scratch("jars", folder, hidden=True)
        except (OSError, ConfigError) as error:
            raise _unwritable(folder, error) from error
        left.callback(work.remove)
        try:
            _fetch_into(folder, work, jars, go_on)
        except OSError as error:
            raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: Exception) -> MissingDependency:
    return MissingDependency(
        f"the jar folder {folder} can't be written: {getattr(error, 'strerror', None) or error}",
        "free room there, or set LAKEPORT_CACHE to a folder that can.",
    )


def _fetch_into(
    folder: Path, work: Scratch, jars: Sequence[Jar], go_on: Callable[[], None]
) -> None:
    problem = None
    try:
        fetch(jars, work, go_on)
    except MissingDependency as error:
        problem = error
    for jar in jars:
        if (part := work.path / jar.name).is_file():
            _accept(jar, part, folder / jar.name)
    if problem is not None:
        raise problem


def _accept(jar: Jar, part: Path, target: Path) -> None:
    """Give a fetched file its final name, if it is the one that was pinned."""
    found = hashlib.sha256(part.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise MissingDependency(
            f"{jar.name} is not the file that was pinned: its SHA-256 is {found}, not {jar.sha256}",
            "a proxy or a mirror changed it; set LAKEPORT_MAVEN_URL to a repository that has "
            "the original.",
        )
    part.chmod(0o644)
    part.replace(target)
