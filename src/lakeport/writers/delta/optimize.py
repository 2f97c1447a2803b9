"""Merge small files of Delta tables by Delta's OPTIMIZE, on request and after a run.

OPTIMIZE packs the files of one partition that are smaller than the target size into new ones,
smallest first. delta-spark plans, commits and retries it in its own transaction, so that it is no
`TableOperation`; only a lost answer is recovered here, as for any other commit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.delta_log.actions import parse_partition_value
from lakeport.delta_log.reader import Commit, Contents, DeltaLog
from lakeport.delta_log.state import physical_names
from lakeport.delta_log.transactions import CommitMark
from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.schema.spark_schema import NULL_FOLDER, quote_identifier, to_spark_json
from lakeport.units import parse_size
from lakeport.writers.delta.commit import recover_commit

if TYPE_CHECKING:
    from lakeport.engine.spark.delta.session import DeltaSession
    from lakeport.model import Storage


SMALL_FILE_BYTES = 32 << 20
"""Below this a data file counts as small."""
MANY_SMALL_FILES = 20
"""From this number of small files on a partition is crowded."""

_TARGET_BYTES = 256 << 20

Values = Mapping[str, str | None]

_AT_ONCE = 100
"""Partitions that one OPTIMIZE names: Spark parses a longer condition slowly."""


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Sizes of the data files in one partition, or in a table without partitions.

    Attributes:
        values: partition column -> value as the log spells it.
        sizes: size of each file in bytes.
    """

    values: Values
    sizes: tuple[int, ...]

    @property
    def small(self) -> int:
        """Number of files below 32 MB."""
        return sum(size < SMALL_FILE_BYTES for size in self.sizes)


def target_bytes(properties: Mapping[str, str]) -> int:
    """Return the table's target size of a data file in bytes: 256 MB without the property.

    >>> target_bytes({}), target_bytes({"delta.targetFileSize": "128mb"})
    (268435456, 134217728)
    """
    size = parse_size(properties.get("delta.targetFileSize", ""))
    return _TARGET_BYTES if size is None else size


def group_by_partition(contents: Contents) -> list[PartitionFiles]:
    """Return each partition's file sizes; values that differ in spelling only are one."""
    columns = _partition_columns(contents)
    partitions: dict[tuple[Any, ...], tuple[Values, list[int]]] = {}
    for file in contents.files:
        values = file.partition
        key = tuple(
            parse_partition_value(values.get(name), type_) for name, (_, type_) in columns.items()
        )
        named = {logical: values.get(name) for name, (logical, _) in columns.items()}
        partitions.setdefault(key, (named, []))[1].append(file.bytes)
    return [PartitionFiles(values, tuple(sizes)) for values, sizes in partitions.values()]


def pack_sizes(sizes: Iterable[int], target: int) -> list[tuple[int, ...]]:
    """Group file sizes as OPTIMIZE would merge them: a tuple per new file, none for files kept.

    >>> pack_sizes([5, 1, 4, 30, 7], target=10)
    [(1, 4, 5)]
    """
    bins: list[list[int]] = [[]]
    for size in sorted(size for size in sizes if size < target):
        if sum(bins[-1]) + size > target:
            bins.append([])
        bins[-1].append(size)
    return [tuple(sizes) for sizes in bins if len(sizes) > 1]


def find_crowded_partitions(contents: Contents, written: Iterable[Values]) -> list[PartitionFiles]:
    """Return the partitions among `written` that have 20 or more files below 32 MB.

    `written` are partition values as the log has them, by the columns' names in data files.
    """
    columns = _partition_columns(contents)

    def parse(values: Values, names: Iterable[str]) -> tuple[Any, ...]:
        types = (type_ for _, type_ in columns.values())
        return tuple(
            parse_partition_value(values.get(n), t) for n, t in zip(names, types, strict=True)
        )

    wanted = {parse(values, columns) for values in written}
    logical = [name for name, _ in columns.values()]
    return [
        partition
        for partition in group_by_partition(contents)
        if partition.small >= MANY_SMALL_FILES and parse(partition.values, logical) in wanted
    ]


def partition_condition(partitions: Sequence[PartitionFiles], schema: pa.Schema) -> str:
    """Return the SQL condition on partition columns that is true for these partitions only.

    Values are written as hexadecimal UTF-8, so that no value can be read as SQL.

    >>> partitions = [PartitionFiles({"p": "a'b"}, ()), PartitionFiles({"p": None}, ())]
    >>> partition_condition(partitions, pa.schema([("p", "string")]))
    "(`p` <=> CAST(X'612762' AS STRING)) OR (`p` IS NULL)"
    """
    return " OR ".join(
        "(" + " AND ".join(_equals(n, v, schema.field(n).type) for n, v in p.values.items()) + ")"
        for p in partitions
    )


def _equals(name: str, value: str | None, type_: pa.DataType) -> str:
    """Return SQL that compares a column with a partition value of the log; IS NULL for ""."""
    column = quote_identifier(name)
    if value is None or value == "":
        return f"{column} IS NULL"
    text = f"CAST(X'{value.encode().hex()}' AS STRING)"
    if not pa.types.is_string(type_) and not pa.types.is_large_string(type_):
        kind = json.loads(to_spark_json(pa.schema([(name, type_)])))["fields"][0]["type"]
        text = f"CAST({text} AS {kind})"
    return f"{column} <=> {text}"


def _partition_columns(contents: Contents) -> dict[str, tuple[str, pa.DataType]]:
    """Map each partition column's physical name to its name in the table and its type."""
    state = contents.state
    schema = state.partition_schema
    names = physical_names(state.schema_json, state.partition_columns)
    return {names[name]: (name, schema.field(name).type) for name in state.partition_columns}


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """Counts of the files, bytes and partitions of one OPTIMIZE."""

    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    partitions: int = 0


def compact(
    storage: Storage,
    folder: str,
    session: Callable[[], DeltaSession],
    versions: Sequence[int],
    roots: Sequence[str] = (),
) -> None:
    """Run OPTIMIZE on partitions that these versions wrote to, if 20 or more files are small.

    Args:
        storage: where the table is.
        folder: the table's key; empty when it is the storage's root.
        session: returns the Spark session; called only when that is needed.
        versions: the table's versions that the run has made.
        roots: URI prefixes below which data files may lie, beside the table's folder.

    Raises:
        SourceError: the table's log names files elsewhere, or the table is gone.
        LakeportError: the store or Delta refused; the run's rows are as durable as before.
    """
    log = DeltaLog(storage, folder)
    commits = [commit for commit in map(log.read_commit, versions) if commit is not None]
    written = [values for commit in commits for values in commit.added_partitions]
    files = log.list_files()
    if files.newest < 0:
        raise SourceError(f"{log.uri} is no longer a Delta table", "nothing was merged.")
    contents = files.read_contents(files.newest)
    crowded = find_crowded_partitions(contents, written)
    if crowded:
        session().check_files(storage, folder, files.newest, roots)
    if crowded and (contents.state.clustering or not contents.state.partition_columns):
        optimize(session(), log, contents)
        return
    for start in range(0, len(crowded), _AT_ONCE):
        where = partition_condition(crowded[start : start + _AT_ONCE], contents.state.schema)
        optimize(session(), log, contents, where=where)


def optimize(
    session: DeltaSession,
    log: DeltaLog,
    contents: Contents,
    *,
    sort_by: Sequence[str] = (),
    where: str | None = None,
) -> OptimizeResult:
    """Merge small files by OPTIMIZE; return the counts of files and bytes added and removed.

    Args:
        session: the Spark session.
        log: the table's log, in which a commit is found whose answer was lost.
        contents: the table's newest contents.
        sort_by: columns by which to sort the rows into files (Z-order), quoted for SQL.
        where: SQL condition on partition columns, one expression that is safe to run.

    Raises:
        ConfigError: the condition does not fit the table.
        OutcomeUnknown: whether the commit was made, or will be, is unknown.
        LakeportError: Delta refused.
    """
    state = contents.state
    mark = CommitMark("", "", -1, "", "", str(uuid.uuid4()))
    # Spark reads partitions off the folders that it writes: it would make nulls of this text.
    names = physical_names(state.schema_json, state.partition_columns)
    values = [file.partition for file in contents.files]
    texts = [n for n, key in names.items() if any(v.get(key) == NULL_FOLDER for v in values)]
    try:
        metrics = session.optimize(
            log.hadoop_uri,
            file_bytes=target_bytes(state.properties),
            user_metadata=mark.format(),
            where=where,
            extra_conditions=[
                f"NOT ({quote_identifier(name)} <=> '{NULL_FOLDER}')" for name in texts
            ],
            sort_by=sort_by,
            make_error=lambda reason: condition_error(where or "", reason, contents),
        )
    except ConfigError:
        raise
    except LakeportError as failure:
        commit = recover_commit(log, lambda c: c.mark == mark, state.version, failure)
        return _read_result(commit)
    return OptimizeResult(
        files_removed=metrics.get("numFilesRemoved", 0),
        files_added=metrics.get("numFilesAdded", 0),
        bytes_removed=(metrics.get("filesRemoved") or {}).get("totalSize") or 0,
        bytes_added=(metrics.get("filesAdded") or {}).get("totalSize") or 0,
        partitions=metrics.get("partitionsOptimized", 0),
    )


def condition_error(where: str, reason: str, contents: Contents) -> ConfigError:
    """Return the error for `where`, which is no valid condition on partition columns."""
    columns = ", ".join(contents.state.partition_columns) or "none: leave out the condition"
    return ConfigError(
        f"{where!r} is no condition on partition columns: {reason}",
        f"write one SQL expression on partition columns, such as \"day >= '2024-05-01'\". The "
        f"table's are {columns}.",
    )


def _read_result(commit: Commit) -> OptimizeResult:
    """Return the counts of an OPTIMIZE from its commit, as Spark's answer was lost."""
    metrics = commit.info.get("operationMetrics") or {}
    return OptimizeResult(
        files_removed=commit.removed,
        files_added=commit.added,
        bytes_removed=int(metrics.get("numRemovedBytes", 0)),
        bytes_added=commit.bytes_added,
        partitions=len(commit.added_partitions),
    )
