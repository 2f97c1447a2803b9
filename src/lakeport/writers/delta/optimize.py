"""Compact small files of Delta tables: by OPTIMIZE, on request and after a run.

OPTIMIZE merges the files of one partition that are smaller than the target, smallest first, as
long as they fit into one file of the target's size: Delta's own way to pack them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.delta_log.actions import parse_value
from lakeport.delta_log.reader import Commit, Contents, DeltaLog
from lakeport.delta_log.state import physical_names
from lakeport.delta_log.transactions import Mark
from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.schema.spark_schema import NULL_FOLDER, quote_identifier, to_spark_json
from lakeport.units import parse_size
from lakeport.writers.delta.commit import settle

if TYPE_CHECKING:
    from lakeport.engine.base import DeltaSession
    from lakeport.model import Storage


SMALL_FILE_BYTES = 32 << 20
"""Below this a data file counts as small."""
MANY_SMALL_FILES = 20
"""So many small files in one partition are a pile."""

_TARGET = 256 << 20

Values = Mapping[str, str | None]

_AT_ONCE = 100
"""Partitions that one OPTIMIZE names: a longer condition takes Spark's parser long."""


@dataclass(frozen=True, slots=True)
class Group:
    """The files of one partition, or of a table without partitions.

    Attributes:
        values: partition column -> its value as the log spells it.
        sizes: the files' sizes in bytes.
    """

    values: Values
    sizes: tuple[int, ...]

    @property
    def small(self) -> int:
        """How many of the files are small."""
        return sum(size < SMALL_FILE_BYTES for size in self.sizes)


def target_bytes(properties: Mapping[str, str]) -> int:
    """The size that a table's data files are to have.

    >>> target_bytes({}), target_bytes({"delta.targetFileSize": "128mb"})
    (268435456, 134217728)
    """
    found = parse_size(properties.get("delta.targetFileSize", ""))
    return _TARGET if found is None else found


def groups(contents: Contents) -> list[Group]:
    """A table's files by partition; two spellings of one value are one partition."""
    columns = _columns(contents)
    found: dict[tuple[Any, ...], tuple[Values, list[int]]] = {}
    for file in contents.files:
        values = file.partition
        key = tuple(parse_value(values.get(name), type_) for name, (_, type_) in columns.items())
        named = {logical: values.get(name) for name, (logical, _) in columns.items()}
        found.setdefault(key, (named, []))[1].append(file.bytes)
    return [Group(values, tuple(sizes)) for values, sizes in found.values()]


def pack_sizes(sizes: Iterable[int], target: int) -> list[tuple[int, ...]]:
    """The files that are merged, one tuple for each new file.

    >>> pack_sizes([5, 1, 4, 30, 7], target=10)
    [(1, 4, 5)]
    """
    bins: list[list[int]] = [[]]
    for size in sorted(size for size in sizes if size < target):
        if sum(bins[-1]) + size > target:
            bins.append([])
        bins[-1].append(size)
    return [tuple(found) for found in bins if len(found) > 1]


def crowded_groups(contents: Contents, touched: Iterable[Values]) -> list[Group]:
    """The partitions that hold a pile of small files, of those that were written to.

    Args:
        contents: what the table holds now.
        touched: partition values as the log has them, by the columns' names in data files.
    """
    columns = _columns(contents)

    def typed(values: Values, names: Iterable[str]) -> tuple[Any, ...]:
        kinds = (type_ for _, type_ in columns.values())
        return tuple(parse_value(values.get(n), k) for n, k in zip(names, kinds, strict=True))

    wanted = {typed(values, columns) for values in touched}
    logical = [name for name, _ in columns.values()]
    return [
        group
        for group in groups(contents)
        if group.small >= MANY_SMALL_FILES and typed(group.values, logical) in wanted
    ]


def condition(partitions: Sequence[Group], schema: pa.Schema) -> str:
    """A condition on partition columns that holds for these partitions only.

    Values are written as hexadecimal UTF-8, so that no value can be anything but a value.

    >>> condition([Group({"p": "a'b"}, ()), Group({"p": None}, ())], pa.schema([("p", "string")]))
    "(`p` <=> CAST(X'612762' AS STRING)) OR (`p` IS NULL)"
    """
    return " OR ".join(
        "(" + " AND ".join(_equals(n, v, schema.field(n).type) for n, v in g.values.items()) + ")"
        for g in partitions
    )


def _equals(name: str, value: str | None, type_: pa.DataType) -> str:
    column = quote_identifier(name)
    if value is None or value == "":
        return f"{column} IS NULL"
    text = f"CAST(X'{value.encode().hex()}' AS STRING)"
    if not pa.types.is_string(type_) and not pa.types.is_large_string(type_):
        kind = json.loads(to_spark_json(pa.schema([(name, type_)])))["fields"][0]["type"]
        text = f"CAST({text} AS {kind})"
    return f"{column} <=> {text}"


def _columns(contents: Contents) -> dict[str, tuple[str, pa.DataType]]:
    """Partition column's name in the log -> its own name and type."""
    state = contents.state
    schema = state.partition_schema
    names = physical_names(state.schema_json, state.partition_columns)
    return {names[name]: (name, schema.field(name).type) for name in state.partition_columns}


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """What one OPTIMIZE did; sizes in bytes."""

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
    log = DeltaLog(storage, folder)
    commits = [commit for commit in map(log.read, versions) if commit is not None]
    touched = [values for commit in commits for values in commit.touched]
    files = log.files()
    if files.newest < 0:
        raise SourceError(f"{log.uri} is no longer a Delta table", "nothing was merged.")
    contents = files.contents(files.newest)
    groups = crowded_groups(contents, touched)
    if groups:
        session().check_files(storage, folder, files.newest, roots)
    if groups and (contents.state.clustering or not contents.state.partition_columns):
        optimize(session(), log, contents)
        return
    for start in range(0, len(groups), _AT_ONCE):
        where = condition(groups[start : start + _AT_ONCE], contents.state.schema)
        optimize(session(), log, contents, where=where)


def optimize(
    session: DeltaSession,
    log: DeltaLog,
    contents: Contents,
    *,
    sort_by: Sequence[str] = (),
    where: str | None = None,
) -> OptimizeResult:
    """Merge small files; return how many files and bytes came and went.

    Args:
        session: reaches the table.
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
        metrics = session.optimize(
            log.hadoop_uri,
            file_bytes=target_bytes(state.properties),
            user_metadata=mark.text(),
            where=where,
            also=[f"NOT ({quote_identifier(name)} <=> '{NULL_FOLDER}')" for name in texts],
            sort_by=sort_by,
            refusal=lambda reason: condition_error(where or "", reason, contents),
        )
    except ConfigError:
        raise
    except LakeportError as failure:
        return _result_of(settle(log, lambda c: c.mark == mark, state.version, failure))
    return OptimizeResult(
        files_removed=metrics.get("numFilesRemoved", 0),
        files_added=metrics.get("numFilesAdded", 0),
        bytes_removed=(metrics.get("filesRemoved") or {}).get("totalSize") or 0,
        bytes_added=(metrics.get("filesAdded") or {}).get("totalSize") or 0,
        partitions=metrics.get("partitionsOptimized", 0),
    )


def condition_error(where: str, reason: str, contents: Contents) -> ConfigError:
    """The error for what is no condition on the table's partitions."""
    columns = ", ".join(contents.state.partition_columns) or "none: leave out the condition"
    return ConfigError(
        f"{where!r} is no condition on partition columns: {reason}",
        f"write one SQL expression on partition columns, such as \"day >= '2024-05-01'\". The "
        f"table's are {columns}.",
    )


def _result_of(commit: Commit) -> OptimizeResult:
    """The same of a commit whose maker lost the answer."""
    metrics = commit.info.get("operationMetrics") or {}
    return OptimizeResult(
        files_removed=commit.removed,
        files_added=commit.added,
        bytes_removed=int(metrics.get("numRemovedBytes", 0)),
        bytes_added=commit.bytes_added,
        partitions=len(commit.touched),
    )
