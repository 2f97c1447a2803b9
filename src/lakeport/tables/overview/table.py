"""What a page shows of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.tables.overview.delta import delta_facts, delta_history
from lakeport.tables.overview.files import files_facts
from lakeport.tables.versions import Versions
from lakeport.tables.views import DeltaView, FilesView
from lakeport.writers.delta.log.reader import Contents
from lakeport.writers.delta.state import TableState

if TYPE_CHECKING:
    from lakeport.html.facts import TableFacts
    from lakeport.model import Storage
    from lakeport.writers.delta.log.history import History

_FILES = 100
"""Files of a Delta table among which its first rows are."""


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
    return table_and_rows(storage, folder, name)[0]


def table_and_rows(
    storage: Storage, folder: str, name: str
) -> tuple[TableFacts, DeltaView | FilesView]:
    """Tell a table, and what has its first rows; see `table_facts`."""
    versions = Versions.of(storage, folder)
    found = versions.files_or_version(None, None)
    if not isinstance(found, int):
        return files_facts(storage, folder, name, found), found
    history = delta_history(storage, folder, versions.log)
    facts = delta_facts(storage, folder, name, versions.log, history)
    return facts, DeltaView(storage, folder, _beginning(history, found))


def _beginning(history: History, version: int) -> Contents:
    """The table with its first files."""
    state = TableState(version, history.metadata, history.protocol)
    return Contents(state, tuple(known.file for known in history.files[:_FILES]))
