"""Asking a table in Spark SQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.active import active
from lakeport.engine.spark.failures import first_line, translated
from lakeport.engine.spark.jvm.classes import java_class
from lakeport.engine.spark.quoting import quoted
from lakeport.errors import ConfigError, SparkFailure
from lakeport.tables.query_policy import check_query
from lakeport.tables.views import FilesView, gone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.engine.base import Engine

__all__ = ["check_beginning", "fetch", "in_time", "read_table", "run_query"]

_LOST = (
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "FileNotFoundException",
    "PathNotFound",
    "DELTA_FILE_NOT_FOUND",
)

_BEGINNING = re.compile(r"(?:[\s(]|--(?:\\\n|[^\n])*)*([A-Za-z]\w*|$)?")
_QUERIES = frozenset({"select", "with", "from", "values", "table"})
_ALONE = "write a single SELECT on `t`; nothing else runs."


def check_beginning(sql: str) -> None:
    """Refuse what begins as no query does, before Spark is there to parse it.

    Raises:
        ConfigError: it is empty, or another word comes first.

    >>> check_beginning("-- the newest\\n(SELECT max(id) FROM t)")
    """
    found = _BEGINNING.match(sql)
    word = found[1] if found else None
    if word == "":
        raise ConfigError("this is not one query: it is empty", _ALONE)
    if word is not None and word.lower() not in _QUERIES:
        raise ConfigError(
            f"this is not one query of the table alone: it begins with {word!r}", _ALONE
        )


def read_table(spark: SparkSession, uri: str, found: FilesView | int) -> DataFrame:
    """A table's rows.

    Args:
        spark: the session.
        uri: the table, as Spark names it.
        found: the Delta table's version, or the plain files that it consists of.

    Raises:
        LakeportError: Spark can't read the table.
    """
    with translated():
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
        frame: reads the table.
        names: what the query may call it.
        sql: one SELECT that reads the table alone; see `query_policy.check_query`.
        limit: at most so many rows.

    Raises:
        ConfigError: the text is not such a query, or Spark can't make sense of it.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.classic.dataframe import DataFrame

    jvm: Any = spark._jvm
    with active(spark):
        plan = parsed(spark, sql)
        sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
        check_query(jvm, plan, names, case_sensitive=sensitive)
        for name in names:
            frame.createOrReplaceTempView(quoted(name))
        # The plan that was checked, not the text once more.
        dataset = java_class(jvm, "org.apache.spark.sql.classic.Dataset")
        with translated():
            try:
                found = dataset.ofRows(spark._jsparkSession, plan)
            except AnalysisException as error:
                columns = ", ".join(frame.columns)
                raise ConfigError(
                    f"Spark can't run the query: {first_line(error)}",
                    f"the table's columns are {columns}.",
                ) from error
    return DataFrame(found, spark).limit(limit)


def parsed(spark: SparkSession, sql: str) -> Any:
    """The parser's plan of a query; nothing is looked up or run for it.

    Raises:
        ConfigError: Spark can't parse the text.
    """
    from pyspark.errors import ParseException

    # `${env:NAME}` in the text would become the variable's value.
    spark.conf.set("spark.sql.variable.substitute", "false")
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    try:
        return parser.parsePlan(sql)
    except ParseException as error:
        raise ConfigError(
            f"this is not one query: {first_line(error)}",
            _ALONE,
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
            said = str(error)
            lost = any(word in said for word in _LOST) and "/_delta_log/" not in said
            if isinstance(found, int) and lost:
                raise gone(uri, found) from error
            raise


def in_time(engine: Engine, query: Callable[[], pa.Table], seconds: float) -> pa.Table:
    """Run a query, and cancel it after so many seconds; return its rows.

    Raises:
        SparkFailure: it took longer.
        LakeportError: it failed otherwise.
    """
    try:
        return engine.run_job("query a table", query, seconds=min(seconds, threading.TIMEOUT_MAX))
    except TimeoutError:
        raise SparkFailure(
            f"the query took longer than {seconds:g} s, and was cancelled",
            "have it read or join fewer rows, or give it more time (`--timeout`).",
        ) from None
