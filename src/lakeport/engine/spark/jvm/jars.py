"""The jars that each destination needs, fetched once from a Maven repository into the cache folder.

`jars.lock` pins what was run together. A jar has its final name only when its checksum was right,
so a name that exists is whole; several processes may fetch the same jar at once.
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

from lakeport.errors import ConfigError, MissingDependency
from lakeport.host.activity import activity, reached
from lakeport.host.process import ended_at_exit
from lakeport.host.scratch import Scratch, cache_folder

SCALA: Final = "2.13"
DELTA: Final = "4.4.0"
HADOOP: Final = "3.5.0"
AWS_SDK: Final = "2.35.4"
JAVA: Final = (17, 21, 25)
"""Java's feature versions that Spark runs on; the first one is what messages suggest."""

LOG_STORE: Final = Path(__file__).parents[3] / "jars" / "lakeport-logstore.jar"
"""What comes with lakeport: commits on S3 that are safe for several writers, warm sessions."""

_STARTING: Final = "starting Spark"  # what those say that wait for the jars
_CENTRAL: Final = "https://repo1.maven.org/maven2"
_BLOCK: Final = 1 << 16
_SILENCE_SECONDS: Final = 30.0  # after which nobody is taken to be at the other end
_HINT: Final = (
    "check the network, the proxy and the firewall; or run `lakeport jars` where there is a "
    "network and copy the cache folder (LAKEPORT_CACHE), or set LAKEPORT_MAVEN_URL to a mirror "
    "within reach."
)


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of Maven Central, with the SHA-256 of its content in hex, and its size in bytes.

    >>> Jar("io.delta", "delta-storage", "4.4.0", "c467…", 113_863).path
    'io/delta/delta-storage/4.4.0/delta-storage-4.4.0.jar'
    """

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The file's place below a Maven repository's address."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def _pinned() -> dict[str, tuple[Jar, ...]]:
    """Read the lock file, which may be in a zip that a Spark job was submitted with."""
    content = get_data(__name__, "jars.lock") or b""
    found: dict[str, list[Jar]] = {}
    for line in content.decode("ascii").splitlines():
        if line.startswith("["):
            jars = found.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            name, version, size, digest = line.split()
            group, _, artifact = name.partition(":")
            jars.append(Jar(group, artifact, version, digest, int(size)))
    return {need: tuple(jars) for need, jars in found.items()}


JARS: Final = _pinned()
"""Need -> its jars, in the order in which they stand on the class path."""


def jars_for(needs: Iterable[str]) -> tuple[Jar, ...]:
    """The jars of all needs, each once, in an order that depends on the needs only.

    Raises:
        ConfigError: a need that nothing is pinned for.

    >>> [jar.artifact for jar in jars_for({"delta"})]
    ['delta-spark_4.2_2.13', 'delta-storage']
    """
    wanted = set(needs)
    if unknown := sorted(wanted - JARS.keys()):
        raise ConfigError(
            f"no jars are pinned for {', '.join(map(repr, unknown))}",
            f"known are {', '.join(JARS)}.",
        )
    return tuple(dict.fromkeys(jar for need in JARS if need in wanted for jar in JARS[need]))


def ensure(needs: Iterable[str], go_on: Callable[[], None] = lambda: None) -> list[Path]:
    """Local files of all jars for `needs`, downloading those that the cache lacks.

    They end with lakeport's own.

    Args:
        needs: names of `JARS`.
        go_on: called all the time while jars are fetched; what it raises ends that.

    Raises:
        ConfigError: an unknown need.
        MissingDependency: a jar is not there and can't be downloaded, or is not what was pinned.
    """
    needs = tuple(needs)
    folder = cache_folder() / "jars"
    if absent := missing(needs):
        _fetch(absent, folder, go_on)
    found = [folder / jar.name for jar in jars_for(needs)]
    return [*found, LOG_STORE]


def missing(needs: Iterable[str]) -> list[Jar]:
    """The jars for `needs` that the cache lacks."""
    folder = cache_folder() / "jars"
    return [jar for jar in jars_for(needs) if not (folder / jar.name).is_file()]


def with_cached(needs: Iterable[str]) -> frozenset[str]:
    """`needs`, and every other need whose jars the cache has in full.

    A JVM on this machine has all of them on its class path, so that one class archive is for every
    destination.
    """
    return frozenset(needs) | {need for need in JARS if not missing([need])}


def _fetch(jars: Sequence[Jar], folder: Path, go_on: Callable[[], None]) -> None:
    """Fetch jars; those that came stay, though another one did not."""
    size = sum(jar.size for jar in jars)
    address, user = _split_user(os.environ.get("LAKEPORT_MAVEN_URL") or _CENTRAL)
    with (
        activity("fetching", "jars", total=size, count_total=len(jars), part_of=_STARTING),
        ended_at_exit() as left,
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            work = Scratch("jars", folder, hidden=True)
            left.callback(work.remove)
            done = 0
            for number, jar in enumerate(jars):
                digest = hashlib.sha256()
                with (work.path / jar.name).open("wb") as sink:
                    for block in _blocks(jar, address, user):
                        sink.write(block)
                        digest.update(block)
                        go_on()
                        reached(done + sink.tell(), count=number)
                _accept(jar, work.path / jar.name, folder / jar.name, digest.hexdigest())
                done += jar.size
                reached(done, count=number + 1)
        except MissingDependency:
            raise
        except (OSError, ConfigError) as error:
            raise MissingDependency(
                f"the jar folder {folder} can't be written: "
                f"{getattr(error, 'strerror', None) or error}",
                "free room there, or set LAKEPORT_CACHE to a folder that can.",
            ) from error


def _blocks(jar: Jar, address: str, user: bytes) -> Iterator[bytes]:
    """Yield a jar's content as a Maven repository sends it.

    Raises:
        MissingDependency: it can't be had, or ends early.
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
            error.close()  # it is the answer, too
        raise MissingDependency(
            f"the jar {jar.name} can't be downloaded: {_reason(error)} (from {address})", _HINT
        ) from error


def _split_user(address: str) -> tuple[str, bytes]:
    """Split an address into what names no user, and `user:password`, which may be empty.

    >>> _split_user("https://me:p%40ss@example.org/maven/")
    ('https://example.org/maven', b'me:p@ss')
    """
    parts = urlsplit(address.rstrip("/"))
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), unquote(user).encode()


def _reason(error: Exception) -> str:
    """Say in plain words why a transfer failed."""
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


def _accept(jar: Jar, part: Path, target: Path, found: str) -> None:
    """Give a fetched file its final name, if it is the one that was pinned."""
    if found != jar.sha256:
        raise MissingDependency(
            f"{jar.name} is not the file that was pinned: its SHA-256 is {found}, not {jar.sha256}",
            "a proxy or a mirror changed it; set LAKEPORT_MAVEN_URL to a repository that has "
            "the original.",
        )
    part.chmod(0o644)
    part.replace(target)
