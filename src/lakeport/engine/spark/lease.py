"""Spark that a warm session lends to this process, in place of one of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.failures import translate_errors
from lakeport.engine.spark import active_context
from lakeport.engine.spark.jvm import gateway
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.errors import ConfigError
from lakeport.host.process import ProcessContext

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

_GATEWAY: Final = "io.lakeport.warm.RunGateway"
_NONE_SUITS: Final = (
    "start one with `lakeport warm start`, for commands alone; `lakeport warm status` shows those "
    "that run, and why one does not suit. `warm: auto` does without."
)


_lease_arguments: tuple[int, str, frozenset[str]] | None = None


def set_lease(port: int, secret: str, needs: Collection[str]) -> None:
    """Have this process, a run in a warm session, use that one's Spark; see `Lease`."""
    global _lease_arguments
    _lease_arguments = port, secret, frozenset(needs)


def find_lease(warm: str, settings: Mapping[str, str], needs: frozenset[str]) -> Lease | None:
    """Return a lease, not opened yet, if this process has one and it suits the load.

    Args:
        warm: `auto`, `off` or `require`.
        settings: the user's `spark:` mapping, by which a session of its own is needed.
        needs: names of `jars.JARS`.

    Raises:
        ConfigError: one is required, and there is none.
    """
    if warm == "off":
        return None
    if settings:
        reason = "the run has `spark` settings of its own"
    elif _lease_arguments is None:
        reason = "none suits this process, or it is at work"
    elif lacking := needs - _lease_arguments[-1]:
        reason = f"it lacks the jars for {', '.join(sorted(lacking))}"
    else:
        return Lease(*_lease_arguments)
    if warm == "require":
        raise ConfigError(
            f"`warm: require`, and no warm session can be used: {reason}", _NONE_SUITS
        )
    return None


class Lease:
    """Spark of a warm session, until it is given back or this process ends.

    Args:
        port: at which its JVM listens.
        secret: what has to be shown there.
        needs: names of `jars.JARS` that it has.

    Attributes:
        surroundings: what tasks of this run are to find around them.
        is_alive: whether it has not been given back.
    """

    def __init__(self, port: int, secret: str, needs: frozenset[str]) -> None:
        self.process_context = ProcessContext.current()
        self.needs = needs
        self.is_alive = True
        self._door = port, secret

    def open(self) -> SparkContext:
        """Join the session's JVM."""
        client = gateway.join_jvm(*self._door)
        try:
            return _join_context(client)
        except BaseException:
            active_context.reset_pyspark(None, Path())
            raise

    def java_session(self, context: SparkContext) -> JavaObject:
        """The run's own session in the JVM.

        Args:
            context: what `open` returned.
        """
        found: JavaObject = java_class(context._jvm, _GATEWAY).newSession()
        return found

    def close(self, context: SparkContext | None, *, fast: bool, timeout: float) -> None:
        """Leave the warm session's JVM, which goes on for the next run.

        Args:
            context: what `open` returned, None before that.
            fast, timeout: without effect.
        """
        del fast, timeout
        self.is_alive = False
        if context is not None:
            scratch = Path(str(context._temp_dir))
            shutil.rmtree(scratch, ignore_errors=True)
            active_context.reset_pyspark(context, scratch.parents[1])


def _join_context(client: ClientServer) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    jvm: Any = client.jvm
    with translate_errors():
        shared = java_class(jvm, "org.apache.spark.api.java.JavaSparkContext")(
            java_class(jvm, "org.apache.spark.SparkContext").getOrCreate()
        )
        active_context.forget_stopped_gateway()
        conf = SparkConf(_jvm=jvm, _jconf=shared.getConf())
        context = SparkContext(conf=conf, gateway=client, jsc=shared)
        java_class(jvm, _GATEWAY).keep(context._javaAccumulator)
    # It is others' as well: what a function of the user's does to it concerns this run alone.
    context.stop = lambda: None  # type: ignore[method-assign]
    active_context.silence_loggers(context)
    context.pythonExec = sys.executable
    return context
