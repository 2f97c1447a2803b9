"""Ivy, which Spark ships: it knows Maven's central repository, and fetches jars from it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.jvm.trust import trust_options
from lakeport.engine.spark.jvm.versions import Jar
from lakeport.host.process import ended_at_exit
from lakeport.host.scratch import Scratch
from lakeport.scrub import scrub

__all__ = ["fetching", "reason"]

# Ivy's own settings would ask for each jar's POM and checksums, too: six times the time for all.
_SETTINGS: Final = """<ivysettings>
<settings defaultResolver="maven"/>
<caches artifactPattern="[artifact]-[revision].[ext]"/>
<timeout-constraints>
<timeout-constraint name="patient" connectionTimeout="10000" readTimeout="30000"/>
</timeout-constraints>
<resolvers>
<ibiblio name="maven" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""
 timeoutConstraint="patient"/>
</resolvers>
</ivysettings>
"""
_MODULE: Final = """<ivy-module version="2.0">
<info organisation="lakeport" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>{}</dependencies>
</ivy-module>
"""
_REASONS: Final = (
    re.compile(r"Server access error at url \S+ \((.*)\)$"),
    re.compile(r"(Host \S+ not found)"),
    re.compile(r"\[FAILED +\] [^:]+: (.*?)(?: \(\d+ms\))?$"),
    re.compile(r"module (not found)"),
)
"""How Ivy says why it could not get a jar, the most telling first."""
_SIGN_IN: Final = "Your proxy requires authentication."
_DISTRUST: Final = "PKIX path building failed"
_JAVA_CLASS: Final = re.compile(r"^(?:\w+\.)+(\w+?)(?:Exception|Error): ")
_WORD_BREAK: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@contextmanager
def fetching(jars: Sequence[Jar], work: Scratch, output: int) -> Iterator[subprocess.Popen[bytes]]:
    """Ivy's process, which ends with the body at the latest.

    Args:
        jars: what it is to fetch.
        work: where it puts them; a name ends with `.part` before all of that jar has come.
        output: descriptor of the file that takes what it says.

    Raises:
        MissingDependency: there is no Java.
    """
    java = find_java().path
    folder = work.path
    (folder / "ivysettings.xml").write_text(_SETTINGS)
    (folder / "ivy.xml").write_text(_MODULE.format("".join(map(_dependency, jars))))
    # In a file, as every user of the machine sees a command line.
    arguments = folder / "arguments"
    arguments.touch(mode=0o600)
    options = [*trust_options(java, folder), *_arguments(folder)]
    arguments.write_text("".join(f"{_quoted(each)}\n" for each in options))
    with ended_at_exit() as left:
        process = subprocess.Popen(
            [str(java), f"@{arguments}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=work.lock,
        )
        left.callback(_end, process)
        yield process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _dependency(jar: Jar) -> str:
    return (
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" '
        'conf="default" transitive="false"/>'
    )


def _arguments(folder: Path) -> list[str]:
    """What stands behind `java`."""
    import pyspark

    program = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    return [
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *_proxy()),
        *("-cp", str(program), "org.apache.ivy.Main", "-warn"),
        *("-settings", str(folder / "ivysettings.xml")),
        *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder)),
    ]


def _proxy() -> list[str]:
    """Java's options for the proxy that the environment names, as Java does not look there."""
    from urllib.request import getproxies

    named = getproxies()
    proxy = urlsplit(named.get("https") or named.get("all") or "")
    if not proxy.hostname:
        return []
    options = [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"]
    if proxy.username:
        options += [
            f"-Dhttp.proxyUser={unquote(proxy.username)}",
            f"-Dhttp.proxyPassword={unquote(proxy.password or '')}",
            "-Djdk.http.auth.tunneling.disabledSchemes=",
        ]
    direct = [host.strip().lstrip(".") for host in named.get("no", "").split(",")]
    hosts = [each for host in direct if host for each in (host, f"*.{host}")]
    return [*options, f"-Dhttp.nonProxyHosts={'|'.join(['localhost', '127.*', *hosts])}"]


def _quoted(argument: str) -> str:
    r"""An argument in a file of `java`'s.

    >>> print(_quoted('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def reason(jar: Jar, said: str) -> str:
    """Why a jar did not come, in plain words.

    Args:
        jar: the jar.
        said: all that Ivy has written.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip(" .")]
    lines = [line for line in lines if not line.startswith(("at ", "... "))]  # Java's traces
    if _SIGN_IN in lines:
        return "the proxy (HTTPS_PROXY) asks for another user and password"
    about = [each for each in lines if jar.name in each or f"#{jar.artifact};" in each]
    for pattern in _REASONS:
        for line in reversed(about):
            if found := pattern.search(line):
                return _plain(found[1])
    return _plain(lines[-1]) if lines else "Ivy, which fetches them, ended without a word"


def _plain(said: str) -> str:
    """A reason without the name of Java's class.

    >>> _plain("java.net.UnknownHostException: example.org")
    'unknown host: example.org'
    """
    if _DISTRUST in said:
        return (
            "Java doesn't trust the server's certificate (with LAKEPORT_MAVEN_URL set, it is "
            "Python that fetches, and trusts SSL_CERT_FILE)"
        )
    named = _JAVA_CLASS.match(said)
    if named is not None:
        kind = _WORD_BREAK.sub(" ", named[1]).lower()
        said = f"{kind}: {said[named.end() :]}".removeprefix("io: ")
    return scrub(said)
