"""This process's active Spark context: find it, check it for a load, make PySpark forget it."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.spark.jvm.versions import SparkBuild
from lakeport.engine.spark.settings import (
    DELTA_SETTINGS,
    LOG_STORE,
    LOG_STORE_SETTINGS,
    is_submitted,
)
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_CONTEXT_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_CLASSES: Final = {
    "delta": "org.apache.spark.sql.delta.DeltaLog",
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "azure": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    "gcs": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
}
_PACKAGES: Final = {
    "delta": ("delta-spark",),
    "s3a": (
        "hadoop-aws",
        *("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client"),
        *("aws-java-sdk-s3", "aws-java-sdk-sts"),
    ),
    "azure": ("hadoop-azure",),
}
"""Names of the artifacts that bring the others along, without Delta's suffix of versions."""
# Delta's own for S3, which is safe for one driver only; the empty one stands for it.
_UNSAFE_LOG_STORES: Final = (
    "",
    "io.delta.storage.S3SingleDriverLogStore",
    "org.apache.spark.sql.delta.storage.S3SingleDriverLogStore",
)
_ALONE: Final = (
    " `single_writer: true` does without the log store: two writers at the same time would then "
    "overwrite each other's commits and lose rows."
)
_KEPT_JARS: Final = " Keep the jars that its `spark.jars` has, and add this one with a comma."
_LOST_CALL: Final = "Exception while sending command."  # py4j logs it to the root logger
_EXCLUDED: Final = {"s3a": ("software.amazon.awssdk:bundle", "com.amazonaws:aws-java-sdk-bundle")}


def find_context() -> SparkContext | None:
    """Return this process's running SparkContext or None.

    One that another thread is still making does not run yet, though PySpark names it. A forked
    process ignores its parent's context. This does not import pyspark.
    """
    contexts: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    context: SparkContext | None = getattr(contexts, "_active_spark_context", None)
    if context is None or getattr(context, "_jsc", None) is None or _drop_parents_context(context):
        return None
    return context


def join_submitted_session() -> None:
    """Build the session of a process that `spark-submit` has started, if it has built none yet."""
    if not is_submitted() or find_context() is not None:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:  # a fork has its parent's, which it must not use
        SparkSession.builder.getOrCreate()


def _drop_parents_context(context: SparkContext) -> bool:
    """Forget `context` if a fork inherited it, and close its sockets. True if it was inherited.

    Both processes would write to the same connections. py4j's thread, which a fork lacks, shows it.
    """
    from py4j.clientserver import ClientServer, FinalizerWorker
    from pyspark import SparkContext

    client = context._gateway
    if not isinstance(client, ClientServer):
        return False
    calls = client._gateway_client
    workers = (thread for thread in threading.enumerate() if isinstance(thread, FinalizerWorker))
    if any(worker.deque is calls.finalizer_deque for worker in workers):
        return False
    for connection in calls.deque:
        os.close(connection.socket.detach())  # a close by py4j would shut down the parent's, too
    SparkContext._active_spark_context = None
    _clear_globals()
    return True


def check_session(
    spark: SparkSession,
    needs: frozenset[str],
    *,
    commits: bool = True,
    schemes: Sequence[str] = ("s3a",),
) -> None:
    """Raise ConfigError if a user's session lacks classes or settings for needs like `delta`.

    The hint has the settings to build it with.

    Args:
        commits: whether delta-spark may commit while others do, for which S3 takes a log store.
        schemes: those of S3's URIs that take the log store.
    """
    wanted: dict[str, str] = {}
    lacking: list[str] = []
    if "delta" in needs:
        for key, value in DELTA_SETTINGS.items():
            present = spark.conf.get(key, "") or ""
            if value not in (part.strip() for part in present.split(",")):
                others = f"{present}," if present and key.endswith("extensions") else ""
                wanted[key] = others + value
                lacking.append(value.rpartition(".")[2])
    alone = ""
    if commits and {"delta", "s3a"} <= needs:
        alone = _check_log_store(spark, wanted, lacking, schemes)
    absent = sorted(need for need in needs if not _has_class(spark, _CLASSES[need]))
    if absent:
        packages, files = _find_jars(absent, _running_build(spark))
        if packages:
            wanted["spark.jars.packages"] = ",".join(packages)
        if files:
            wanted["spark.jars"] = ",".join(filter(None, [wanted.get("spark.jars"), *files]))
        excluded = [name for need in absent for name in _EXCLUDED.get(need, ())]
        if excluded:
            wanted["spark.jars.excludes"] = ",".join(excluded)
        lacking += (f"the class {_CLASSES[need]}" for need in absent)
    if lacking:
        calls = "".join(f'\n    .config("{key}", "{value}")' for key, value in wanted.items())
        raise ConfigError(
            f"the active Spark session lacks {', '.join(lacking)}",
            f"build it with{calls}\nor stop it, and lakeport starts its own.{alone}",
        )


def check_version(context: SparkContext) -> None:
    """Raise ConfigError if the session's Spark is of another minor version than PySpark."""
    from pyspark import __version__

    running, installed = SparkBuild(str(context.version), ""), SparkBuild(__version__, "")
    if running.minor != installed.minor:
        raise ConfigError(
            f"the active session runs Spark {running.version}, and this process has PySpark "
            f"{installed.version}",
            "unset SPARK_HOME if it names the other Spark, or install the session's PySpark: "
            f"`pip install 'pyspark=={running.minor}.*'`.",
        )


def _check_log_store(
    spark: SparkSession, wanted: dict[str, str], lacking: list[str], schemes: Sequence[str]
) -> str:
    """Add to `wanted` and `lacking` if the session's S3 log store can't serve two writers.

    Return hints on its jars and to do without such a store; empty if the session has one.
    """
    before, conf, kept = len(lacking), spark.sparkContext.getConf(), ""
    common = conf.get("spark.delta.logStore.class") or ""
    used = {conf.get(f"spark.delta.logStore.{scheme}.impl") or common for scheme in schemes}
    if used.intersection(_UNSAFE_LOG_STORES):
        wanted.update(LOG_STORE_SETTINGS)
        lacking.append("a log store for S3 that is safe for two writers")
    if used.intersection((*_UNSAFE_LOG_STORES, LOG_STORE)) and not _has_class(spark, LOG_STORE):
        wanted["spark.jars"] = str(jars.LOG_STORE)
        lacking.append(f"the class {LOG_STORE}")
        kept = _KEPT_JARS if conf.get("spark.jars") else ""
    return kept + _ALONE if len(lacking) > before else ""


def _running_build(spark: SparkSession) -> SparkBuild:
    """Return the version of a session's Spark, and of the Scala in its JVM."""
    scala = str(java_class(spark._jvm, "scala.util.Properties").versionNumberString())
    return SparkBuild(str(spark.version), scala.rpartition(".")[0])


def _find_jars(needs: Iterable[str], spark: SparkBuild) -> tuple[list[str], list[str]]:
    """Return Maven coordinates, and URLs of shaded jars, for needs on a Spark.

    MissingDependency if none are known.
    """
    packages, files = [], []
    for need in needs:
        pinned = jars.pinned_jars(need, spark)
        if not pinned:
            raise jars.no_jars_error(need, spark)
        for jar in pinned:
            if jar.classifier:
                files.append(f"{jars.CENTRAL}/{jar.path}")
            elif jar.artifact.partition("_")[0] in _PACKAGES[need]:
                packages.append(f"{jar.group}:{jar.artifact}:{jar.version}")
    return packages, files


def _has_class(spark: SparkSession, name: str) -> bool:
    """Whether the session's JVM can load the Java class `name`."""
    from py4j.protocol import Py4JJavaError

    jvm = spark._jvm
    assert jvm is not None
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    except Exception as error:
        # With a session, pyspark turns Java's exceptions into its own.
        if "ClassNotFoundException" in repr(error):
            return False
        raise
    return True


def _shut_down_sockets(client: Any) -> None:
    """Shut down a py4j client's sockets, so that threads that wait for the JVM wake up."""
    server = client.__dict__.get("_callback_server")
    for connection in (*client._gateway_client.deque, *(server.connections if server else ())):
        with suppress(OSError, AttributeError):
            connection.socket.shutdown(SHUT_RDWR)


def forget_stopped_gateway() -> None:
    """Clear PySpark's global gateway and JVM, unless a context is active.

    Else PySpark would look for a new context there, whatever gateway it is given.
    """
    from pyspark import SparkContext

    with SparkContext._lock:
        if SparkContext._active_spark_context is None:
            SparkContext._gateway = None
            SparkContext._jvm = None


def reset_pyspark(context: SparkContext | None, folder: Path) -> None:
    """Close PySpark's connection to a JVM and clear its globals, so another JVM can start."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
    from pyspark import SparkContext

    with suppress(Exception):
        if context is not None:
            context._jsc = None
            if server := getattr(context, "_accumulatorServer", None):
                # The server notices after up to a second, for which nobody waits.
                threading.Thread(target=server.shutdown, daemon=True).start()
    client = SparkContext._gateway
    if client is not None:
        with suppress(Exception):
            # A JVM that ends need not hear which of its objects are unused.
            deque = client._gateway_client.finalizer_deque
            deque.clear()
            deque.appendleft(SHUTDOWN_FINALIZER_WORKER)
            _shut_down_sockets(client)
            client.close(keep_callback_server=False, close_callback_server_connections=True)
    SparkContext._active_spark_context = None
    _clear_globals()
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(f"{folder}{os.sep}")]


def _clear_globals() -> None:
    """Clear PySpark's global gateway, JVM and sessions."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def silence_loggers(context: SparkContext) -> None:
    """Disable PySpark's loggers, which print stack traces with values of the data.

    They do so when a query fails, and PySpark's accumulator server when the JVM is gone. lakeport
    reports such errors in one sentence.
    """
    silence_context_loggers()
    server = context._accumulatorServer
    if server is not None:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]


def silence_context_loggers() -> None:
    """Disable the loggers by which PySpark prints a failed query's errors, whole stacks included.

    They came with Spark 4.0.
    """
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in _CONTEXT_LOGGERS:
            PySparkLogger.getLogger(name).disabled = True


def silence_lost_calls() -> None:
    """Filter py4j's stack traces of lost connections to the JVM out of the root logger.

    lakeport reports it in one sentence to the caller, and no caller waits at the interpreter's end.
    """
    logging.getLogger().addFilter(_is_no_lost_call)


def _is_no_lost_call(record: logging.LogRecord) -> bool:
    """Whether a log record is any but py4j's on a lost call."""
    return record.msg != _LOST_CALL
