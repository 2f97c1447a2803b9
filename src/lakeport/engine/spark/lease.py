"""The lease of a warm session's Spark, which this process uses in place of its own."""

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
    """Offer a warm session's Spark to the loads of this process; see `Lease` for the arguments."""
    global _lease_arguments
    _lease_arguments = port, secret, frozenset(needs)


def find_lease(warm: str, settings: Mapping[str, str], needs: frozenset[str]) -> Lease | None:
    """Return a lease of the offered warm session if it suits, else None; may raise ConfigError.

    Args:
        warm: `auto`, `off` or `require`.
        settings: the user's `spark:` mapping; with settings no warm session suits.

    Raises:
        ConfigError: a lease is required, and none suits.
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
    """Access of one run to a warm session's Spark, until `close` or the end of this process.

    Attributes:
        process_context: environment and working folder for the tasks of this run.
        is_alive: whether `close` was not called yet.
    """

    def __init__(self, port: int, secret: str, needs: frozenset[str]) -> None:
        self.process_context = ProcessContext.current()
        self.needs = needs
        self.is_alive = True
        self._port, self._secret = port, secret

    def open(self) -> SparkContext:
        """Connect to the warm session's JVM; return a SparkContext in it."""
        client = gateway.join_jvm(self._port, self._secret)
        try:
            return _join_context(client)
        except BaseException:
            active_context.reset_pyspark(None, Path())
            raise

    def java_session(self, context: SparkContext) -> JavaObject:
        """Return a new Java `SparkSession` for this run, on the context that `open` returned."""
        found: JavaObject = java_class(context._jvm, _GATEWAY).newSession()
        return found

    def close(self, context: SparkContext | None, *, fast: bool, timeout: float) -> None:
        """Disconnect from the warm session's JVM, which runs on, and delete temporary files.

        `fast` and `timeout` have no effect.
        """
        del fast, timeout
        self.is_alive = False
        if context is not None:
            scratch = Path(str(context._temp_dir))
            shutil.rmtree(scratch, ignore_errors=True)
            active_context.reset_pyspark(context, scratch.parents[1])


def _join_context(client: ClientServer) -> SparkContext:
    """Return a Python SparkContext for the one that runs in the JVM; its `stop` does nothing."""
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
    # Other runs share it: a `stop` in a user's function must not end it.
    context.stop = lambda: None  # type: ignore[method-assign]
    active_context.silence_loggers(context)
    context.pythonExec = sys.executable
    return context
