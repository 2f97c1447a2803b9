"""Delta's own view of a table's transaction log, by the classes of delta-spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.active import ensure_active
from lakeport.engine.spark.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["delta_log", "delta_snapshot"]


def delta_log(spark: SparkSession, uri: str) -> Any:
    """Return Delta's `DeltaLog` of the table at a URI, as Hadoop writes URIs."""
    name = "org.apache.spark.sql.delta.DeltaLog"
    return java_class(spark._jvm, name).forTable(spark._jsparkSession, uri)


def delta_snapshot(spark: SparkSession, uri: str, version: int) -> Any:
    """Return Delta's `Snapshot` of a table at a version; the JVM raises if there is none."""
    ensure_active(spark)
    none = java_class(spark._jvm, "scala.Option").apply(None)
    return delta_log(spark, uri).getSnapshotAt(version, none, none, False)
