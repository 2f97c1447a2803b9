"""Asking a table in Spark SQL, and what only Spark can read of its log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeport.errors import ConfigError
from lakeport.spark.active import ensure_active
from lakeport.spark.failures import translated
from lakeport.spark.quoting import quoted
from lakeport.tables.views import FilesView, gone
from lakeport.writers.delta_replay import Contents
from lakeport.writers.delta_state import TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["contents_by_spark", "fetch", "first_line", "read_table", "run_query"]

_LOST = ("FAILED_READ_FILE", "FileNotFoundException", "PathNotFound", "DELTA_FILE_NOT_FOUND")


def read_table(spark: SparkSession, uri: str, found: FilesView | int) -> DataFrame:
    """A table's rows.

    Args:
        spark: the session.
        uri: the table, as Spark names it.
        found: the Delta table's version, or the plain files that it consists of.
    """
    if isinstance(found, int):
        return spark.read.format("delta").option("versionAsOf", found).load(uri)
    if found.kind == "csv":
        return spark.read.options(header=True, escape='"', multiLine=True).csv(uri)
    return spark.read.option("mergeSchema", "true").parquet(uri)


def run_query(
    spark: SparkSession, frame: DataFrame, names: Sequence[str], sql: str, limit: int
) -> DataFrame:
    """One query on a frame under these names, as a frame that has not run yet.

    Args:
        spark: a session of its own, which gets the views.
        frame: the table.
        names: what the query may call it.
        sql: one SELECT, as judged by Spark's parser.
        limit: at most so many rows.

    Raises:
        ConfigError: the text is not one query, or Spark can't make sense of it.
    """
    _refuse_others(spark, sql)
    for name in names:
        frame.createOrReplaceTempView(quoted(name))
    from pyspark.errors import AnalysisException

    try:
        return spark.sql(sql).limit(limit)
    except AnalysisException as error:
        columns = ", ".join(frame.columns)
        raise ConfigError(
            f"Spark can't run the query: {first_line(error)}", f"the table's columns are {columns}."
        ) from error


def fetch(frame: DataFrame, uri: str, found: FilesView | int) -> pa.Table:
    """A frame's rows.

    Args:
        frame: reads the table, or anything else.
        uri: the table, as users name it.
        found: the table's version that it reads, or its plain files.

    Raises:
        SourceError: data files of that version are gone.
        LakeportError: Spark failed otherwise.
    """
    with translated():
        try:
            return frame.toArrow()
        except Exception as error:
            if isinstance(found, int) and any(word in str(error) for word in _LOST):
                raise gone(uri, found) from error
            raise


def contents_by_spark(spark: SparkSession, uri: str, version: int) -> Contents:
    """A table's contents at a version, by Delta's own view of the log.

    Raises:
        LakeportError: the log can't be read.
    """
    jvm: Any = spark._jvm
    with translated():
        ensure_active(spark)
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, uri)
        none = jvm.scala.Option.apply(None)
        snapshot = log.getSnapshotAt(version, none, none, False)
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        files = [json.loads(text) for text in snapshot.allFiles().toJSON().collectAsList()]
        domains = json.loads(_domains(snapshot))
    return Contents(TableState(version, metadata, protocol), tuple(files), domains)


def _domains(snapshot: Any) -> str:
    listed = snapshot.domainMetadata()
    found = [listed.apply(index) for index in range(listed.size())]
    return json.dumps({item.domain(): item.configuration() for item in found})


def _refuse_others(spark: SparkSession, sql: str) -> None:
    from pyspark.errors import ParseException

    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    try:
        plan = parser.parseQuery(sql)
    except ParseException as error:
        raise ConfigError(
            f"this is not one query: {first_line(error)}",
            "write a single SELECT; nothing else runs.",
        ) from error
    if "ScriptTransformation" in plan.toString():
        raise ConfigError("a query can't run scripts", "leave out TRANSFORM.")


def first_line(error: Exception) -> str:
    """The first line of what Spark says."""
    return next((line for line in str(error).splitlines() if line.strip()), "no reason given")
