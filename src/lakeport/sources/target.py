"""What a source may ask of the tables that it is landed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
