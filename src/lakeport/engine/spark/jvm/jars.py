"""The jars that each destination needs, downloaded once from Maven into the cache folder.

`jars.lock` pins versions that were tested together. A file gets a jar's name only after a check of
its checksum, so an existing jar is whole. Several processes may download the same jar at once.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import get_data
from typing import Final
from urllib.parse import unquote, urlsplit

from lakeport.engine.spark.jvm.versions import JAVA, SparkBuild, installed_build
from lakeport.errors import ConfigError, MissingDependency
from lakeport.host.activity import activity, set_progress
from lakeport.host.process import cleanup_stack
from lakeport.host.scratch import ScratchFolder, cache_folder

NEEDS: Final = ("delta", "s3a", "azure", "gcs")
"""Needs that jars are pinned for: Delta tables, S3, Azure and Google, in class path order."""

_FOR_USERS: Final = ("gcs",)  # used in sessions of `lakeport.spark` alone

LOG_STORE: Final = Path(__file__).parents[3] / "jars" / "lakeport-logstore.jar"
"""lakeport's own jar: commits on S3 that are safe for several writers, and warm sessions."""

CENTRAL: Final = "https://repo1.maven.org/maven2"
_STARTING: Final = "starting Spark"  # the activity of threads that wait for jars
_BLOCK: Final = 1 << 16
_SILENCE_SECONDS: Final = 30.0  # timeout for bytes of a download
_HINT: Final = (
    "check the network, the proxy and the firewall; or run `lakeport jars` where there is a "
    "network and copy the cache folder (LAKEPORT_CACHE), or set LAKEPORT_MAVEN_URL to a mirror "
    "within reach."
)


@dataclass(frozen=True, slots=True)
class Jar:
    """Maven coordinates of a jar, its SHA-256 in hex and its size in bytes.

    Some have a classifier, such as `shaded`.

    >>> Jar("io.delta", "delta-storage", "4.4.0", "c467…", 113_863).path
    'io/delta/delta-storage/4.4.0/delta-storage-4.4.0.jar'
    """

    group: str
    artifact: str
    version: str
    sha256: str
    size: int
    classifier: str = ""

    @property
    def name(self) -> str:
        """File name of the jar."""
        end = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{end}.jar"

    @property
    def path(self) -> str:
        """Path of the jar below a Maven repository's URL."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def _read_lock_file() -> dict[str, tuple[Jar, ...]]:
    """Read the packaged `jars.lock`; return its sections, such as `s3a 4.2`, with their jars."""
    content = get_data(__name__, "jars.lock") or b""
    found: dict[str, list[Jar]] = {}
    for line in content.decode("ascii").splitlines():
        if line.startswith("["):
            jars = found.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            name, version, size, digest = line.split()
            group, artifact, *classifier = name.split(":")
            jars.append(Jar(group, artifact, version, digest, int(size), *classifier))
    return {section: tuple(jars) for section, jars in found.items()}


LOCKED: Final = _read_lock_file()
"""Sections of `jars.lock`, such as `delta 4.2 2.13` or `s3a 4.2`, with their jars."""


def pinned_jars(need: str, spark: SparkBuild) -> tuple[Jar, ...]:
    """Return the jars that are pinned for one need on a Spark; empty if there are none.

    >>> [jar.artifact for jar in pinned_jars("delta", SparkBuild("3.5.1", "2.12"))]
    ['delta-spark_2.12', 'delta-storage']
    >>> pinned_jars("delta", SparkBuild("4.3.0", "2.13"))
    ()
    """
    section = f"{need} {spark.minor}"
    return LOCKED.get(f"{section} {spark.scala}", LOCKED.get(section, ()))


def jars_for(needs: Iterable[str]) -> tuple[Jar, ...]:
    """Return the jars that needs such as `delta` take on the installed Spark, without repeats.

    Raises:
        ConfigError: an unknown need.
        MissingDependency: no jars are pinned for a need on this Spark.
    """
    wanted = set(needs)
    if unknown := sorted(wanted.difference(NEEDS)):
        raise ConfigError(
            f"no jars are pinned for {', '.join(map(repr, unknown))}",
            f"known are {', '.join(NEEDS)}.",
        )
    spark = installed_build()
    found = {need: pinned_jars(need, spark) for need in NEEDS if need in wanted}
    for need, jars in found.items():
        if not jars:
            raise no_jars_error(need, spark)
    return tuple(dict.fromkeys(jar for jars in found.values() for jar in jars))


def known_needs(needs: Iterable[str]) -> frozenset[str]:
    """Return those of `needs` that jars are pinned for on the installed Spark."""
    spark = installed_build()
    return frozenset(need for need in needs if pinned_jars(need, spark))


def no_jars_error(need: str, spark: SparkBuild) -> MissingDependency:
    """Return the error for a need that no jars are pinned for on this Spark."""
    lacking = {
        "delta": "delta-spark",
        "s3a": "S3A",
        "azure": "Azure's file system",
        "gcs": "Google's file system",
    }[need]
    newest = [minor for minor in JAVA if pinned_jars(need, SparkBuild(minor, "2.13"))][-1]
    return MissingDependency(
        f"this takes {lacking}, and no version of it is known for Spark {spark.version}",
        f"use Spark {newest} for it (`pip install 'pyspark=={newest}.*'`); files and plain tables "
        "land on this one.",
    )


def ensure_jars(
    needs: Iterable[str], check_cancelled: Callable[[], None] = lambda: None
) -> list[Path]:
    """Download missing jars for `needs` to the cache; return all paths, lakeport's own jar last.

    Args:
        check_cancelled: called for each block of a download; what it raises ends the download.

    Raises:
        ConfigError: an unknown need.
        MissingDependency: a jar can't be downloaded, or has another checksum.
    """
    return [*fetch_jars(jars_for(needs), check_cancelled), LOG_STORE]


def fetch_jars(
    pinned: Sequence[Jar], check_cancelled: Callable[[], None] = lambda: None
) -> list[Path]:
    """Download the jars that the cache lacks; return the paths of all, in their order.

    See `ensure_jars` for the arguments and errors.
    """
    folder = cache_folder() / "jars"
    if absent := _find_absent(pinned, folder):
        _download_jars(absent, folder, check_cancelled)
    return [folder / jar.name for jar in pinned]


def missing_jars(needs: Iterable[str]) -> list[Jar]:
    """Return the jars for `needs` that the cache lacks."""
    return _find_absent(jars_for(needs), cache_folder() / "jars")


def _find_absent(pinned: Iterable[Jar], folder: Path) -> list[Jar]:
    """Return those of the jars that are not in the folder."""
    return [jar for jar in pinned if not (folder / jar.name).is_file()]


def with_cached_needs(needs: Iterable[str]) -> frozenset[str]:
    """Return `needs`, plus each other need of loads whose jars are all in the cache.

    A local JVM has them all on its class path, so that one class archive serves every destination.
    """
    others = known_needs(need for need in NEEDS if need not in _FOR_USERS)
    return frozenset(needs) | {need for need in others if not missing_jars([need])}


def _download_jars(jars: Sequence[Jar], folder: Path, check_cancelled: Callable[[], None]) -> None:
    """Download jars to `folder` and verify them; MissingDependency at the first failure."""
    size = sum(jar.size for jar in jars)
    address, user = _split_user(os.environ.get("LAKEPORT_MAVEN_URL") or CENTRAL)
    with (
        activity("fetching", "jars", total=size, count_total=len(jars), part_of=_STARTING),
        cleanup_stack() as left,
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            work = ScratchFolder("jars", folder, hidden=True)
            left.callback(work.remove)
            done = 0
            for number, jar in enumerate(jars):
                digest = hashlib.sha256()
                with (work.path / jar.name).open("wb") as sink:
                    for block in _download(jar, address, user):
                        sink.write(block)
                        digest.update(block)
                        check_cancelled()
                        set_progress(done + sink.tell(), count=number)
                _publish_jar(jar, work.path / jar.name, folder / jar.name, digest.hexdigest())
                done += jar.size
                set_progress(done, count=number + 1)
        except MissingDependency:
            raise
        except (OSError, ConfigError) as error:
            raise MissingDependency(
                f"the jar folder {folder} can't be written: "
                f"{getattr(error, 'strerror', None) or error}",
                "free room there, or set LAKEPORT_CACHE to a folder that can.",
            ) from error


def _download(jar: Jar, address: str, user: bytes) -> Iterator[bytes]:
    """Yield a jar's bytes from a Maven repository; raise MissingDependency if that fails.

    Args:
        address: URL of the repository.
        user: `user:password` for it; empty for none.
    """
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, build_opener

    request = Request(f"{address}/{jar.path}")  # noqa: S310  # the user names the mirror
    if user:
        request.add_unredirected_header("Authorization", f"Basic {b64encode(user).decode()}")
    came = 0
    try:
        with build_opener().open(request, timeout=_SILENCE_SECONDS) as source:
            while block := source.read1(_BLOCK):
                came += len(block)
                yield block
        if came < (announced := int(source.headers.get("Content-Length", -1))):
            raise HTTPException(f"the connection ended after {came:,} of {announced:,} bytes")
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # an HTTPError is also the response
        raise MissingDependency(
            f"the jar {jar.name} can't be downloaded: {_describe_failure(error)} (from {address})",
            _HINT,
        ) from error


def _split_user(address: str) -> tuple[str, bytes]:
    """Split a URL into the URL without its credentials, and `user:password` (may be empty).

    >>> _split_user("https://me:p%40ss@example.org/maven/")
    ('https://example.org/maven', b'me:p@ss')
    """
    parts = urlsplit(address.rstrip("/"))
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), unquote(user).encode()


def _describe_failure(error: Exception) -> str:
    """Return the reason of a failed download for a message, such as a timeout or status."""
    from ssl import SSLCertVerificationError

    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"nothing has come for {_SILENCE_SECONDS:.0f} s"
    if isinstance(reason, SSLCertVerificationError):
        return (
            f"the server's certificate is not trusted, {reason.verify_message} "
            "(SSL_CERT_FILE names a file of those that are)"
        )
    if status := getattr(error, "code", None):
        return f"the answer is {status} {reason}"
    return str(getattr(reason, "strerror", None) or reason)


def _publish_jar(jar: Jar, part: Path, target: Path, found: str) -> None:
    """Move a downloaded jar to `target` if its SHA-256 is right; else MissingDependency."""
    if found != jar.sha256:
        raise MissingDependency(
            f"{jar.name} is not the file that was pinned: its SHA-256 is {found}, not {jar.sha256}",
            "a proxy or a mirror changed it; set LAKEPORT_MAVEN_URL to a repository that has "
            "the original.",
        )
    part.chmod(0o644)
    part.replace(target)
