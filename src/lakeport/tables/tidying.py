"""Merging small files after a run, where they have piled up: `auto_optimize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakeport.tables.compaction import condition, crowded
from lakeport.tables.maintenance import optimize
from lakeport.tables.versions import Versions
from lakeport.writers.delta.log.commits import CommitLog
from lakeport.writers.delta.writer import DeltaWriter

__all__ = ["tidy"]

_AT_ONCE = 100


def tidy(writer: DeltaWriter, versions: Sequence[int]) -> list[dict[str, Any]]:
    """Merge the small files of the partitions that a run wrote to, if 20 or more are in one.

    Args:
        writer: the run's way to the table.
        versions: the table's versions that the run made.

    Returns:
        What each `optimize` did, of which there is one for every hundred partitions; nothing when
        no partition needed it.

    Raises:
        LakeportError: the store or Delta refused; the run's rows are as durable as before.
    """
    log = CommitLog(writer.storage, writer.folder)
    commits = [commit for commit in map(log.read, versions) if commit is not None]
    touched = [values for commit in commits for values in commit.touched]
    known = Versions.of(writer.storage, writer.folder)
    contents = known.contents(known.newest(), writer.session)
    groups = crowded(contents, touched)
    if not groups:
        return []
    if contents.cluster_columns or not contents.state.partition_columns:
        return [optimize(writer.session(), log, contents, (), None)]
    parts = [groups[start : start + _AT_ONCE] for start in range(0, len(groups), _AT_ONCE)]
    schema = contents.state.schema
    return [
        optimize(writer.session(), log, contents, (), condition(part, schema)) for part in parts
    ]
