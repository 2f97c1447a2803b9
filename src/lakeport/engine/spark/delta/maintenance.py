"""OPTIMIZE and VACUUM of Delta tables, in sessions of their own whose settings suit the table.

Delta's defaults are made for tables of thousands of folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lakeport.engine.spark.delta.transaction import USER_METADATA, delta_log
from lakeport.engine.spark.failures import first_line, translated
from lakeport.engine.spark.jvm.calls import java_class, option
from lakeport.engine.spark.settings import COMMIT_SETTINGS
from lakeport.engine.spark.sql import quoted
from lakeport.engine.spark.sql.policy import check_expression

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakeport.errors import ConfigError

_DELTA: Final = "spark.databricks.delta"
_INVENTORY: Final = "inventory"


def check_condition(spark: SparkSession, text: str, refusal: Callable[[str], ConfigError]) -> None:
    """Refuse what is not one expression on a row alone; see `policy.check_expression`."""
    check_expression(_session(spark, {}), text, refusal)


def optimize(
    spark: SparkSession,
    uri: str,
    *,
    file_bytes: int,
    user_metadata: str,
    where: str | None,
    also: Sequence[str],
    sort_by: Sequence[str],
    refusal: Callable[[str], ConfigError],
) -> dict[str, Any]:
    """Merge small files of a table; return Delta's metrics.

    Args:
        spark: a session with Delta.
        uri: the table, as Hadoop writes URIs.
        file_bytes: the size that files are to have.
        user_metadata: what the commit says about itself.
        where: a condition on partition columns, one expression that is safe to be run.
        also: conditions that have to hold, too.
        sort_by: columns by which to sort the rows into files (Z-order), quoted for SQL.
        refusal: makes the error of a condition that does not fit the table, of Spark's reason.

    Raises:
        ConfigError: the condition does not fit.
        LakeportError: Delta refused, or nothing was heard of it.
    """
    from pyspark.errors import AnalysisException

    sizes = {f"{_DELTA}.optimize.{which}FileSize": str(file_bytes) for which in ("min", "max")}
    session = _session(spark, {**sizes, USER_METADATA: user_metadata})
    command = f"OPTIMIZE {_sql_name(uri)}"
    # What may be a comment at the end of a condition stays in its line.
    conditions = [f"({where}\n)"] if where is not None else []
    conditions += also
    if conditions:
        command += f" WHERE {' AND '.join(conditions)}"
    if sort_by:
        command += f" ZORDER BY ({', '.join(sort_by)})"
    with translated():
        try:
            done = session.sql(command)
        except AnalysisException as error:
            if where is None:
                raise
            raise refusal(first_line(error)) from error
        found = done.select("metrics").first()
    metrics: dict[str, Any] = found[0].asDict(recursive=True) if found else {}
    return metrics


def vacuum(
    spark: SparkSession,
    uri: str,
    hours: int,
    *,
    user_metadata: str,
    dry_run: bool,
    force: bool,
    files: Callable[[SparkSession], pa.Table] | None,
) -> list[str]:
    """Delete files that no version of the last hours uses; return them with `dry_run`.

    Args:
        spark: a session with Delta.
        uri: the table, as Hadoop writes URIs.
        hours: for how long files are kept.
        user_metadata: what the commits say about themselves.
        dry_run: delete nothing.
        force: allow less than the table's own retention.
        files: given a session that suits the table, gives the files that may be looked at, as
            `VacuumCommand.INVENTORY_SCHEMA` has them; None for all.

    Raises:
        LakeportError: Delta refused.
    """
    settings = {
        f"{_DELTA}.retentionDurationCheck.enabled": str(not force).lower(),
        f"{_DELTA}.vacuum.parallelDelete.enabled": "true",
        f"{_DELTA}.vacuum.logging.enabled": "true",
        USER_METADATA: user_metadata,
    }
    with translated():
        session = _session(spark, settings)
        command = f"VACUUM {_sql_name(uri)}"
        if files is not None:
            session.createDataFrame(files(session)).createOrReplaceTempView(_INVENTORY)
            command += f" USING INVENTORY (TABLE {_INVENTORY})"
        command += f" RETAIN {hours:d} HOURS"
        rows = session.sql(command + (" DRY RUN" if dry_run else "")).collect()
    return sorted(str(row[0]) for row in rows) if dry_run else []


def retention_hours(spark: SparkSession, uri: str) -> int:
    """Return how many hours a table keeps deleted files by its own properties."""
    with translated():
        logs = java_class(spark._jvm, "org.apache.spark.sql.delta.DeltaLog")
        metadata = _snapshot(spark, delta_log(spark, uri)).metadata()
        return int(logs.tombstoneRetentionMillis(metadata)) // 3_600_000


def removed_paths(spark: SparkSession, uri: str) -> set[str]:
    """Return paths of the files that versions of the table's own retention have removed.

    Runs a Spark job.
    """
    from pyspark.sql import DataFrame

    with translated():
        state = DataFrame(_snapshot(spark, delta_log(spark, uri)).stateDF(), spark)
        rows = state.where("remove IS NOT NULL").select("remove.path").collect()
    return {unquote(row[0]) for row in rows}


def qualified(spark: SparkSession, uri: str) -> str:
    """Return a table's folder as Hadoop's file systems write the paths of files in it."""
    with translated():
        log = delta_log(spark, uri)
        path = log.dataPath()
        system = path.getFileSystem(log.newDeltaHadoopConf())
        return str(system.makeQualified(path).toString())


def _snapshot(spark: SparkSession, log: Any) -> Any:
    none = option(spark._jvm)
    return log.update(False, none, none)


def _sql_name(uri: str) -> str:
    """A table in SQL text. Delta's own builder of OPTIMIZE leaves quotes in a path as they are.

    >>> _sql_name("file:///lake/a`b")
    'delta.`file:///lake/a``b`'
    """
    return "delta." + quoted(uri)


def _session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of its own, with as many tasks for each step as there are cores for them."""
    tasks = str(max(2, spark.sparkContext.defaultParallelism))
    own = spark.newSession()
    base = {
        **COMMIT_SETTINGS,
        "spark.sql.shuffle.partitions": tasks,
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks,
        "spark.sql.variable.substitute": "false",
        f"{_DELTA}.snapshotPartitions": "2",
        f"{_DELTA}.v2.enableMode": "NONE",
    }
    for name, value in {**base, **settings}.items():
        own.conf.set(name, value)
    return own
