"""Maintain Delta tables: check the options of OPTIMIZE, run VACUUM, change a column's type."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.config.explain import closest_match
from lakeport.config.values import parse_seconds
from lakeport.delta_log.reader import Contents, DeltaLog
from lakeport.delta_log.transactions import CommitMark
from lakeport.destinations import delta_session
from lakeport.errors import ConfigError
from lakeport.lake.records import AlterReport, CompactReport, PartitionReport, VacuumReport
from lakeport.model import StoredObject
from lakeport.schema.spark_schema import quote_identifier
from lakeport.schema.types import format_type, get_logical_type, parse_type_name, to_arrow_field
from lakeport.writers.delta.alter import alter_column
from lakeport.writers.delta.optimize import (
    SMALL_FILE_BYTES,
    PartitionFiles,
    condition_error,
    group_by_partition,
    pack_sizes,
    target_bytes,
)
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.engine.spark.delta.session import DeltaSession, InventoryRow
    from lakeport.lake.location import TableLocation


RETENTION_HOURS = 168
"""Least retention without `force`, in hours: longer than readers and writers take."""

_CHANGES = "_change_data/"

_CLUSTERED = (
    "the table is clustered: `optimize` sorts its rows into new files, and may rewrite more"
)


def parse_hours(text: str) -> int:
    """Parse a retention such as `7d`, or hours as a bare number, to hours; or raise ConfigError.

    >>> parse_hours("168h"), parse_hours("30d"), parse_hours("2w"), parse_hours("24")
    (168, 720, 336, 24)
    """
    with suppress(ValueError):
        found = float(parse_seconds(f"{text}h" if text.strip().isdecimal() else text)) / 3600
        if found.is_integer():
            return int(found)
    raise ConfigError(
        f"{text!r} is no retention", "write whole hours, days or weeks: 168h, 7d, 1w."
    )


def quote_sort_columns(contents: Contents, names: Sequence[str]) -> list[str]:
    """Return column names quoted for Z-order in Spark SQL; ConfigError if Delta can't sort by one.

    It can't sort by partition columns, unknown ones, names with backticks, or a clustered table.
    """
    if names and contents.state.clustering:
        raise ConfigError(
            f"the table is clustered by {', '.join(contents.state.clustering)}, so it can't be "
            "sorted otherwise",
            "`optimize` without columns sorts it as it is clustered.",
        )
    found = []
    for name in names:
        parts = _resolve_column_path(contents.state.schema, name)
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
        found.append(".".join(map(quote_identifier, parts)))
    return found


def check_partitioned(contents: Contents, where: str) -> None:
    """Raise ConfigError if a table has no partitions to filter by `where`, or is clustered."""
    if contents.state.clustering:
        raise ConfigError(
            "a clustered table has no partitions to choose from", "leave out the condition."
        )
    if not contents.state.partition_columns:
        raise condition_error(where, "the table has no partitions", contents)


def check_retention_hours(hours: int | None, *, force: bool) -> None:
    """Raise ConfigError unless None, or whole hours >= 0 and, without `force`, at least a week."""
    if hours is None:
        return
    if not isinstance(hours, int) or hours < 0:
        raise ConfigError(f"{hours!r} is no retention", "give whole hours, 0 or more.")
    _check_minimum(RETENTION_HOURS, hours, "readers and writers that take longer", force)


def vacuum(
    session: DeltaSession,
    location: TableLocation,
    newest_version: int,
    retain_hours: int | None,
    *,
    dry_run: bool,
    force: bool,
) -> VacuumReport:
    """Delete files that no version within the retention needs; with `dry_run` only list them.

    A file that no version has named may be of a writer at work, and stays for a week in any case.

    Args:
        session: reaches the table.
        location: where the table is.
        newest_version: the table's version, or an earlier one.
        retain_hours: whole hours, which `check_retention_hours` allows; if None the table's own
            retention, but at least a week.
        dry_run: delete nothing.
        force: allow less than a week, and less than the table's own retention.

    Raises:
        ConfigError: nobody forced a retention of less than the table's own.
    """
    uri = location.log.hadoop_uri
    own_hours = session.retention_hours(uri)
    if retain_hours is None:
        hours = max(RETENTION_HOURS, own_hours)
    else:
        _check_minimum(own_hours, retain_hours, "the table keeps them longer: its users", force)
        hours = retain_hours
    cutoff = time.time() - RETENTION_HOURS * 3600
    inventory = partial(_build_inventory, location=location, cutoff=cutoff)
    mark = CommitMark("", "", -1, "", "", str(uuid.uuid4()))
    files = session.vacuum(
        uri,
        hours,
        user_metadata=mark.format(),
        dry_run=dry_run,
        force=force,
        read_inventory=inventory if hours < RETENTION_HOURS else None,
    )
    if dry_run:
        return VacuumReport(newest_version, dry_run=True, files=tuple(files))
    return _read_vacuum_report(location.log, mark, newest_version)


def _read_vacuum_report(log: DeltaLog, mark: CommitMark, after_version: int) -> VacuumReport:
    """Read a VACUUM's counts from the commits after `after_version` that have its mark."""
    ours = [commit for commit in log.commits_since(after_version) if commit.mark == mark]
    counted = {n: v for c in ours for n, v in (c.info.get("operationMetrics") or {}).items()}
    return VacuumReport(
        version=max((commit.version for commit in ours), default=after_version),
        deleted=int(counted.get("numDeletedFiles", 0)),
        bytes=int(counted.get("sizeOfDataToDelete", 0)),
    )


def _check_minimum(min_hours: int, hours: int, endangered: str, force: bool) -> None:
    """Raise ConfigError, warning of `endangered` programs, if hours are too few and not forced."""
    if hours >= min_hours or force:
        return
    raise ConfigError(
        f"files would be kept for {hours} hours only, less than {min_hours}",
        f"{endangered} may find files gone in the middle of their work, and no version older than "
        "that can be read again. Keep more, or force it (`--force`) while nobody uses the table.",
    )


def _resolve_column_path(schema: pa.Schema, name: str) -> list[str]:
    """Find a column by its dotted name, ignoring case; return its path, or raise ConfigError."""
    spelling = {item.name.casefold(): item for item in schema}
    if name.casefold() in spelling:
        return [spelling[name.casefold()].name]
    head, _, rest = name.partition(".")
    above = spelling.get(head.casefold())
    if rest and above is not None and pa.types.is_struct(above.type):
        return [above.name, *_resolve_column_path(pa.schema(list(above.type)), rest)]
    close = closest_match(name, schema.names)
    raise ConfigError(
        f"there is no column {name!r}" + (f"; did you mean {close!r}?" if close else ""),
        f"the columns are {', '.join(schema.names)}.",
    )


def _build_inventory(
    session: DeltaSession, location: TableLocation, cutoff: float
) -> list[InventoryRow]:
    """List the files and folders that VACUUM may delete. Runs a Spark job and lists the store.

    A file that no version names is left over from a writer that ended, or belongs to one at work,
    which names it with its next commit: nothing tells which. VACUUM takes it for left over when it
    is older than the retention, so a short one would delete the files of writers at work, and what
    they commit could not be read. So such files are left out until they are a week old: older than
    `cutoff`, in Unix seconds.
    """
    uri = location.log.hadoop_uri
    removed, root = session.removed_paths(uri), session.qualified_folder(uri)
    start = len(f"{location.folder}/") if location.folder else 0
    files = {item.key[start:]: item for item in location.storage.list(location.folder)}
    found = _select_vacuumable(files, removed, cutoff)
    folders = {str(folder) for name in found for folder in PurePosixPath(name).parents} - {"."}
    return [
        *((f"{root}/{name}", f.bytes, False, int(f.modified * 1000)) for name, f in found.items()),
        *((f"{root}/{folder}", 0, True, 0) for folder in folders),
    ]


def _select_vacuumable(
    files: Mapping[str, StoredObject], removed: Collection[str], cutoff: float
) -> dict[str, StoredObject]:
    """Return files older than Unix time `cutoff`, those in `removed`, and change data files.

    No running writer can own these. No version's rows depend on change data.

    >>> files = {name: StoredObject(name, 1, modified=9.0) for name in ("removed", "unknown")}
    >>> list(_select_vacuumable(files, {"removed"}, cutoff=5.0))
    ['removed']
    """
    return {
        name: file
        for name, file in files.items()
        if file.modified < cutoff or name in removed or name.startswith(_CHANGES)
    }


def build_compact_report(contents: Contents) -> CompactReport:
    """Count the files that `optimize` would merge and write in each partition of a table."""
    target = target_bytes(contents.state.properties)
    rows = [_build_partition_report(group, target) for group in group_by_partition(contents)]
    rows.sort(key=lambda row: (-row.small_files, row.partition))
    return CompactReport(
        version=contents.state.version,
        target_file_bytes=target,
        small_file_bytes=SMALL_FILE_BYTES,
        files=sum(row.files for row in rows),
        small_files=sum(row.small_files for row in rows),
        would_remove=sum(row.would_remove for row in rows),
        would_add=sum(row.would_add for row in rows),
        would_rewrite_bytes=sum(row.would_rewrite_bytes for row in rows),
        note=_CLUSTERED if contents.state.clustering else None,
        partitions=tuple(rows),
    )


def _build_partition_report(group: PartitionFiles, target: int) -> PartitionReport:
    """Count the files that `optimize` would merge and write in a partition, for `target` bytes."""
    merged = pack_sizes(group.sizes, target)
    return PartitionReport(
        partition=_format_partition(group.values),
        files=len(group.sizes),
        bytes=sum(group.sizes),
        small_files=group.small,
        would_remove=sum(map(len, merged)),
        would_add=len(merged),
        would_rewrite_bytes=sum(map(sum, merged)),
    )


def _format_partition(values: Mapping[str, str | None]) -> str:
    """Format a partition as `column=value` pairs; `the whole table` if there are none."""
    named = (f"{name}={'null' if value is None else value}" for name, value in values.items())
    return ", ".join(named) or "the whole table"


def alter(
    location: TableLocation, engine: Engine, column: str, type_: str, *, dry_run: bool
) -> AlterReport:
    """Change a column's type in a Delta table; with `dry_run` only check that all values fit."""
    new_type = get_logical_type(to_arrow_field(column, parse_type_name(type_, column)))
    writer = DeltaWriter(
        delta_session(location.config, location.storage, engine, "", writes=not dry_run),
        location.storage,
        location.folder,
        stream=location.uri.rstrip("/").rsplit("/", 1)[-1],
        config=location.config,
        by_log=engine.commits_by_log,
    )
    done = alter_column(writer, engine, column, new_type, dry_run=dry_run)
    return AlterReport(
        done.version,
        column,
        format_type(done.before),
        format_type(new_type),
        done.files,
        done.rows,
        done.bytes,
        dry_run,
    )
