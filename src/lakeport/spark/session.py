"""The Spark that a run uses: the session that is active in this process, or one of our own.

A session of our own starts in the background while the input is read. Its JVM ends with this
process, however that ends.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import finalize

from lakeport.errors import ConfigError, LakeportError, SparkFailure
from lakeport.scrub import is_secret_name
from lakeport.spark import adopt, archive, gateway, jars
from lakeport.spark.failures import translate, translated
from lakeport.spark.java import Java, find_java
from lakeport.spark.settings import (
    attempts_of,
    check,
    cores_of,
    heap_mb,
    is_local,
    session_settings,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["Runtime"]

# Settings that the JVM has to know before a context is made.
_EARLY: Final = ("spark.jars", "spark.jars.", "spark.files", "spark.archives", "spark.submit.")


class Runtime:
    """A Spark session with what a run has to know about it.

    Make one with `Runtime.start`. All methods may be called from any thread.

    Args:
        options: further JVM options, for making class archives.
        also: as for `start`.

    Attributes:
        needs: names of `versions.JARS` that it has.
        adopted: whether somebody else built the session; it is then never stopped.
        streams: number of streaming queries that run on it; while there are any, no other session
            takes its place.
        secrets: values that were handed over and must not be in any message.
    """

    _current: ClassVar[Runtime | None] = None
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        needs: frozenset[str],
        settings: Mapping[str, str],
        *,
        small: bool,
        options: Sequence[str] = (),
        also: frozenset[str] = frozenset(),
    ) -> None:
        """Begin to start; never waits."""
        self.needs = needs
        self.adopted = False
        self.streams = 0
        self.secrets: set[str] = set()
        self._given = dict(settings)
        self._options = tuple(options)
        self._small = small
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._session_lock = threading.Lock()  # making one takes a second: jobs need not wait
        self._ready = threading.Event()
        self._stopped = False
        self._warmed = False
        self._error: LakeportError | None = None
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None
        self._gateway: gateway.Gateway | None = None
        self._archive: Path | None = None
        self._folder: Path | None = None
        self._master = settings.get("spark.master", "local[*]")
        self._attempts = attempts_of({"spark.master": self._master, **settings})
        check(settings)
        running = adopt.find()
        if running is not None:
            self._adopt(running)
            return
        self.needs = needs | also
        heap_mb(settings)
        java = find_java()
        atexit.register(self._end)
        threading.Thread(
            target=self._build, args=(java,), name="lakeport-spark", daemon=True
        ).start()

    @classmethod
    def start(
        cls,
        needs: set[str] | frozenset[str],
        settings: Mapping[str, str],
        small: bool,
        keep: SparkContext | None = None,
        also: frozenset[str] = frozenset(),
    ) -> Runtime:
        """Adopt the active session, take up our own again, or begin to start one; never waits.

        Args:
            needs: names of `versions.JARS`.
            settings: the user's `spark:` mapping; without effect on a session that is adopted.
            small: whether the load is known to be small, so that a quick start counts most.
            keep: a context that must go on, because the source is a frame of its session.
            also: further names of `versions.JARS`, for sessions of our own only: whoever needs
                them in a session that is adopted looks for them there.

        Raises:
            ConfigError: a setting is wrong, or the active session lacks something and can't be
                replaced by another one.
            MissingDependency: there is no Java that Spark runs on.
        """
        with cls._guard:
            current, own = cls._current, frozenset(needs) | also
            if current is not None and current._serves(own, settings):
                return current
            if current is not None and not current.adopted:
                current._check_idle(own, keep)
                current.stop()
            cls._current = cls(frozenset(needs), settings, small=small, also=also)
            return cls._current

    @property
    def context(self) -> SparkContext:
        """The context; waits for it.

        Raises:
            MissingDependency: a jar can't be had.
            SparkFailure: Spark did not start, or was stopped.
        """
        self._ready.wait()
        if self._error is not None:
            raise self._error
        if self._stopped or self._context is None:
            raise SparkFailure("this Spark session was stopped")
        return self._context

    @property
    def spark(self) -> SparkSession:
        """The session, made when first asked for; raises like `context`."""
        context = self.context
        with self._session_lock:
            if self._session is None:
                from pyspark.sql import SparkSession

                with translated(self.secrets):
                    self._session = SparkSession(context)
            return self._session

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its disk."""
        return is_local(self._master)

    @property
    def cores(self) -> int:
        """How many tasks run at once; waits for the context only on a cluster."""
        return cores_of(self._master) if self.is_local else int(self.context.defaultParallelism)

    @property
    def attempts(self) -> int:
        """How often Spark tries a task."""
        return self._attempts

    @property
    def speculates(self) -> bool:
        """Whether Spark starts slow tasks a second time."""
        asked = self.context.getConf().get("spark.speculation") if not self.is_local else None
        return (asked or "false").lower() == "true"

    def configure(self, settings: Mapping[str, str]) -> None:
        """Hand settings to Hadoop's file systems, where neither UI nor logs show them.

        Args:
            settings: such as `fs.s3a.bucket.NAME.secret.key`. A file system keeps what it was
                opened with: call this before the first use of its bucket.
        """
        self.secrets |= {value for key, value in settings.items() if is_secret_name(key) and value}
        jsc = self.context._jsc
        with translated(self.secrets):
            for key, value in settings.items():
                jsc.hadoopConfiguration().set(key, value)

    def warm(self) -> None:
        """Begin to start the Python workers, and to load what a first job and commit need; once.

        Never waits, never fails: the work that comes later says what is wrong.
        """
        if self._warmed:
            return
        self._warmed = True
        rehearsal = (self._rehearse,) if self.is_local and "delta" in self.needs else ()
        bodies = [self._warm, *rehearsal]
        for body in bodies:
            threading.Thread(target=body, name="lakeport-warm", daemon=True).start()

    @contextmanager
    def flags(self) -> Iterator[str]:
        """A folder that the tasks of one job share, empty text where they share no disk."""
        if not self.is_local:
            yield ""
            return
        self._ready.wait()
        with self._lock:
            if self._folder is None and self._gateway is not None:
                self._folder = self._gateway.folder / "failed"
            elif self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="lakeport-jobs-"))
                finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        folder = tempfile.mkdtemp(dir=self._folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self, fast: bool = True, *, timeout: float = 20.0) -> None:
        """End a session of our own. Fine if it has ended, or was adopted.

        Args:
            fast: end the JVM at once; for when everything is durable.
            timeout: seconds to wait for an orderly end otherwise.
        """
        if os.getpid() != self._owner:
            return
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            started, context, jvm = self._ready.is_set(), self._context, self._gateway
        self._ready.set()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self.adopted:
            return
        atexit.unregister(self._end)
        if context is not None and not fast:
            with suppress(Exception):
                context.stop()
        if jvm is not None:
            adopt.forget(context, jvm.folder)
            if fast:
                jvm.kill()
            else:
                jvm.stop(timeout)
        if started and self._error is None and not self._options:
            archive.refresh(self._archive, self.needs)

    def _end(self) -> None:
        """`stop`, at the interpreter's end: threads of ours may still talk to the JVM."""
        adopt.hush_calls()
        self.stop()

    def _serves(self, needs: frozenset[str], settings: Mapping[str, str]) -> bool:
        """Whether a new run can go on with this session."""
        jvm = self._gateway
        alive = jvm is None or jvm.process.poll() is None
        usable = alive and not self._stopped and self._error is None and not self.adopted
        return usable and needs <= self.needs and dict(settings) == self._given

    def _check_idle(self, needs: frozenset[str], keep: SparkContext | None) -> None:
        """Refuse to end a session of our own that a query or a frame is bound to."""
        alive = not self._stopped and self._context is not None
        if not alive or not (self.streams or keep is self._context):
            return
        bound = "a stream runs" if self.streams else "the frame was made"
        lacking = ", ".join(sorted(needs - self.needs))
        raise ConfigError(
            f"{bound} on a session of lakeport's own that "
            + (f"lacks the jars for {lacking}" if lacking else "has other `spark` settings"),
            "use another process for it, or build a session that has what both need: lakeport "
            "adopts it.",
        )

    def _adopt(self, context: SparkContext) -> None:
        from pyspark.sql import SparkSession

        with translated():
            self._session = SparkSession.builder.getOrCreate()
            adopt.check(self._session, self.needs)
            conf = context.getConf()
        self.adopted = True
        self._context = context
        self._master = str(context.master)
        failures = conf.get("spark.task.maxFailures") or "4"
        self._attempts = attempts_of(
            {"spark.master": self._master, "spark.task.maxFailures": failures}
        )
        self._ready.set()

    def _build(self, java: Java) -> None:
        """Body of the background thread: the JVM, then the context, then the session."""
        try:
            needed = jars.ensure(self.needs)
            self._open_gateway(java, needed)
            try:
                self._open_context(needed)
            except SparkFailure:
                if not self._drop_archive():
                    raise
                self._open_gateway(java, needed)
                self._open_context(needed)
        except BaseException as error:
            self._error = translate(error)
            if self._gateway is not None:
                self._gateway.kill()
        finally:
            self._ready.set()
        if "delta" in self.needs and self._error is None:
            # Whoever needs it later raises what goes wrong here.
            with suppress(Exception):
                self.spark  # noqa: B018

    def _open_gateway(self, java: Java, needed: Sequence[Path]) -> None:
        given = self._given
        early = not self.is_local or any(key.startswith(_EARLY) for key in given)
        extra = given.get("spark.driver.extraClassPath", "")
        extra_jars = [Path(entry) for entry in extra.split(os.pathsep) if entry]
        if not extra_jars:
            self._archive = archive.path(java, gateway.class_path(needed))
        options = (
            *(self._options or archive.options(self._archive)),
            *shlex.split(given.get("spark.driver.extraJavaOptions", "")),
        )
        started = gateway.start(
            java,
            [*needed, *extra_jars],
            heap_mb=heap_mb(given),
            fast_start=self._small,
            options=options,
            properties={"spark.master": self._master, **given} if early else None,
            python_path=[entry for entry in sys.path if entry],
            local=self.is_local,
        )
        with self._lock:
            self._gateway = started
            stopped = self._stopped
        if stopped:
            started.kill()
            raise SparkFailure("this Spark session was stopped")

    def _drop_archive(self) -> bool:
        """Whether the JVM ended with a class archive in use, which may be damaged: it is gone."""
        jvm = self._gateway
        if self._archive is None or jvm is None or jvm.process.poll() is None:
            return False
        jvm.kill()
        return not self._options and archive.drop(self._archive)

    def _open_context(self, needed: Sequence[Path]) -> None:
        from pyspark import SparkConf, SparkContext

        jvm = self._gateway
        assert jvm is not None
        settings = session_settings(self.needs, self._given, jvm.folder)
        if not self.is_local and needed:
            listed = [*filter(None, [settings.get("spark.jars")]), *map(str, needed)]
            settings["spark.jars"] = ",".join(listed)
        client = jvm.connect()
        conf = SparkConf(_jvm=client.jvm)
        for key, value in settings.items():
            conf.set(key, value)
        try:
            context = SparkContext(conf=conf, gateway=client)
        except Exception as error:
            adopt.forget(None, jvm.folder)
            raise translate(error) from error
        python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        adopt.hush(context)
        context.pythonExec = sys.executable if self.is_local else python or "python3"
        self._context = context

    def _warm(self) -> None:
        from lakeport.spark.training import heat

        with suppress(Exception):
            heat(self)

    def _rehearse(self) -> None:
        from lakeport.spark.training import rehearse

        with suppress(Exception), self.flags() as folder:
            if folder:
                rehearse(self, Path(folder))
