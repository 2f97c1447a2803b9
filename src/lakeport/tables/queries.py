"""Asking a table in Spark SQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.sql.policy import SINGLE_SELECT
from lakeport.errors import ConfigError, SparkFailure
from lakeport.tables.views import FilesView, gone

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.engine.base import Engine
    from lakeport.engine.types import DataFrame, SparkSession

_LOST = (
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "FileNotFoundException",
    "PathNotFound",
    "DELTA_FILE_NOT_FOUND",
)

_BEGINNING = re.compile(r"(?:[\s(]|--(?:\\\n|[^\n])*)*([A-Za-z]\w*|$)?")
_QUERIES = frozenset({"select", "with", "from", "values", "table"})


def check_beginning(sql: str) -> None:
    """Refuse what begins as no query does, before Spark is there to parse it.

    Raises:
        ConfigError: it is empty, or another word comes first.

    >>> check_beginning("-- the newest\\n(SELECT max(id) FROM t)")
    """
    found = _BEGINNING.match(sql)
    word = found[1] if found else None
    if word == "":
        raise ConfigError("this is not one query: it is empty", SINGLE_SELECT)
    if word is not None and word.lower() not in _QUERIES:
        raise ConfigError(
            f"this is not one query of the table alone: it begins with {word!r}", SINGLE_SELECT
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
