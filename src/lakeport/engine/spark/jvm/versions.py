"""The Spark versions that lakeport was run on, the one that is installed, and a master's.

A version counts by its minor, such as 4.2. `jars.lock` has the jars of each.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lakeport.errors import ConfigError, MissingDependency

JAVA: Final = {
    "3.5": (17,),
    "4.0": (17, 21),
    "4.1": (17, 21),
    "4.2": (17, 21, 25),
    "4.3": (17, 21, 25),
}
"""Spark's minor version, oldest first -> Java's feature versions that it runs on.

Messages suggest the first of these.
"""

MASTER_PORT: Final = "spark.master.ui.port"
_PAGE_SECONDS: Final = 2.0  # timeout for a master's page
_PAGE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SparkBuild:
    """A Spark installation's version and the Scala version that it was built for.

    Attributes:
        version: the whole version, such as `4.2.0`; vendors add their own suffix to it.
        scala: Scala's binary version, such as `2.13`.
    """

    version: str
    scala: str

    @property
    def minor(self) -> str:
        """The minor version.

        >>> SparkBuild("3.5.1-amzn-0", "2.12").minor
        '3.5'
        """
        return ".".join(self.version.split(".")[:2])

    @property
    def java_versions(self) -> tuple[int, ...]:
        """Java's feature versions that it runs on; those of the newest known Spark if unknown."""
        *_, newest = JAVA.values()
        return JAVA.get(self.minor, newest)


def find_spark_home() -> Path:
    """Return the installed pyspark package's folder; MissingDependency if there is none."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingDependency("pyspark is not installed", "`pip install lakeport` brings it.")
    return Path(spec.origin).parent


@cache
def installed_build() -> SparkBuild:
    """Return the installed pyspark's build, without an import of it.

    Raises:
        MissingDependency: there is no pyspark.
    """
    home = find_spark_home()
    text = (home / "version.py").read_text(encoding="utf-8")
    version = re.search(r"__version__.*?[\"'](.+?)[\"']", text)
    libraries = [path.name for path in (home / "jars").glob("scala-library-*.jar")]
    scala = re.search(r"-(\d+\.\d+)", libraries[0]) if libraries else None
    return SparkBuild(version[1] if version else "", scala[1] if scala else "2.13")


def find_other_master(master: str, port: str | None, own: str) -> ConfigError | None:
    """Return the error if a standalone master's web page shows another minor version of Spark.

    None for other masters, and where no page is at the port (default: 8080).

    Args:
        master: the master's URL.
        own: this process' version of Spark.
    """
    scheme, _, addresses = master.partition("://")
    for address in addresses.split(",") if scheme == "spark" else ():
        host, _, own_port = address.rpartition(":")
        other = _read_master_version(host, port or "8080", own_port)
        if other and SparkBuild(other, "").minor != SparkBuild(own, "").minor:
            return ConfigError(
                f"the master {master} runs Spark {other}, and this process runs {own}",
                f"both have to be of one version: `pip install 'pyspark=={other}'`.",
            )
    return None


def _read_master_version(host: str, port: str, master_port: str) -> str:
    """Return the Spark version that a standalone master's web page shows.

    Empty if there is no such page, or it is one of a master at another port.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    url = f"http://{host}:{port}/"
    with suppress(OSError, HTTPException, ValueError), urlopen(url, timeout=_PAGE_SECONDS) as page:
        text = page.read(_PAGE_BYTES).decode(errors="replace")
        ports = re.findall(r"spark://[^\s<]*?:(\d+)", text)
        found = re.search(r'class="version\b[^>]*>([\w.-]+)<', text)
        if found and (not ports or master_port in ports):
            return found[1]
    return ""
