"""Which files of a table a merge has to look into, as the log tells without opening one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakeport.errors import InputError
from lakeport.writers.delta.merge.changes import Retire, Upsert, marked
from lakeport.writers.delta.merge.files import Bounds, bounds, parse_statistics
from lakeport.writers.delta.merge.keys import KeyIndex, KeyRanges, Positions
from lakeport.writers.delta.merge.rewrite import Rewritten
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.schema import physical_names

__all__ = ["BatchKeys", "Entry", "may_be_old"]

Entry = Mapping[str, Any]
"""An `add` action."""


@dataclass(frozen=True)
class BatchKeys:
    """The keys of a batch on the driver.

    Attributes:
        columns: the key columns.
        last: positions of the last rows of all keys, sorted.
        inserted: those of them that are inserted where no row of the table matches.
        ranges: of the keys.
    """

    columns: pa.Table
    last: Positions
    inserted: Positions
    ranges: KeyRanges

    @classmethod
    def read(cls, change: Upsert) -> BatchKeys:
        """Read the keys of a staged batch.

        Raises:
            InputError: a row has no value in a key column.
        """
        names = [*change.merge_keys, *filter(None, [change.deleted])]
        table = change.incoming.columns(list(dict.fromkeys(names)))
        columns = table.select(list(change.merge_keys))
        for name in change.merge_keys:
            empty = columns.column(name).null_count
            if empty:
                raise InputError(
                    f"{empty} of the batch's {len(table)} rows have no value in {name!r}, by "
                    "which it is merged",
                    "give every record a value there, or name other `merge_keys`.",
                )
        last = KeyIndex(columns.columns).last
        inserted = last
        if change.deleted:
            gone = marked(table.column(change.deleted)).to_numpy()
            inserted = last[~gone[last]]
        return cls(columns, last, inserted, KeyRanges(columns.columns))

    def __len__(self) -> int:
        return len(self.columns)

    def may_be_in(self, entry: Entry, plan: DeltaPlan, keys: Sequence[str]) -> bool:
        """Whether a file may hold a row with one of the keys, as its bounds tell."""
        found = _bounds_of(entry, plan, keys)
        known: list[Bounds | None] = []
        for item in found:
            if isinstance(item, str):
                return False
            known.append(item)
        try:
            return self.ranges.meets(known)
        except (ValueError, OverflowError):  # a moment that Python's own types can't hold
            return True

    def unmatched(self, rewritten: Sequence[Rewritten]) -> Positions:
        """Positions of the rows to insert."""
        there = np.zeros(len(self.columns), dtype=bool)
        for one in rewritten:
            there[one.matched] = True
        return self.inserted[~there[self.inserted]]


def may_be_old(entry: Entry, plan: DeltaPlan, change: Retire) -> bool:
    """Whether a file may hold a row of an earlier version."""
    (found,) = _bounds_of(entry, plan, [change.version_column])
    if found is None or isinstance(found, str):
        return True
    name = physical_names(plan.schema_json, [change.version_column])[change.version_column]
    nulls = parse_statistics(entry).get("nullCount", {}).get(name)
    return nulls != 0 or bool(found[0].as_py() < change.version)


def _bounds_of(entry: Entry, plan: DeltaPlan, columns: Sequence[str]) -> list[Bounds | str | None]:
    statistics = parse_statistics(entry)
    names = physical_names(plan.schema_json, columns)
    types = [plan.schema.field(name).type for name in columns]
    return [
        bounds(entry, statistics, names[name], type_)
        for name, type_ in zip(columns, types, strict=True)
    ]
