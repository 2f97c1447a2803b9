"""What a commit says about itself in a table's history, in delta-spark's own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Operation",
    "Restoration",
    "described",
    "register_metrics",
    "scala_seq",
]


@dataclass(frozen=True, slots=True)
class Operation:
    """How a commit describes itself in the table's history.

    Attributes:
        overwrite: it replaces rows.
        dynamic: only those of some partitions.
        new_schema: it may replace the schema.
        partition_columns: the table's, for the commit that creates it.
        user_metadata: free text kept with the commit.
        metrics: numbers for the history, such as `numFiles`.
        name: WRITE, MERGE, DELETE or UPDATE.
        condition: SQL text of which rows a MERGE, DELETE or UPDATE is about.
    """

    overwrite: bool
    dynamic: bool
    new_schema: bool
    partition_columns: tuple[str, ...]
    user_metadata: str
    metrics: Mapping[str, int]
    name: str = "WRITE"
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Restoration:
    """A commit that brings an older version's contents back.

    Attributes:
        version: the older version.
        metrics: numbers for the history.
    """

    version: int
    metrics: Mapping[str, int]


def described(spark: SparkSession, operation: Operation | Restoration) -> Any:
    """Delta's own description of a commit, as the transaction in the JVM takes it."""
    jvm: Any = spark._jvm
    if isinstance(operation, Restoration):
        version = _option(jvm, java_class(jvm, "java.lang.Long")(operation.version))
        return _kind(jvm, "Restore")(version, _option(jvm, None))
    if operation.name == "WRITE":
        return _write(jvm, operation)
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    condition = parser.parseExpression(operation.condition)
    if operation.name == "DELETE":
        return _kind(jvm, "Delete")(scala_seq(jvm, [condition]))
    if operation.name == "UPDATE":
        return _kind(jvm, "Update")(_option(jvm, condition))
    return _merge(jvm, condition)


def register_metrics(spark: SparkSession, txn: Any, metrics: Mapping[str, int]) -> None:
    """Have a transaction of the JVM put numbers into the history."""
    jvm: Any = spark._jvm
    maker = java_class(jvm, "org.apache.spark.sql.execution.metric.SQLMetrics")
    context = spark.sparkContext._jsc.sc()
    made = java_class(jvm, "java.util.HashMap")()
    for name, value in metrics.items():
        metric = maker.createMetric(context, name)
        metric.set(value)
        made.put(name, metric)
    scala_map = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(made)
    txn.registerSQLMetrics(spark._jsparkSession, scala_map)


def scala_seq(jvm: Any, items: Iterable[Any]) -> Any:
    """Scala's sequence of these items."""
    collected = java_class(jvm, "java.util.ArrayList")()
    for item in items:
        collected.add(item)
    return java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq(collected)


def _write(jvm: Any, operation: Operation) -> Any:
    modes = java_class(jvm, "org.apache.spark.sql.SaveMode")
    columns = operation.partition_columns
    none = _option(jvm, None)
    return _kind(jvm, "Write")(
        modes.Overwrite if operation.overwrite else modes.Append,
        _option(jvm, scala_seq(jvm, columns)) if columns else none,
        none,
        _option(jvm, operation.user_metadata),
        _option(jvm, operation.dynamic or None),
        _option(jvm, operation.new_schema or None),
        none,
        none,
        none,
    )


def _merge(jvm: Any, condition: Any) -> Any:
    clause = _kind(jvm, "MergePredicate")
    none = _option(jvm, None)
    update, insert = (clause(none, action) for action in ("update", "insert"))
    return _kind(jvm, "Merge")(
        _option(jvm, condition),
        none,
        none,
        none,
        scala_seq(jvm, [update]),
        scala_seq(jvm, [insert]),
        scala_seq(jvm, []),
    )


def _kind(jvm: Any, name: str) -> Any:
    return java_class(jvm, f"org.apache.spark.sql.delta.DeltaOperations${name}")


def _option(jvm: Any, value: Any) -> Any:
    return java_class(jvm, "scala.Option").apply(value)
