"""Where the table of a load is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.destinations import open_storage
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.lake import Load

__all__ = ["table_of"]


def table_of(load: Load) -> str:
    """The URI of a load's table; empty for one with several streams, which have one each."""
    config = load.target
    pattern = config.table_pattern
    if pattern is None or "{stream}" in pattern:
        return ""
    return open_storage(config).uri(config.folder_of(table_name(pattern, load.name)))
