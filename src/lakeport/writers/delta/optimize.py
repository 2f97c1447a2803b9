"""Merging small files through Delta's OPTIMIZE: when it is asked for, and after a run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.engine.spark.delta import maintenance
from lakeport.engine.spark.delta.files import check_table_files
from lakeport.engine.spark.sql import quoted
from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.schema.sparktypes import NULL_FOLDER
from lakeport.writers.delta.commit.outcome import settle
from lakeport.writers.delta.compaction import condition, crowded, target_bytes
from lakeport.writers.delta.log.commits import Commit, CommitLog, Mark
from lakeport.writers.delta.log.reader import Contents, LogFiles, read_contents
from lakeport.writers.delta.schema import physical_names

if TYPE_CHECKING:
    from lakeport.engine.types import SparkSession
    from lakeport.model import Storage

_AT_ONCE = 100
"""Partitions that one OPTIMIZE names: a longer condition takes Spark's parser long."""


@dataclass(frozen=True, slots=True)
class Optimized:
    """What one OPTIMIZE did; sizes in bytes."""

    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    partitions: int = 0


def compact(
    storage: Storage,
    folder: str,
    session: Callable[[], SparkSession],
    versions: Sequence[int],
    roots: Sequence[str] = (),
) -> None:
    """Merge the small files of the partitions that a run wrote to, if 20 or more are in one.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        session: gives the Spark session, which is only asked for when it is needed.
        versions: the table's versions that the run made.
        roots: prefixes that files of the table may lie in, beside its folder.

    Raises:
        SourceError: the table's log names files outside of them.
        LakeportError: the store or Delta refused; the run's rows are as durable as before.
    """
    log = CommitLog(storage, folder)
    commits = [commit for commit in map(log.read, versions) if commit is not None]
    touched = [values for commit in commits for values in commit.touched]
    files = LogFiles.of(storage, folder)
    if files.newest < 0:
        raise SourceError(f"{log.uri} is no longer a Delta table", "nothing was merged.")
    contents = read_contents(storage, folder, files, files.newest)
    groups = crowded(contents, touched)
    if groups:
        check_table_files(session(), storage, folder, files.newest, roots)
    if groups and (contents.cluster_columns or not contents.state.partition_columns):
        optimize(session(), log, contents)
        return
    for start in range(0, len(groups), _AT_ONCE):
        where = condition(groups[start : start + _AT_ONCE], contents.state.schema)
        optimize(session(), log, contents, where=where)


def optimize(
    spark: SparkSession,
    log: CommitLog,
    contents: Contents,
    *,
    sort_by: Sequence[str] = (),
    where: str | None = None,
) -> Optimized:
    """Merge small files; return how many files and bytes came and went.

    Args:
        spark: a session with Delta.
        log: tells what became of the commit, should its answer be lost.
        contents: the table as it is.
        sort_by: columns by which to sort the rows into files (Z-order), quoted for SQL.
        where: a condition on partition columns, one expression that is safe to be run.

    Raises:
        ConfigError: the condition does not fit the table.
        OutcomeUnknown: nothing tells whether the commit was made, or will be.
        LakeportError: Delta refused.
    """
    state = contents.state
    mark = Mark("", "", -1, "", "", str(uuid.uuid4()))
    # Spark reads partitions off the folders that it writes: it would make nulls of this text.
    names = physical_names(state.schema_json, state.partition_columns)
    values = [file.partition for file in contents.files]
    texts = [n for n, key in names.items() if any(v.get(key) == NULL_FOLDER for v in values)]
    try:
        metrics = maintenance.optimize(
            spark,
            log.hadoop_uri,
            file_bytes=target_bytes(state.properties),
            user_metadata=mark.text(),
            where=where,
            also=[f"NOT ({quoted(name)} <=> '{NULL_FOLDER}')" for name in texts],
            sort_by=sort_by,
            refusal=lambda reason: no_condition(where or "", reason, contents),
        )
    except ConfigError:
        raise
    except LakeportError as failure:
        return _told(settle(log, lambda c: c.mark == mark, state.version, failure))
    return Optimized(
        files_removed=metrics.get("numFilesRemoved", 0),
        files_added=metrics.get("numFilesAdded", 0),
        bytes_removed=(metrics.get("filesRemoved") or {}).get("totalSize") or 0,
        bytes_added=(metrics.get("filesAdded") or {}).get("totalSize") or 0,
        partitions=metrics.get("partitionsOptimized", 0),
    )


def no_condition(where: str, reason: str, contents: Contents) -> ConfigError:
    """The error for what is no condition on the table's partitions."""
    columns = ", ".join(contents.state.partition_columns) or "none: leave out the condition"
    return ConfigError(
        f"{where!r} is no condition on partition columns: {reason}",
        f"write one SQL expression on partition columns, such as \"day >= '2024-05-01'\". The "
        f"table's are {columns}.",
    )


def _told(commit: Commit) -> Optimized:
    """The same of a commit whose maker lost the answer."""
    metrics = commit.info.get("operationMetrics") or {}
    return Optimized(
        files_removed=commit.removed,
        files_added=commit.added,
        bytes_removed=int(metrics.get("numRemovedBytes", 0)),
        bytes_added=commit.bytes_added,
        partitions=len(commit.touched),
    )
