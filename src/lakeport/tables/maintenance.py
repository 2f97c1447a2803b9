"""Keeping Delta tables in order, through Delta's own interfaces: OPTIMIZE and VACUUM.

Each runs in a session of its own, whose settings suit the table's size: Delta's defaults are made
for tables of thousands of folders.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.config.explain import nearest
from lakeport.errors import ConfigError, LakeportError
from lakeport.spark.active import active
from lakeport.spark.failures import translated
from lakeport.spark.quoting import quoted
from lakeport.spark.settings import COMMIT_SETTINGS
from lakeport.tables.compaction import target_bytes
from lakeport.tables.inventory import inventory
from lakeport.tables.queries import first_line
from lakeport.tables.query_policy import check_expression
from lakeport.writers.delta.commit.operation import USER_METADATA
from lakeport.writers.delta.commit.outcome import settle
from lakeport.writers.delta.log.commits import Commit, CommitLog, Mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.tables.location import TableLocation
    from lakeport.writers.delta.log.snapshot import Contents

__all__ = ["RETENTION_HOURS", "hours", "optimize", "sort_columns", "vacuum"]

RETENTION_HOURS = 168
"""What readers and writers are sure to be done in: a week."""

_DURATION = re.compile(r"(\d+)\s*([hdw])?", re.IGNORECASE)
_HOURS = {"h": 1, "d": 24, "w": 168}
_DELTA = "spark.databricks.delta"
_INVENTORY = "inventory"


def hours(text: str) -> int:
    """A retention in hours, as people write it.

    Raises:
        ConfigError: it is none.

    >>> hours("168h"), hours("30d"), hours("2w"), hours("24")
    (168, 720, 336, 24)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{text!r} is no retention", "write whole hours, days or weeks: 168h, 7d, 1w."
        )
    return int(match[1]) * _HOURS[(match[2] or "h").lower()]


def sort_columns(contents: Contents, names: Sequence[str]) -> list[str]:
    """The columns to sort by, quoted and in the table's own spelling.

    Raises:
        ConfigError: a column is absent, a partition column or one that Delta can't sort by, or
            the table is clustered.
    """
    if names and contents.cluster_columns:
        raise ConfigError(
            f"the table is clustered by {', '.join(contents.cluster_columns)}, so it can't be "
            "sorted otherwise",
            "`optimize` without columns sorts it as it is clustered.",
        )
    found = []
    for name in names:
        parts = _parts(contents.state.schema, name)
        if parts[0] in contents.state.partition_columns:
            raise ConfigError(
                f"{name!r} is a partition column: its files hold one value of it each",
                "sort by other columns.",
            )
        if any("`" in part for part in parts):  # Delta reads the name once more without quotes
            raise ConfigError(
                f"Delta can't sort by {name!r}: its Z-order takes no name with a backtick",
                "sort by other columns, or leave --zorder out to merge small files only.",
            )
        found.append(".".join(map(quoted, parts)))
    return found


def optimize(
    spark: SparkSession,
    log: CommitLog,
    contents: Contents,
    zorder: Sequence[str],
    where: str | None,
) -> dict[str, Any]:
    """Merge small files; return how many files and bytes came and went.

    Args:
        spark: a session with Delta.
        log: the table's.
        contents: the table as it is.
        zorder: columns by which to sort the rows into files.
        where: a condition on partition columns, which Spark's parser reads as one expression.

    Raises:
        ConfigError: a column or the condition does not fit the table.
        OutcomeUnknown: nothing tells whether the commit was made, or will be.
        LakeportError: Delta refused.
    """
    columns = sort_columns(contents, zorder)
    target = str(target_bytes(contents.state.properties))
    sizes = {f"{_DELTA}.optimize.{which}FileSize": target for which in ("min", "max")}
    mark = Mark("", "", -1, "", "", str(uuid.uuid4()))
    session = _session(spark, {**sizes, USER_METADATA: mark.text()})
    if where is not None:
        _check_condition(session, contents, where)
    command = f"OPTIMIZE {_named(log.hadoop_uri)}"
    if where is not None:
        command += f" WHERE {where}\n"  # what may be a comment at its end stays there
    if columns:
        command += f" ZORDER BY ({', '.join(columns)})"
    try:
        return _optimized(session, command, where, contents)
    except ConfigError:
        raise
    except LakeportError as failure:
        return _told(settle(log, lambda c: c.mark == mark, contents.state.version, failure))


def _optimized(
    session: SparkSession, command: str, where: str | None, contents: Contents
) -> dict[str, Any]:
    from pyspark.errors import AnalysisException

    with translated():
        try:
            done = session.sql(command)
        except AnalysisException as error:
            if where is None:
                raise
            raise _no_condition(where, first_line(error), contents) from error
        found = done.select("metrics").first()
    metrics = found[0].asDict(recursive=True) if found else {}
    return {
        "files_removed": metrics.get("numFilesRemoved", 0),
        "files_added": metrics.get("numFilesAdded", 0),
        "bytes_removed": (metrics.get("filesRemoved") or {}).get("totalSize") or 0,
        "bytes_added": (metrics.get("filesAdded") or {}).get("totalSize") or 0,
        "partitions": metrics.get("partitionsOptimized", 0),
    }


def _told(commit: Commit) -> dict[str, Any]:
    """The same of a commit whose maker lost the answer."""
    metrics = commit.info.get("operationMetrics") or {}
    return {
        "files_removed": commit.removed,
        "files_added": commit.added,
        "bytes_removed": int(metrics.get("numRemovedBytes", 0)),
        "bytes_added": commit.bytes_added,
        "partitions": len(commit.touched),
    }


def vacuum(
    spark: SparkSession,
    location: TableLocation,
    newest: int,
    retain: int | None,
    *,
    dry_run: bool,
    force: bool,
) -> dict[str, Any]:
    """Delete files that no version of the retained time uses; with `dry_run` list them.

    A file that no version has named may be of a writer at work, and stays for a week in any case.

    Args:
        spark: a session with Delta.
        location: the table's.
        newest: the table's version, or an earlier one.
        retain: whole hours; the table's own retention, at least a week, when absent.
        dry_run: delete nothing.
        force: allow less than a week, and less than the table's own retention.

    Returns:
        `deleted`, `bytes` and `version`; with `dry_run`, the `files` (and empty folders) that
        would go.

    Raises:
        ConfigError: a retention that nobody forced, or that is none.
        LakeportError: Delta refused.
    """
    with translated():
        wanted = _retention(spark, location.hadoop_uri, retain, force)
        mark = Mark("", "", -1, "", "", str(uuid.uuid4()))
        session = _session(
            spark,
            {
                f"{_DELTA}.retentionDurationCheck.enabled": str(not force).lower(),
                f"{_DELTA}.vacuum.parallelDelete.enabled": "true",
                f"{_DELTA}.vacuum.logging.enabled": "true",
                USER_METADATA: mark.text(),
            },
        )
        command = f"VACUUM {_named(location.hadoop_uri)}"
        if wanted < RETENTION_HOURS:
            before = time.time() - RETENTION_HOURS * 3600
            files = session.createDataFrame(inventory(session, location, before))
            files.createOrReplaceTempView(_INVENTORY)
            command += f" USING INVENTORY (TABLE {_INVENTORY})"
        command += f" RETAIN {wanted:d} HOURS"
        rows = session.sql(command + (" DRY RUN" if dry_run else "")).collect()
    if dry_run:
        return {"files": sorted(str(row[0]) for row in rows)}
    return _vacuumed(CommitLog(location.storage, location.folder), mark, newest)


def _retention(spark: SparkSession, uri: str, retain: int | None, force: bool) -> int:
    """For how many hours files are kept."""
    if retain is None:
        return max(RETENTION_HOURS, _own_retention(spark, uri))
    if not isinstance(retain, int) or retain < 0:
        raise ConfigError(f"{retain!r} is no retention", "give whole hours, 0 or more.")
    _check_retention(retain, RETENTION_HOURS, "readers and writers that take longer", force)
    own = _own_retention(spark, uri)
    _check_retention(retain, own, "the table keeps them longer: its users", force)
    return retain


def _vacuumed(log: CommitLog, mark: Mark, read: int) -> dict[str, Any]:
    """What the two commits of a VACUUM say, whoever committed between or after them."""
    ours = [commit for commit in log.since(read) if commit.mark == mark]
    counted = {n: v for c in ours for n, v in (c.info.get("operationMetrics") or {}).items()}
    return {
        "deleted": int(counted.get("numDeletedFiles", 0)),
        "bytes": int(counted.get("sizeOfDataToDelete", 0)),
        "version": max((commit.version for commit in ours), default=read),
    }


def _named(uri: str) -> str:
    """A table in SQL text. Delta's own builder of OPTIMIZE leaves quotes in a path as they are."""
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


def _own_retention(spark: SparkSession, uri: str) -> int:
    """How many hours the table keeps deleted files by its own properties."""
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    snapshot = delta.DeltaLog.forTable(spark._jsparkSession, uri).update(
        False, jvm.scala.Option.apply(None), jvm.scala.Option.apply(None)
    )
    return int(delta.DeltaLog.tombstoneRetentionMillis(snapshot.metadata())) // 3_600_000


def _check_retention(retain: int, least: int, who: str, force: bool) -> None:
    if retain >= least or force:
        return
    raise ConfigError(
        f"files would be kept for {retain} hours only, less than {least}",
        f"{who} may find files gone in the middle of their work, and no version older than that "
        "can be read again. Keep more, or force it (`--force`) while nobody uses the table.",
    )


def _check_condition(spark: SparkSession, contents: Contents, where: str) -> None:
    from pyspark.errors import ParseException

    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    with active(spark):
        try:
            condition = parser.parseExpression(where)
        except ParseException as error:
            raise _no_condition(where, first_line(error), contents) from error
    check_expression(spark._jvm, condition)
    if contents.cluster_columns:
        raise ConfigError(
            "a clustered table has no partitions to choose from", "leave out the condition."
        )


def _no_condition(where: str, reason: str, contents: Contents) -> ConfigError:
    columns = ", ".join(contents.state.partition_columns) or "none: leave out the condition"
    return ConfigError(
        f"{where!r} is no condition on partition columns: {reason}",
        f"write one SQL expression on partition columns, such as \"day >= '2024-05-01'\". The "
        f"table's are {columns}.",
    )


def _parts(schema: pa.Schema, name: str) -> list[str]:
    """A column's name, or a dotted path to a member of an object, as the table spells it."""
    spelling = {item.name.casefold(): item for item in schema}
    if name.casefold() in spelling:
        return [spelling[name.casefold()].name]
    head, _, rest = name.partition(".")
    above = spelling.get(head.casefold())
    if rest and above is not None and pa.types.is_struct(above.type):
        return [above.name, *_parts(pa.schema(list(above.type)), rest)]
    close = nearest(name, schema.names)
    raise ConfigError(
        f"there is no column {name!r}" + (f"; did you mean {close!r}?" if close else ""),
        f"the columns are {', '.join(schema.names)}.",
    )
