"""What a source may ask of its target: tables, and the credentials for other stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.config.base import config_class, parse_target_uri
from lakeport.config.load import load_target

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.model import Memory, Mode, Storage


@dataclass(frozen=True, slots=True)
class TargetTables:
    """The tables of a target, by their streams.

    Attributes:
        memory: what the table of a stream remembers of its sources.
        keys: columns of a stream's table, of the rows without a mark: takes the stream, the names
            of the columns, and that of the column that marks a row; None where there is no table.
        storage: the target's store.
        mode: what loads do with the rows that are there, where they don't begin anew.
    """

    memory: Callable[[str], Memory]
    keys: Callable[[str, Sequence[str], str], pa.Table | None]
    storage: Storage
    mode: Mode


def one_table(config: DestinationConfig) -> str | None:
    """A target's `table`, if it is the same for whatever stream; else None."""
    return None if config.table is None or "{stream}" in config.table else config.table


def storage_of(target: DestinationConfig, uri: str) -> Storage | None:
    """The store rooted at a folder's URI; None for a local path.

    A source in the target's own cloud is read with the target's credentials and endpoint, any
    other one with those that the environment has.

    Raises:
        ConfigError: no store has that scheme.
    """
    if "://" not in uri or uri.startswith("file:"):
        return None
    kind = config_class(parse_target_uri(uri)["destination"])
    return (kind.for_source_folder(uri, target) or load_target(uri)).storage()
