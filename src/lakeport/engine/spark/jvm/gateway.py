"""Spark's JVM, started directly: one process, no launcher, no secrets on its command line.

A program may start a JVM ahead, before it knows its load: the next start takes it over if it needs
the same JVM.

The JVM ends in order when the pipe to its standard input is closed. When this process ends, however
it does, Linux kills the JVM, also while it boots; on other systems the pipe ends it.
"""

from __future__ import annotations

import atexit
import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.spark import daemon
from lakeport.engine.spark.jvm.java import Java
from lakeport.engine.spark.jvm.versions import find_spark_home
from lakeport.errors import SparkFailure
from lakeport.host.process import forbid_core_dumps, start_bound_process
from lakeport.host.scratch import ScratchFolder

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer

# The options of org.apache.spark.launcher.JavaModuleOptions in Spark 4.2.0, without
# `--add-modules=jdk.incubator.vector`, which only speeds up MLlib's BLAS.
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
# Spark has checked the bounds that Arrow would check at each read and write of a value.
_ARROW_OPTIONS: Final = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
# With C1 alone Java has a code cache of 48 MB. Spark's generated classes fill it within minutes;
# Java sweeps it again and again from then on.
_FAST_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
_LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
_STANDBY: Final = "workers"
_LAST_LINES: Final = 3
_START_SECONDS: Final = 120.0
_JOIN_LOCK: Final = threading.Lock()
_ahead: Final[list[tuple[object, JvmProcess]]] = []
"""The JVM that was started ahead, if any, with the arguments of `start_jvm`."""


def list_class_path(jars: Sequence[Path]) -> list[Path]:
    """Return the class path: folders of SPARK_CONF_DIR and others, Spark's jars, then `jars`."""
    folders = [
        Path(os.environ[name])
        for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
        if os.environ.get(name)
    ]
    return [*folders, *sorted((find_spark_home() / "jars").glob("*.jar")), *jars]


@dataclass(eq=False, slots=True)
class JvmProcess:
    """A Spark JVM started by this process, its private folder and its Python workers' daemon.

    Attributes:
        scratch: its private folder, with the log; `kill` and `stop` remove it.
        workers: the daemon that `start_workers` started; None before.
    """

    process: subprocess.Popen[bytes]
    scratch: ScratchFolder
    workers: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def folder(self) -> Path:
        """Path of the private folder."""
        return self.scratch.path

    @property
    def log(self) -> Path:
        """Path of the JVM's log, which has errors only."""
        return self.folder / "jvm.log"

    def start_workers(self, environment: Mapping[str, str]) -> None:
        """Start the daemon of Python workers with these variables, unless the JVM has ended.

        It imports what tasks need while the JVM starts.
        """
        with self._lock:
            if self.process.poll() is None:
                self.workers = daemon.start_standby(self.folder / _STANDBY, environment)

    def connect(self, timeout: float = _START_SECONDS) -> ClientServer:
        """Wait up to `timeout` seconds for the JVM; return a py4j client, or raise SparkFailure.

        Raises:
            SparkFailure: the JVM ended, or did not listen in time.
        """
        info = self.folder / "gateway"
        end = time.monotonic() + timeout
        while not info.is_file():
            if self.process.poll() is not None:
                raise SparkFailure(
                    f"Spark's Java process ended at its start with exit code "
                    f"{self.process.returncode}: {self.last_words()}",
                    "is there enough memory for it (`spark.driver.memory`)?",
                )
            if time.monotonic() > end:
                raise SparkFailure(
                    f"Spark's Java process did not answer within {timeout:.0f} s",
                    "the machine may be overloaded; try again.",
                )
            time.sleep(0.002)
        # The file has a port and the length of a secret, four bytes each, then the secret.
        content = info.read_bytes()
        info.unlink()
        return join_jvm(struct.unpack(">i", content[:4])[0], content[8:].decode())

    def last_words(self) -> str:
        """Return the last three lines of the JVM's log without stack traces, for messages."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "it left no log"
        words = [
            line.strip()
            for line in text.splitlines()
            if line.strip() and not re.match(r"\s+at |WARNING: package ", line)
        ]
        return "; ".join(words[-_LAST_LINES:]) or "it left no log"

    def stop(self, timeout: float = 20.0) -> None:
        """Ask the JVM to end; kill it after `timeout` seconds. Remove its private folder."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """Kill the JVM and its Python workers, and remove its private folder."""
        with self._lock:
            if self.process.poll() is None:
                self.process.kill()
            if self.workers is not None:
                daemon.end_standby(self.workers)
            self.process.wait()
            if self.process.stdin is not None and not self.process.stdin.closed:
                self.process.stdin.close()
            self.scratch.remove()


def join_jvm(port: int, secret: str) -> ClientServer:
    """Return a py4j client of the JVM that listens on a local port, with its secret."""
    from pyspark import java_gateway
    from pyspark.sql import types

    variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    # Not by `os.environ`: a thread that iterates over it would fail when a name is removed, and a
    # process started meanwhile would inherit the secret.
    pyspark_module: Any = java_gateway
    with _JOIN_LOCK:
        pyspark_module.os = SimpleNamespace(environ={**os.environ, **variables})
        try:
            client: ClientServer = pyspark_module.launch_gateway()
        finally:
            pyspark_module.os = os
    calls = client._gateway_client
    of_numpy = (types.NumpyScalarConverter, types.NumpyArrayConverter)
    calls.converters = [
        _NumpyConverter(converter) if isinstance(converter, of_numpy) else converter
        for converter in calls.converters
    ]
    return client


class _NumpyConverter:
    """py4j converter of numpy values that never imports numpy by itself.

    PySpark's own looks for numpy by importing its test helpers, which import pandas: 0.2 s.
    """

    def __init__(self, converter: Any) -> None:
        self.convert = converter.convert
        self._can_convert = converter.can_convert

    def can_convert(self, value: object) -> bool:
        """Whether `value` is a numpy scalar or array that PySpark's converter accepts."""
        numpy = sys.modules.get("numpy")
        return (
            numpy is not None
            and isinstance(value, (numpy.generic, numpy.ndarray))
            and self._can_convert(value)
        )


def start_jvm(
    java: Java,
    jars: Sequence[Path] = (),
    *,
    heap_mb: int,
    fast_start: bool,
    options: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    local: bool = True,
    ahead: bool = False,
) -> JvmProcess:
    """Start Spark's JVM and return at once; or return the one that a call with `ahead` started.

    Args:
        jars: the class path beside Spark's own jars.
        fast_start: compile with C1 only: it starts sooner, and is slower in long work.
        options: further options of Java, such as those for a class archive.
        properties: settings that Spark needs before its context is made; they go through a private
            file.
        local: bind to the loopback interface only, and give workers this process's `sys.path`.
        ahead: keep the JVM for a later call with the same arguments, environment and `sys.path`.
            Any other call, or the end of this process, ends it.
    """
    environment = (dict(os.environ), [*sys.path])
    arguments = (java, [*jars], heap_mb, fast_start, [*options], properties, local, environment)
    if _ahead:
        other, started = _ahead.pop()
        atexit.unregister(started.kill)
        if other == arguments and started.process.poll() is None:
            return started
        started.kill()
    scratch = ScratchFolder("spark")
    folder = scratch.path
    for name in ("local", "tmp", "failed"):
        (folder / name).mkdir()
    (folder / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    command = [
        str(java.path),
        "-cp",
        os.pathsep.join(map(str, list_class_path(jars))),
        f"-Xmx{heap_mb}m",
        "-Xss4m",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        *(_FAST_START if fast_start else ()),
        *_MODULE_OPTIONS,
        *_ARROW_OPTIONS,
        "-XX:-CreateCoredumpOnCrash",
        f"-XX:ErrorFile={folder / 'crash.log'}",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
        *options,
        "org.apache.spark.deploy.SparkSubmit",
    ]
    if properties:
        command += ["--properties-file", str(_write_properties(folder, properties))]
    command.append("pyspark-shell")
    variables = {
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "gateway"),
        "SPARK_CONNECT_MODE": "0",
    }
    if local:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        variables[daemon.ADDRESS] = str(folder / _STANDBY)
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    if not local:
        variables["SPARK_HOME"] = str(find_spark_home())
    with (folder / "jvm.log").open("wb") as log:
        process = start_bound_process(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=inherited | variables,
            start_new_session=True,
        )
    forbid_core_dumps(process.pid)
    gateway = JvmProcess(process, scratch)
    if ahead:
        atexit.register(gateway.kill)
        _ahead.append((arguments, gateway))
    return gateway


def _write_properties(folder: Path, properties: Mapping[str, str]) -> Path:
    """Write Spark's settings to a properties file with mode 600; return its path."""
    path = folder / "spark.conf"
    lines = (
        f"{_escape_property(key)}={_escape_property(value)}\n" for key, value in properties.items()
    )
    path.touch(mode=0o600, exist_ok=False)
    path.write_text("".join(lines), encoding="ascii")
    return path


def _escape_property(text: str) -> str:
    r"""Return a text escaped for a Java properties file.

    >>> _escape_property("a b=ü")
    'a\\ b\\=\\u00fc'
    """
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2))
    return "".join(
        f"\\u{code:04x}"
        if code > 126 or code < 32
        else f"\\{chr(code)}"
        if chr(code) in "\\ :=#!"
        else chr(code)
        for code in codes
    )
