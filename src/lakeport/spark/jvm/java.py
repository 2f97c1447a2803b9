"""Which Java to start Spark with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakeport.errors import MissingDependency
from lakeport.spark.jvm.versions import JAVA

__all__ = ["Java", "find_java"]

_VECTOR: Final = "jdk.incubator.vector"
_INSTALL: Final = (
    f"install it with `apt-get install openjdk-{JAVA[0]}-jre-headless` or "
    f"`brew install openjdk@{JAVA[0]}`, or set JAVA_HOME to the folder of one that is there."
)
_MAC_HOME: Final = "Contents/Home"
_PLACES: Final = (
    ("/usr/lib/jvm", "*", ""),
    ("/opt/homebrew/opt", "openjdk@*", f"libexec/openjdk.jdk/{_MAC_HOME}"),
    ("/usr/local/opt", "openjdk@*", f"libexec/openjdk.jdk/{_MAC_HOME}"),
    ("/Library/Java/JavaVirtualMachines", "*", _MAC_HOME),
)
_WANTED: Final = f"Java {' or '.join(map(str, JAVA))} is needed"


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation.

    Attributes:
        path: the `java` program.
        version: feature version, such as 17.
        full_version: such as `17.0.15`.
        complete: whether it has the modules that Spark starts with.
    """

    path: Path
    version: int
    full_version: str
    complete: bool = True

    @property
    def suitable(self) -> bool:
        """Whether Spark runs on it."""
        return self.version in JAVA and self.complete


def find_java() -> Java:
    """The Java to use: `JAVA_HOME`, then `PATH`, then what is installed in the usual folders.

    Raises:
        MissingDependency: there is none, or none that Spark runs on.
    """
    refused: list[Java] = []
    for path in _candidates():
        found = _inspect(path)
        if found is None or found in refused:
            continue
        if found.suitable:
            return found
        refused.append(found)
    if not refused:
        raise MissingDependency(f"{_WANTED}, found none", _INSTALL)
    first = next((java for java in refused if java.version in JAVA), refused[0])
    if first.version in JAVA:
        raise MissingDependency(
            f"the Java {first.version} at {first.path} lacks the module {_VECTOR}, "
            "which Spark starts with",
            f"it is a cut-down runtime; {_INSTALL}",
        )
    raise MissingDependency(f"{_WANTED}, found {first.version} at {first.path}", _INSTALL)


def _candidates() -> Iterator[Path]:
    """Java programs, the user's own choice first."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for folder, pattern, inner in _PLACES:
        for home_folder in sorted(Path(folder).glob(pattern)):
            yield home_folder / inner / "bin" / "java"


def _inspect(path: Path) -> Java | None:
    """What a `java` program is, or None if it is none. Its `release` file saves starting it."""
    try:
        real = path.resolve(strict=True)
    except OSError:
        return None
    if not os.access(real, os.X_OK) or not real.is_file():
        return None
    try:
        text = (real.parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _ask(real)
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?', text, re.MULTILINE))
    full = release.get("JAVA_VERSION", "")
    version = _feature_version(full)
    if version is None:
        return _ask(real)
    modules = release.get("MODULES")
    return Java(real, version, full, modules is None or _VECTOR in modules.split())


def _ask(path: Path) -> Java | None:
    """Start `java -version`, for installations without a readable `release` file."""
    try:
        asked = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
        listed = subprocess.run(
            [path, "--list-modules"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    version = _feature_version(match[1]) if match else None
    if match is None or version is None:
        return None
    return Java(path, version, match[1], listed.returncode != 0 or _VECTOR in listed.stdout)


def _feature_version(text: str) -> int | None:
    """The number that Java is called by.

    >>> _feature_version("17.0.15"), _feature_version("1.8.0_402"), _feature_version("25")
    (17, 8, 25)
    """
    match = re.match(r"(?:1\.(?=\d))?(\d+)", text)
    return int(match[1]) if match else None
