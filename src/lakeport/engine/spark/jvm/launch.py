"""Spark of our own, opened and ended: the JVM, and the context in it."""

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
from lakeport.engine.spark import adopt
from lakeport.engine.spark.jvm import archive, gateway, jars
from lakeport.engine.spark.jvm.java import Java, find_java
from lakeport.engine.spark.settings import heap_mb, is_local, master_of, session_settings
from lakeport.errors import LakeportError, MissingDependency, SparkFailure

if TYPE_CHECKING:
    from pyspark import SparkContext

_ASKED_TO_END: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

# Settings that the JVM has to know before a context is made.
_EARLY: Final = ("spark.jars", "spark.jars.", "spark.files", "spark.archives", "spark.submit.")


def start_ahead(given: Mapping[str, str] | None = None) -> None:
    """Start the JVM that most loads on this machine need, before it is known what is to be loaded.

    Never fails: the load itself says what is wrong.

    Args:
        given: Spark's settings, if it is known which.
    """
    with suppress(LakeportError, OSError):
        launch = Launch(find_java(), frozenset(), given or {}, small=True)
        launch._open_gateway(launch._jars(), ahead=True)


class Launch:
    """One start of Spark, in a thread of its own, that another thread may close at any time.

    Args:
        java: the Java that runs it.
        needs: names of `jars.JARS`.
        given: the user's `spark:` mapping.
        small: whether a quick start counts most.
        also: further names, without which it starts where their jars can't be had.

    Attributes:
        jvm: the process; None until there is one.
        needs: those names that it has, once it is open.
        lacking: why it has not all of `also`; None where it has.
    """

    def __init__(
        self,
        java: Java,
        needs: frozenset[str],
        given: Mapping[str, str],
        *,
        small: bool,
        also: frozenset[str] = frozenset(),
    ) -> None:
        self.jvm: gateway.Gateway | None = None
        self.needs = needs | also
        self.lacking: MissingDependency | None = None
        self._java = java
        self._needs = needs
        self._given = dict(given)
        self._small = small
        self._master = master_of(given)
        self._local = is_local(self._master)
        self._on_path = needs | also
        self._lock = threading.Lock()
        self._closed = False
        self._joined = False
        self._archive: Path | None = None  # the one of this class path, if one is to be made
        self._used: Path | None = None

    def open(self) -> SparkContext:
        """Start the JVM and the context; no JVM is left where that fails.

        Raises:
            ConfigError: a setting is wrong.
            MissingDependency: a jar can't be had.
            SparkFailure: Spark did not start, or was closed meanwhile.
        """
        try:
            needed = self._jars()
            self._open_gateway(needed)
            try:
                return self._open_context(needed)
            except SparkFailure:
                suspect = self._suspect()
                if suspect is None or self.jvm is None:
                    raise
                self.jvm.kill()
                self._open_gateway(needed, shared=False)
                context = self._open_context(needed)
                with suppress(OSError):
                    suspect.unlink()  # it was the cause: without it, Java starts
                return context
        except BaseException:
            if self.jvm is not None:
                self.jvm.kill()
            raise

    def _jars(self) -> list[Path]:
        """Return the jars of the class path, fetched; without those of `also` that can't be had."""
        if self._local:
            self._on_path = jars.with_cached(self.needs)
        try:
            return jars.ensure(self._on_path, go_on=self._go_on)
        except MissingDependency as problem:
            if self._needs == self.needs:
                raise
            self.lacking = problem
            self.needs = jars.with_cached(self._needs) if self._local else self._needs
            self._on_path = self.needs
            return jars.ensure(self._on_path, go_on=self._go_on)

    @property
    def alive(self) -> bool:
        """Whether the JVM has not ended by itself."""
        return self.jvm is None or self.jvm.process.poll() is None

    def close(self, context: SparkContext | None, *, fast: bool, timeout: float) -> None:
        """End it, also while it opens.

        Args:
            context: what `open` returned, None before that.
            fast: end the JVM at once; for when everything is durable.
            timeout: seconds to wait for an orderly end otherwise.
        """
        with self._lock:
            self._closed = True
            jvm = self.jvm
        if context is not None and not fast:
            with suppress(Exception):
                context.stop()
        if jvm is not None:
            if self._joined:  # else pyspark knows of nothing, and importing it takes a while
                adopt.reset_pyspark(context, jvm.folder)
            if fast:
                jvm.kill()
            else:
                jvm.stop(timeout)

    def refresh_archive(self) -> None:
        """Make the class archive that the next start will use, in the background, if need be."""
        archive.refresh(self._archive, self._on_path)

    def _go_on(self) -> None:
        if self._closed:
            raise stopped_error()

    def _open_gateway(
        self, needed: Sequence[Path], *, shared: bool = True, ahead: bool = False
    ) -> None:
        given = self._given
        early = not self._local or any(key.startswith(_EARLY) for key in given)
        extra = given.get("spark.driver.extraClassPath", "")
        extra_jars = [Path(entry) for entry in extra.split(os.pathsep) if entry]
        place = archive.place(self._java, gateway.class_path([*needed, *extra_jars]))
        if self._local and not extra_jars:
            self._archive = place
        self._used = archive.find(place) if shared else None
        further = (
            *archive.options(self._used),
            *shlex.split(given.get("spark.driver.extraJavaOptions", "")),
        )
        started = gateway.start(
            self._java,
            [*needed, *extra_jars],
            heap_mb=heap_mb(given),
            fast_start=self._small,
            further=further,
            properties={"spark.master": self._master, **given} if early else None,
            local=self._local,
            ahead=ahead,
        )
        with self._lock:
            self.jvm = started
            closed = self._closed
        if closed:
            started.kill()
            raise stopped_error()

    def _suspect(self) -> Path | None:
        """The class archive with which the JVM has ended by itself, which may be damaged."""
        if self.jvm is None or self.alive or -self.jvm.process.returncode in _ASKED_TO_END:
            return None
        return self._used

    def _open_context(self, needed: Sequence[Path]) -> SparkContext:
        from pyspark import SparkConf, SparkContext

        jvm = self.jvm
        assert jvm is not None
        settings = session_settings(self.needs, self._given, jvm.folder)
        if not self._local and needed:
            listed = [*filter(None, [settings.get("spark.jars")]), *map(str, needed)]
            settings["spark.jars"] = ",".join(listed)
        if self._local:
            jvm.start_workers(_worker_environment(settings))
        self._joined = True
        client = jvm.connect()
        conf = SparkConf(_jvm=client.jvm)
        for key, value in settings.items():
            conf.set(key, value)
        adopt.detach()
        try:
            context = SparkContext(conf=conf, gateway=client)
        except Exception as error:
            adopt.reset_pyspark(None, jvm.folder)
            failure = translate(error)
            raise failure from failure.__cause__
        python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        adopt.silence_loggers(context)
        context.pythonExec = sys.executable if self._local else python or "python3"
        return context


def _worker_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment that workers on this machine have from their start."""
    start = "spark.executorEnv."
    given = {key[len(start) :]: v for key, v in settings.items() if key.startswith(start)}
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **given}


def stopped_error() -> SparkFailure:
    """The error for work that comes after the end."""
    return SparkFailure(
        "this Spark session was stopped", "start anew: the next load makes another."
    )
