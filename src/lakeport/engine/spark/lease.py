"""Spark that a warm session lends to this process, in place of one of its own."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.spark import adopt
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.jvm import gateway
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.errors import ConfigError, LakeportError
from lakeport.host.surroundings import Surroundings
from lakeport.host.warm.channel import Channel, connect
from lakeport.host.warm.folder import Session, fitting
from lakeport.host.warm.start import Beginning, beside

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

Store = Callable[[], tuple[str, Mapping[str, str]]]
"""A store's root as Hadoop names it, and the settings by which its connector reaches it."""

_ENDED_SECONDS: Final = 10.0
_NONE_SUITS: Final = (
    "start one with `lakeport warm start`; `lakeport warm status` shows those that run, and why "
    "one does not suit. `warm: auto` does without."
)


class Refused(Exception):
    """The warm session can't lend Spark to this run; says why."""


def lease_for(warm: str, settings: Mapping[str, str], store: Store | None) -> Lease | None:
    """A lease, not opened yet, if a warm session suits the run.

    Args:
        warm: `auto`, `off` or `require`.
        settings: the user's `spark:` mapping, by which a session of its own is needed.
        store: the run's.

    Raises:
        ConfigError: one is required, and none suits.
    """
    if warm == "off":
        return None
    session = None if settings else beside() or fitting(patient=warm == "require")
    if session is not None:
        return Lease(session, store)
    if warm == "require":
        raise required(
            "the run has `spark` settings of its own" if settings else "none suits this process"
        )
    return None


def required(reason: str) -> ConfigError:
    """The error for a run that must have a warm session and can't."""
    return ConfigError(f"`warm: require`, and no warm session can be used: {reason}", _NONE_SUITS)


def open_gateway(context: SparkContext, run: str, pool: str, *, sql: bool) -> Any:
    """Open a door into this process's JVM for one run; return it, in the JVM.

    Args:
        context: the session's that is lent.
        run: the run's name, which its jobs have as a tag.
        pool: the pool of Spark's scheduler in which they run.
        sql: whether the run gets a session of Spark SQL.
    """
    made = java_class(context._jvm, "io.lakeport.warm.RunGateway")
    return made(context._jsc.sc(), run, pool, sql)


class Lease:
    """Spark of a warm session, until it is given back or this process ends.

    Args:
        session: the warm session, or the one that this process has begun to start.
        store: the run's, whose settings no other run may have otherwise meanwhile.

    Attributes:
        surroundings: what tasks of this run are to find around them.
        needs: names of `versions.JARS` that it has, once it is open.
    """

    def __init__(self, session: Session | Beginning, store: Store | None) -> None:
        self.surroundings = Surroundings.here()
        self.needs: frozenset[str] = frozenset()
        self._sql = True
        self._found = session
        self._store = store
        self._channel: Channel | None = None
        self._closed = False

    def open(self, needs: frozenset[str]) -> SparkContext:
        """Join the session's JVM; waits while it starts.

        Args:
            needs: names of `versions.JARS`.

        Raises:
            Refused: it does not lend Spark, or is no more.
        """
        try:
            claims = self._claims()
            self._channel = connect(self._session.spark)
            answer = self._ask(self._channel, claims, needs)
            self.needs = frozenset(answer["needs"])
            if lacking := needs - self.needs:
                raise Refused(f"it lacks the jars for {', '.join(sorted(lacking))}")
            return self._join(answer)
        except BaseException as error:
            self._hang_up()
            if isinstance(error, Refused) or not isinstance(error, Exception):
                raise
            raise Refused(f"the session's Spark can't be joined: {error}") from error

    @cached_property
    def _session(self) -> Session:
        """The session; waits for one that has only begun to start."""
        found = self._found
        return found.session() if isinstance(found, Beginning) else found

    @property
    def alive(self) -> bool:
        """Whether the session still lends Spark, as far as is known."""
        return not self._closed and (self._channel is None or not self._channel.ended)

    def claim(self, store: str, settings: Mapping[str, str]) -> bool:
        """Have a further store, or other settings for one.

        Returns:
            Whether no other run has different settings for it.
        """
        channel = self._channel
        if channel is None or not self.alive:
            return False
        try:
            channel.send({"claims": {store: self._masked(settings)}})
            answer, _ = channel.receive()
        except (OSError, ValueError):
            return False
        return bool(answer and answer.get("taken"))

    def java_session(self, context: SparkContext) -> JavaObject:
        """The run's own session in the JVM.

        Args:
            context: what `open` returned.
        """
        jvm: Any = context._jvm
        if self._sql:
            return java_class(jvm, "org.apache.spark.sql.SparkSession").active()
        return java_class(jvm, "io.lakeport.warm.RunGateway").newSession()

    def close(self, context: SparkContext | None, *, fast: bool, timeout: float) -> None:
        """Give it back, also while it is opened; what the run does in the JVM ends.

        Args:
            context: what `open` returned, None before that.
            fast: without effect.
            timeout: seconds to wait until that has ended.
        """
        del fast
        self._closed = True
        if context is not None:
            scratch = Path(str(context._temp_dir))
            shutil.rmtree(scratch, ignore_errors=True)
            adopt.reset_pyspark(context, scratch.parents[1])
        channel = self._channel
        if channel is not None:
            with suppress(OSError, ValueError):
                channel.send({"end": True})
                channel.receive(min(timeout, _ENDED_SECONDS))
        self._hang_up()

    def _ask(
        self, channel: Channel, claims: dict[str, dict[str, str]], needs: frozenset[str]
    ) -> dict[str, Any]:
        # A program of the user's may look for the active session in any of its threads.
        self._sql = bool(needs) or os.getppid() != self._session.process
        channel.send({"token": self._session.token, "claims": claims, "sql": self._sql})
        answer, _ = channel.receive()
        if self._closed or not isinstance(answer, dict):
            raise Refused("the session has ended")
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.hang_up()

    def _claims(self) -> dict[str, dict[str, str]]:
        if self._store is None:
            return {}
        try:
            store, settings = self._store()
        except LakeportError:
            return {}  # whoever uses the store says what is wrong
        return {store: self._masked(settings)}

    def _masked(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings for comparison only: the session holds no secret."""
        key = self._session.token.encode()
        return {
            name: hmac.new(key, value.encode(), hashlib.sha256).hexdigest()
            for name, value in settings.items()
        }

    def _join(self, answer: Mapping[str, Any]) -> SparkContext:
        client = gateway.join(int(answer["port"]), str(answer["secret"]))
        try:
            return self._context(client, str(answer["tag"]))
        except BaseException:
            adopt.reset_pyspark(None, self._session.folder)
            raise

    def _context(self, client: ClientServer, tag: str) -> SparkContext:
        from pyspark import SparkConf, SparkContext

        jvm = client.jvm
        with translated():
            shared = java_class(jvm, "org.apache.spark.api.java.JavaSparkContext")(
                java_class(jvm, "org.apache.spark.SparkContext").getOrCreate()
            )
            adopt.detach()
            conf = SparkConf(_jvm=jvm, _jconf=shared.getConf())
            context = SparkContext(conf=conf, gateway=client, jsc=shared)
            accumulator = context._javaAccumulator
            java_class(jvm, "io.lakeport.warm.RunGateway").keep(tag, accumulator)
        # It is others' as well: what a program of the user's does to it concerns this run alone.
        context.stop = lambda: None  # type: ignore[method-assign]
        context.cancelAllJobs = lambda: context.cancelJobsWithTag(tag)  # type: ignore[method-assign]
        adopt.silence_loggers(context)
        context.pythonExec = sys.executable
        return context
