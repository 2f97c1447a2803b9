"""What only Spark can do with a table: queries and maintenance, through Delta's own interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeport.errors import ConfigError
from lakeport.spark.failures import translated

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["optimize", "restore", "run_query", "vacuum"]

_RETENTION = 168
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_PARALLEL_DELETE = "spark.databricks.delta.vacuum.parallelDelete.enabled"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def run_query(
    spark: SparkSession, frame: DataFrame, names: Sequence[str], sql: str, limit: int
) -> pa.Table:
    """Run one query on a frame under these names.

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
        frame.createOrReplaceTempView("`" + name.replace("`", "``") + "`")
    from pyspark.errors import AnalysisException

    try:
        result = spark.sql(sql)
    except AnalysisException as error:
        raise ConfigError(f"Spark can't run the query: {_first_line(error)}") from error
    with translated():
        return result.limit(limit).toArrow()


def optimize(
    spark: SparkSession, uri: str, zorder: Sequence[str], where: str | None
) -> dict[str, Any]:
    """Compact a table; return files added and removed.

    Raises:
        LakeportError: Delta refused.
    """
    from delta.tables import DeltaTable

    with translated():
        builder = DeltaTable.forPath(spark, uri).optimize()
        if where is not None:
            builder = builder.where(where)
        names = ["`" + name.replace("`", "``") + "`" for name in zorder]
        done = builder.executeZOrderBy(*names) if names else builder.executeCompaction()
        metrics = done.select("metrics").first()
    found = metrics[0].asDict() if metrics else {}
    return {
        "files_added": found.get("numFilesAdded", 0),
        "files_removed": found.get("numFilesRemoved", 0),
    }


def vacuum(
    spark: SparkSession, uri: str, retain_hours: float, dry_run: bool, force: bool
) -> list[str]:
    """Delete unused files; with `dry_run` list them.

    Raises:
        ConfigError: a retention under a week that nobody forced.
        LakeportError: Delta refused.
    """
    if retain_hours < 0 or (retain_hours < _RETENTION and not force):
        raise ConfigError(
            f"files would be kept for {retain_hours:g} hours only",
            "readers and writers that take longer break, and time travel ends there: keep 168 "
            "hours or more, or force it.",
        )
    settings = {
        _RETENTION_CHECK: "false" if force else "true",
        _PARALLEL_DELETE: "true",
        _LISTING: str(spark.sparkContext.defaultParallelism),
    }
    mine = spark.newSession()
    with translated():
        for name, value in settings.items():
            mine.conf.set(name, value)
        quoted = uri.replace("`", "``")
        rows = mine.sql(
            f"VACUUM delta.`{quoted}` RETAIN {float(retain_hours)} HOURS"
            + (" DRY RUN" if dry_run else "")
        ).collect()
    return [str(row[0]) for row in rows] if dry_run else []


def restore(spark: SparkSession, uri: str, version: int) -> None:
    """Make a new version with an older one's contents.

    Raises:
        LakeportError: Delta refused, for example because files are gone.
    """
    from delta.tables import DeltaTable

    with translated():
        DeltaTable.forPath(spark, uri).restoreToVersion(version)


def _refuse_others(spark: SparkSession, sql: str) -> None:
    from pyspark.errors import ParseException

    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    try:
        plan = parser.parseQuery(sql)
    except ParseException as error:
        raise ConfigError(
            f"this is not one query: {_first_line(error)}",
            "write a single SELECT; nothing else runs.",
        ) from error
    if "ScriptTransformation" in plan.toString():
        raise ConfigError("a query can't run scripts", "leave out TRANSFORM.")


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no reason given")
