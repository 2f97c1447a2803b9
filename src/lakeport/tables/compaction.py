"""What `optimize` would do with a table's small files."""

from __future__ import annotations

from collections.abc import Mapping

from lakeport.tables.records import CompactReport, PartitionReport
from lakeport.writers.delta.compaction import SMALL_FILE_BYTES, Group, groups, packed, target_bytes
from lakeport.writers.delta.log.reader import Contents

_CLUSTERED = (
    "the table is clustered: `optimize` sorts its rows into new files, and may rewrite more"
)


def report(contents: Contents) -> CompactReport:
    """What `optimize` would do with a table, partition by partition, the worst first."""
    target = target_bytes(contents.state.properties)
    rows = [_partition(group, target) for group in groups(contents)]
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
        note=_CLUSTERED if contents.cluster_columns else None,
        partitions=tuple(rows),
    )


def _partition(group: Group, target: int) -> PartitionReport:
    merged = packed(group.sizes, target)
    return PartitionReport(
        partition=_spelled(group.values),
        files=len(group.sizes),
        bytes=sum(group.sizes),
        small_files=group.small,
        would_remove=sum(map(len, merged)),
        would_add=len(merged),
        would_rewrite_bytes=sum(map(sum, merged)),
    )


def _spelled(values: Mapping[str, str | None]) -> str:
    """A partition in words."""
    named = (f"{name}={'null' if value is None else value}" for name, value in values.items())
    return ", ".join(named) or "the whole table"
