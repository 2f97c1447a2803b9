"""The parts of a target that sources use: its tables' bookmarks and keys, and its credentials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.config.base import config_class, parse_target_uri
from lakeport.config.load import load_target
from lakeport.errors import DestinationError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.model import BookmarkStore, Mode, Storage


@dataclass(frozen=True, slots=True)
class TargetTables:
    """A source's access to the tables that it loads: their bookmarks, keys, storage and mode.

    Attributes:
        read_keys: reads columns of a stream's table, of the rows that are not marked as deleted;
            takes the stream, the columns' names, and the name of the column with the mark. Returns
            None if there is no table.
        mode: the write mode of loads that are no full refresh.
    """

    open_memory: Callable[[str], BookmarkStore]
    read_keys: Callable[[str, Sequence[str], str], pa.Table | None]
    storage: Storage
    mode: Mode


def fixed_table_name(config: DestinationConfig) -> str | None:
    """Return the target's `table`; None if it is not set or contains `{stream}`."""
    return None if config.table is None or "{stream}" in config.table else config.table


def open_folder_storage(target: DestinationConfig, uri: str) -> Storage | None:
    """Return the store of a folder's URI, None for a local one; ConfigError for unknown schemes.

    A source in the target's own cloud is read with the target's credentials and endpoint, any
    other one with the credentials of the environment.
    """
    if "://" not in uri or uri.startswith("file:"):
        return None
    kind = config_class(parse_target_uri(uri)["destination"])
    return (kind.for_source_folder(uri, target) or load_target(uri)).storage()


def delete_old_objects(
    storage: Storage, folder: str, modified_before: float, kept_names: Collection[str]
) -> None:
    """Delete a folder's objects modified before a Unix time in seconds; ignore store errors.

    Args:
        folder: the folder's key, without a slash at its end.
        kept_names: names of objects to keep, without the folder.
    """
    with suppress(DestinationError):  # deletion may not be allowed, and can wait
        for found in storage.list(folder):
            if found.modified < modified_before and found.key.rpartition("/")[2] not in kept_names:
                storage.delete(found.key)
