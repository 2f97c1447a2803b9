"""What two processes must have in common to be the same to Spark: else they share no session.

A run through a warm session has its own environment, working folder and streams. What a running
JVM can't take over from it has to be the same from the start: limits, umask, namespaces, the
variables that the JVM and its Python workers read, lakeport's code, Java and the jars.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakeport.host.process import bundled_java
from lakeport.host.scratch import cache_folder

_NAMES: Final = {
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "HADOOP_CONF_DIR",
    "HOME",
    "JAVA_HOME",
    "LAKEPORT_CACHE",
    "LAKEPORT_CDS",
    "LAKEPORT_MAVEN_URL",
    "REQUESTS_CA_BUNDLE",
    "SPARK_CONF_DIR",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TZ",
    "XDG_CACHE_HOME",
    "YARN_CONF_DIR",
}
_STARTS: Final = ("AWS_EC2_METADATA_", "JAVA_TOOL_", "JDK_JAVA_", "KRB5", "LD_", "MALLOC_")
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_PYTHON: Final = ("PYTHON", "PYSPARK_")
_HARMLESS: Final = {"PYTHONUNBUFFERED", "PYTHONWARNINGS"}  # they concern the client alone
_NAMESPACES: Final = ("ipc", "mnt", "net", "pid", "user")
_BESIDE: Final = ("PATH", "TMPDIR", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE")
_CODE: Final = Path(__file__).parents[2]
_CODE_FILES: Final = (".py", ".jar", ".lock", ".so")


class Unfit(Exception):
    """This process can't use a warm session; says why."""


def environment() -> dict[str, str]:
    """The variables that a warm session is started with: no others, and so no secrets.

    Raises:
        Unfit: as for `facts`.
    """
    return _shared() | {name: os.environ[name] for name in _BESIDE if name in os.environ}


def facts() -> dict[str, str]:
    """What a process is to Spark, by names that can be shown.

    Raises:
        Unfit: the system lacks what a warm session is built on, or the environment has a proxy
            whose address holds a password.
    """
    home = os.environ.get("JAVA_HOME")
    javas = (home and f"{home}/bin/java", shutil.which("java"), bundled_java())
    found = {f"variable {name}": value for name, value in _shared().items()}
    found |= {f"limit {name}": value for name, value in _limits()}
    for name in _NAMESPACES:
        with suppress(OSError):
            found[f"namespace {name}"] = str(Path(f"/proc/self/ns/{name}").readlink())
    return found | {
        "umask": _umask(),
        "groups": f"{os.getgid()} {' '.join(map(str, sorted(os.getgroups())))}",
        "cores": " ".join(map(str, sorted(os.sched_getaffinity(0)))),
        "encoding": f"{sys.getfilesystemencoding()} {_locale()}",
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        "Python": f"{sys.executable} {sys.version}",
        "Java": " ".join(map(_stamp, javas)),
        "lakeport": f"{_CODE} {_fingerprint(_CODE)}",
        "jars": _fingerprint(cache_folder() / "jars"),
    }


def key(found: Mapping[str, str]) -> str:
    """A short name of these facts."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def _shared() -> dict[str, str]:
    if sys.platform != "linux":
        raise Unfit("warm sessions are for Linux")
    found = {}
    for name, value in os.environ.items():
        proxy = name.lower() in _PROXIES
        if proxy and "@" in value:
            raise Unfit(f"the proxy in {name} has a password, which no session is to hold")
        python = name.startswith(_PYTHON) and name not in _HARMLESS
        if proxy or python or name in _NAMES or name.startswith(_STARTS):
            found[name] = value
    return found


def _limits() -> Iterator[tuple[str, str]]:
    for name in dir(resource):
        # Core dumps are forbidden to every process of ours.
        if name.startswith("RLIMIT_") and name != "RLIMIT_CORE":
            with suppress(OSError, ValueError):
                yield name, "{} {}".format(*resource.getrlimit(getattr(resource, name)))


def _umask() -> str:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next((line for line in lines if line.startswith("Umask:")), "")


def _locale() -> str:
    return os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"


def _stamp(name: str | Path | None) -> str:
    """Which program a name stands for, and since when."""
    with suppress(OSError):
        if name:
            real = Path(name).resolve(strict=True)
            return f"{real} {real.stat().st_mtime_ns}"
    return "none"


def _fingerprint(folder: Path) -> str:
    """Which code a folder holds, by its files' sizes and times."""
    found = sorted(
        f"{entry.path} {(told := entry.stat()).st_size} {told.st_mtime_ns}"
        for entry in _files(str(folder))
        if entry.name.endswith(_CODE_FILES)
    )
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue  # such as a jar that is being fetched
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry
