"""What a page shows of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.tables.overview.delta import delta_facts
from lakeport.tables.overview.files import files_facts
from lakeport.tables.versions import Versions

if TYPE_CHECKING:
    from lakeport.html.facts import TableFacts
    from lakeport.model import Storage

__all__ = ["table_facts"]


def table_facts(storage: Storage, folder: str, name: str) -> TableFacts:
    """Tell a Delta table by its log, or a folder of Parquet or CSV files by their footers.

    Args:
        storage: where it is.
        folder: its key; empty when it is the storage's root.
        name: its name on the page, such as `silver/flights`.

    Raises:
        SourceError: there is no table, it is several, or its log does not tell what it holds.
        DestinationError: the store refused, or a file of the log is damaged.
    """
    versions = Versions.of(storage, folder)
    found = versions.files_or_version(None, None)
    if isinstance(found, int):
        return delta_facts(storage, folder, name, versions.log)
    return files_facts(storage, folder, name, found)
