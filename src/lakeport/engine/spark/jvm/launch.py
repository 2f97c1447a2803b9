"""The start and the end of lakeport's own Spark: the JVM, and the context in it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeport.engine.failures import translate
from lakeport.engine.spark import active_context
from lakeport.engine.spark.jvm import archive, gateway, jars
from lakeport.engine.spark.jvm.java import Java, find_java
from lakeport.engine.spark.settings import heap_mb, is_local_master, master_url, session_settings
from lakeport.errors import LakeportError, MissingDependency, SparkFailure

if TYPE_CHECKING:
    from pyspark import SparkContext

_ASKED_TO_END: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

# Beginnings of settings that Spark needs before its context is made.
_EARLY: Final = ("spark.jars", "spark.jars.", "spark.files", "spark.archives", "spark.submit.")


def start_jvm_ahead(settings: Mapping[str, str] | None = None) -> None:
    """Start a JVM with default settings now, for a load that follows. Never raises."""
    with suppress(LakeportError, OSError):
        launch = Launch(find_java(), frozenset(), settings or {}, quick_start=True)
        launch._open_gateway(launch._jars(), ahead=True)


class Launch:
    """One start of a JVM and its SparkContext. Another thread may call `close` at any time.

    Args:
        needs: keys of `jars.NEEDS` that it must have.
        quick_start: whether a quick start matters more than speed in long work.
        optional_needs: further keys; without their jars it starts, too.

    Attributes:
        jvm: the JVM; None until it was started.
        needs: the keys that it has, once it is open.
        jar_error: why a jar of `optional_needs` is missing; None if none is.
    """

    def __init__(
        self,
        java: Java,
        needs: frozenset[str],
        settings: Mapping[str, str],
        *,
        quick_start: bool,
        optional_needs: frozenset[str] = frozenset(),
    ) -> None:
        self.jvm: gateway.JvmProcess | None = None
        self.needs = needs | optional_needs
        self.jar_error: MissingDependency | None = None
        self._java = java
        self._needs = needs
        self._settings = dict(settings)
        self._quick_start = quick_start
        self._master = master_url(settings)
        self._local = is_local_master(self._master)
        self._class_path_needs = needs | optional_needs
        self._lock = threading.Lock()
        self._closed = False
        self._joined = False
        self._archive: Path | None = None  # of this class path; None if none is to be recorded
        self._used: Path | None = None

    def open(self) -> SparkContext:
        """Start the JVM and return a SparkContext in it; kill the JVM if that fails.

        Raises:
            ConfigError: a setting is wrong.
            MissingDependency: a jar can't be downloaded.
            SparkFailure: Spark did not start, or `close` was called meanwhile.
        """
        try:
            jar_paths = self._jars()
            self._open_gateway(jar_paths)
            try:
                return self._open_context(jar_paths)
            except SparkFailure:
                suspect = self._suspect_archive()
                if suspect is None or self.jvm is None:
                    raise
                self.jvm.kill()
                self._open_gateway(jar_paths, shared=False)
                context = self._open_context(jar_paths)
                with suppress(OSError):
                    suspect.unlink()  # without it, Java has started
                return context
        except BaseException:
            if self.jvm is not None:
                self.jvm.kill()
            raise

    def _jars(self) -> list[Path]:
        """Download and return the class path's jars; without optional ones if a download fails."""
        if self._local:
            self._class_path_needs = jars.with_cached_needs(self.needs)
        try:
            return jars.ensure_jars(self._class_path_needs, check_cancelled=self._check_open)
        except MissingDependency as problem:
            if self._needs == self.needs:
                raise
            self.jar_error = problem
            self.needs = jars.with_cached_needs(self._needs) if self._local else self._needs
            self._class_path_needs = self.needs
            return jars.ensure_jars(self._class_path_needs, check_cancelled=self._check_open)

    @property
    def is_alive(self) -> bool:
        """Whether the JVM runs, or was not started yet."""
        return self.jvm is None or self.jvm.process.poll() is None

    def close(self, context: SparkContext | None, *, fast: bool, timeout: float) -> None:
        """Kill the JVM if `fast`, else stop it within `timeout` seconds; may interrupt `open`."""
        with self._lock:
            self._closed = True
            jvm = self.jvm
        if context is not None and not fast:
            with suppress(Exception):
                context.stop()
        if jvm is not None:
            if self._joined:  # else pyspark may not even be imported
                active_context.reset_pyspark(context, jvm.folder)
            if fast:
                jvm.kill()
            else:
                jvm.stop(timeout)

    def refresh_archive(self) -> None:
        """Have a missing class archive recorded in the background, for later starts."""
        archive.record_in_background(self._archive, self._class_path_needs)

    def _check_open(self) -> None:
        """Raise SparkFailure if `close` was called."""
        if self._closed:
            raise stopped_error()

    def _open_gateway(
        self, jar_paths: Sequence[Path], *, shared: bool = True, ahead: bool = False
    ) -> None:
        """Start the JVM with jars and options; SparkFailure if `close` was called meanwhile."""
        settings = self._settings
        needs_properties = not self._local or any(key.startswith(_EARLY) for key in settings)
        extra = settings.get("spark.driver.extraClassPath", "")
        extra_jars = [Path(entry) for entry in extra.split(os.pathsep) if entry]
        archive_place = archive.archive_path(
            self._java, gateway.list_class_path([*jar_paths, *extra_jars])
        )
        if self._local and not extra_jars:
            self._archive = archive_place
        self._used = archive.find_archive(archive_place) if shared else None
        options = (
            *archive.use_options(self._used),
            *shlex.split(settings.get("spark.driver.extraJavaOptions", "")),
        )
        started = gateway.start_jvm(
            self._java,
            [*jar_paths, *extra_jars],
            heap_mb=heap_mb(settings),
            fast_start=self._quick_start,
            options=options,
            properties={"spark.master": self._master, **settings} if needs_properties else None,
            local=self._local,
            ahead=ahead,
        )
        with self._lock:
            self.jvm = started
            closed = self._closed
        if closed:
            started.kill()
            raise stopped_error()

    def _suspect_archive(self) -> Path | None:
        """Return the class archive in use if the JVM crashed, as it may be corrupt; else None."""
        if self.jvm is None or self.is_alive or -self.jvm.process.returncode in _ASKED_TO_END:
            return None
        return self._used

    def _open_context(self, jar_paths: Sequence[Path]) -> SparkContext:
        """Start the Python workers' daemon, connect to the JVM, and return a SparkContext."""
        from pyspark import SparkConf, SparkContext

        jvm = self.jvm
        assert jvm is not None
        settings = session_settings(self.needs, self._settings, jvm.folder)
        if not self._local and jar_paths:
            listed = [*filter(None, [settings.get("spark.jars")]), *map(str, jar_paths)]
            settings["spark.jars"] = ",".join(listed)
        if self._local:
            jvm.start_workers(_worker_environment(settings))
        self._joined = True
        client = jvm.connect()
        conf = SparkConf(_jvm=client.jvm)
        for key, value in settings.items():
            conf.set(key, value)
        active_context.forget_stopped_gateway()
        try:
            context = SparkContext(conf=conf, gateway=client)
        except Exception as error:
            active_context.reset_pyspark(None, jvm.folder)
            failure = translate(error)
            raise failure from failure.__cause__
        python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        active_context.silence_loggers(context)
        context.pythonExec = sys.executable if self._local else python or "python3"
        return context


def _worker_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables of local workers: PYTHONPATH and `spark.executorEnv.*`."""
    start = "spark.executorEnv."
    given = {key[len(start) :]: v for key, v in settings.items() if key.startswith(start)}
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **given}


def stopped_error() -> SparkFailure:
    """Return the SparkFailure for the use of a session that was stopped."""
    return SparkFailure(
        "this Spark session was stopped", "start anew: the next load makes another."
    )
