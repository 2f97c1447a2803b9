"""Spark's own way to a store: credentials for Hadoop's connectors, and a log store that is safe.

Credentials go to the running session's Hadoop configuration, right before the store is first used:
never on a command line, nor among Spark's settings, which it shows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from lakeport.engine.spark import adopt
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.jvm.classes import java_class
from lakeport.engine.spark.trust import trust
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.engine.spark.session import Runtime

__all__ = ["hand_over", "place_of", "session_for"]

_lock = threading.Lock()
_handed: WeakKeyDictionary[Runtime, dict[str, dict[str, str]]] = WeakKeyDictionary()


def session_for(runtime: Runtime, root: str, settings: Mapping[str, str]) -> SparkSession:
    """The session, able to reach a store; waits for it.

    Args:
        runtime: Spark.
        root: the store's root as Hadoop names it, such as `s3a://bucket`.
        settings: what Hadoop's connector needs for that root, secrets included.

    Raises:
        ConfigError: the session would let two writers overwrite each other's commits on S3.
        SparkFailure: Spark did not start.
    """
    spark = runtime.spark
    parts = urlsplit(root)
    with _lock:
        if parts.scheme == "s3a" and _known(runtime).get(place_of(root)) != settings:
            adopt.check(spark, frozenset({"delta", "s3a"}))
            _check_flags(runtime, parts.netloc)
    hand_over(runtime, root, settings)
    return spark


def hand_over(runtime: Runtime, root: str, settings: Mapping[str, str]) -> None:
    """Have the session's file systems reach a store; waits for the session.

    Args:
        runtime: Spark.
        root: the store's root, or a folder in it, as Hadoop names it.
        settings: what Hadoop's connector needs for that root, secrets included.

    Raises:
        SparkFailure: Spark did not start.
    """
    with _lock:
        known, place = _known(runtime), place_of(root)
        if known.get(place) != settings:
            runtime.claim(place, settings)
            if not runtime.adopted and _speaks_tls(place, settings):
                trust(runtime.context)
            _set(runtime, place, settings, known.get(place))
            known[place] = dict(settings)


def _known(runtime: Runtime) -> dict[str, dict[str, str]]:
    return _handed.setdefault(runtime, {})


def place_of(root: str) -> str:
    """What one file system object of Hadoop's is for.

    >>> place_of("s3a://lake/raw/events")
    's3a://lake'
    """
    parts = urlsplit(root)
    return f"{parts.scheme}://{parts.netloc}"


def _set(
    runtime: Runtime, place: str, settings: Mapping[str, str], before: Mapping[str, str] | None
) -> None:
    """Set what is new; a connector that was opened with other settings is opened anew."""
    runtime.configure(settings)
    if before is None:
        return
    context: Any = runtime.context
    conf, jvm = context._jsc.hadoopConfiguration(), context._jvm
    with translated(runtime.secrets):
        for key in before.keys() - settings.keys():
            conf.unset(key)
        java_class(jvm, "org.apache.hadoop.fs.FileSystem").get(
            java_class(jvm, "java.net.URI")(place), conf
        ).close()
        if "delta" in runtime.needs:
            java_class(jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()


def _speaks_tls(place: str, settings: Mapping[str, str]) -> bool:
    parts = urlsplit(place)
    wanted = settings.get(f"fs.s3a.bucket.{parts.netloc}.connection.ssl.enabled")
    return parts.scheme == "s3a" and wanted != "false"


def _check_flags(runtime: Runtime, bucket: str) -> None:
    """S3A's option to create faster turns a create that must not overwrite into one that does."""
    conf = runtime.context._jsc.hadoopConfiguration()
    for start in ("fs.s3a.", f"fs.s3a.bucket.{bucket}."):
        flags = (conf.get(f"{start}performance.flags") or "").lower().split(",")
        if {"create", "*"} & {flag.strip() for flag in flags}:
            raise ConfigError(
                f"`{start}performance.flags` holds 'create', which lets a commit overwrite another",
                "take it out for buckets that hold tables.",
            )
        if (conf.get(f"{start}create.performance") or "").strip().lower() == "true":
            raise ConfigError(
                f"`{start}create.performance` lets a commit overwrite another one",
                "turn it off for buckets that hold tables.",
            )
