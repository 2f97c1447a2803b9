"""Jars on their way from a Maven repository: through Ivy, or from a mirror.

A jar has its own name in the work folder once all of it has come, and ends with `.part` before: one
look at the folder tells how far a fetch is, whichever way it goes.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lakeport.engine.spark.jvm import ivy
from lakeport.engine.spark.jvm.versions import Jar
from lakeport.errors import MissingDependency
from lakeport.host.activity import reached
from lakeport.host.scratch import Scratch

__all__ = ["fetch"]

_HINT: Final = (
    "check the network, the proxy and the firewall; or run `lakeport jars` where there is a "
    "network and copy the cache folder (LAKEPORT_CACHE), or set LAKEPORT_MAVEN_URL to a mirror "
    "within reach."
)
_BLOCK: Final = 1 << 16
_LOOK_SECONDS: Final = 0.1
_SILENCE_SECONDS: Final = 30.0  # after which nobody is taken to be at the other end
_PART: Final = ".part"  # Ivy's word, too


def fetch(jars: Sequence[Jar], work: Scratch, go_on: Callable[[], None]) -> None:
    """Have all jars in a folder, and tell on the way how far they are.

    Args:
        jars: what to fetch.
        work: an empty folder; what came before an error is whole there.
        go_on: called all the time; what it raises ends the fetch.

    Raises:
        MissingDependency: a jar can't be had.
    """
    watch = _Watch(jars, work.path, go_on)
    mirror = os.environ.get("LAKEPORT_MAVEN_URL")
    if mirror:
        for jar in jars:
            _download(jar, mirror.rstrip("/"), work.path, watch)
    else:
        _retrieve(jars, work, watch)


class _Watch:
    """Looks at a work folder: how far the jars are, and whether anything still comes."""

    def __init__(self, jars: Sequence[Jar], work: Path, go_on: Callable[[], None]) -> None:
        self._jars = jars
        self._work = work
        self._go_on = go_on
        self._seen = -1
        self._changed = time.monotonic()

    def look(self) -> None:
        """Look.

        Raises:
            MissingDependency: nothing has come for too long.
        """
        self._go_on()
        now = time.monotonic()
        sizes = _sizes(self._work)
        files = [str(self._work / jar.name) for jar in self._jars]
        whole = sum(file in sizes for file in files)
        reached(sum(sizes.get(f, sizes.get(f + _PART, 0)) for f in files), count=whole)
        if (seen := sum(sizes.values())) != self._seen:
            self._seen, self._changed = seen, now
        elif now - self._changed > _SILENCE_SECONDS:
            absent = [file for file in files if file not in sizes] or files
            raise _failure(f"the jar {Path(absent[0]).name}", _silence())


def _sizes(folder: Path) -> dict[str, int]:
    """The sizes of all files below a folder, whatever makes and removes some meanwhile."""
    found = {}
    for above, _, names in os.walk(folder):
        for file in (Path(above, name) for name in names):
            with suppress(OSError):
                found[str(file)] = file.stat().st_size
    return found


def _retrieve(jars: Sequence[Jar], work: Scratch, watch: _Watch) -> None:
    """Fetch through Ivy, which Spark ships and which knows Maven's central repository."""
    log = work.path / "ivy.log"
    with log.open("wb") as output, ivy.fetching(jars, work, output.fileno()) as process:
        while process.poll() is None:
            watch.look()
            time.sleep(_LOOK_SECONDS)
    for jar in jars:
        if not (work.path / jar.name).is_file():
            said = log.read_text(encoding="utf-8", errors="replace")
            raise _failure(f"the jar {jar.name}", ivy.reason(jar, said))


def _download(jar: Jar, mirror: str, work: Path, watch: _Watch) -> None:
    """Copy the jar from a mirror, whose address may hold a user and a password."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    address, user = _parted(mirror)
    request = Request(f"{address}/{jar.path}")  # noqa: S310  # the user names the mirror
    if user:
        request.add_unredirected_header("Authorization", f"Basic {b64encode(user).decode()}")
    part = work / (jar.name + _PART)
    try:
        opened = urlopen(request, timeout=_SILENCE_SECONDS)  # noqa: S310  # a digest is compared
        with opened as source, part.open("wb") as sink:
            while block := source.read1(_BLOCK):
                sink.write(block)
                watch.look()
        announced = int(source.headers.get("Content-Length", -1))
        if (came := part.stat().st_size) < announced:
            raise HTTPException(f"the connection ended after {came:,} of {announced:,} bytes")
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is the answer, too
        raise _failure(f"the jar {jar.name}", f"{_told(error)} (from {address})") from error
    part.rename(work / jar.name)


def _parted(address: str) -> tuple[str, bytes]:
    """An address without the user and the password in it, and these.

    >>> _parted("https://me:p%40ss@example.org/maven")
    ('https://example.org/maven', b'me:p@ss')
    """
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), unquote(user).encode()


def _told(error: Exception) -> str:
    """What an error of the transfer says, in plain words."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return _silence()
    if status := getattr(error, "code", None):
        return f"the answer is {status} {reason}"
    return str(getattr(reason, "strerror", None) or reason)


def _silence() -> str:
    return f"nothing has come for {_SILENCE_SECONDS:.0f} s"


def _failure(what: str, why: str) -> MissingDependency:
    return MissingDependency(f"{what} can't be downloaded: {why}", _HINT)
