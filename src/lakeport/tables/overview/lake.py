"""What the page of a lake shows of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.html.facts import MOST_POINTS, LakeFacts, LakeTableFacts
from lakeport.tables.lake import SeenTable, see_tables

if TYPE_CHECKING:
    from lakeport.model import Storage


def lake_facts(storage: Storage, folder: str) -> LakeFacts:
    """Tell a lake.

    Args:
        storage: where it is.
        folder: its key; empty when it is the storage's root.

    Raises:
        SourceError: there are too many folders to look into.
        DestinationError: the store refused.
    """
    seen = see_tables(storage, folder, MOST_POINTS)
    return LakeFacts(storage.uri(folder), tuple(map(_table, seen)))


def _table(seen: SeenTable) -> LakeTableFacts:
    table = seen.table
    return LakeTableFacts(
        name=table.name,
        uri=table.uri,
        format=table.format,
        rows=table.rows,
        bytes=table.bytes,
        files=table.files,
        small_files=seen.small_files,
        last_change=table.last_change,
        version=table.version,
        growth=tuple(seen.growth),
        problem=table.problem,
    )
