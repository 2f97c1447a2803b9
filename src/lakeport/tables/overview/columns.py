"""A Delta table's columns, with what its files' statistics tell of each.

```
schema ─▶ leaves: name, path in the data files, type
files  ─▶ {"numRecords", "minValues", "maxValues", "nullCount"} ─▶ one sum and two bounds a leaf
```
Every file has to tell: one that doesn't may hold any value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from lakeport.html.facts import ColumnFacts
from lakeport.tables.overview.leaves import Leaf
from lakeport.tables.overview.values import UNREADABLE, bounds, cut_reason, reader, spelled
from lakeport.writers.delta.log.history import KnownFile

_DELETED = "rows that are deleted still count in the log"
_EMPTY: Mapping[str, Any] = {}


def column_facts(
    files: Sequence[KnownFile],
    leaves: Sequence[Leaf],
    known: Sequence[frozenset[tuple[str, ...]]],
    partitions: Sequence[str],
    clusters: Sequence[str],
) -> list[ColumnFacts]:
    """Tell each column.

    Args:
        files: the table's.
        leaves: its columns.
        known: the leaves' paths of each schema that the files may be of.
        partitions: names of the partition columns.
        clusters: names of the columns by which the table is clustered.
    """
    told = _Told.of(files, decimals=any(str(leaf.type).startswith("decimal") for leaf in leaves))
    found = []
    for leaf in leaves:
        if leaf.name in partitions:
            facts = _partition_column(files, leaf)
        else:
            facts = _column(told, leaf, [leaf.path in paths for paths in known])
        role = "partition" if leaf.name in partitions else "cluster" * (leaf.name in clusters)
        found.append(ColumnFacts(leaf.name, leaf.told, role, **facts))
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """The statistics of each file."""

    files: Sequence[KnownFile]
    records: list[int | None]
    low: list[Mapping[str, Any]]
    high: list[Mapping[str, Any]]
    nulls: list[Mapping[str, Any]]
    deletes: bool

    @classmethod
    def of(cls, files: Sequence[KnownFile], *, decimals: bool) -> _Told:
        # A decimal keeps its digits only where it never was a float.
        hook = Decimal if decimals else None
        decode = msgspec.json.Decoder(float_hook=hook).decode
        each = [_statistics(known.file.stats, decode) for known in files]
        low, high, nulls = ([_tree(one.get(part)) for one in each] for part in _PARTS)
        deletes = any(known.file.deletion_vector is not None for known in files)
        return cls(files, [one.get("numRecords") for one in each], low, high, nulls, deletes)


_PARTS = ("minValues", "maxValues", "nullCount")


def _statistics(stats: Any, decode: Any) -> Mapping[str, Any]:
    if not isinstance(stats, str):
        return _tree(stats)
    try:
        found = decode(stats)
    except msgspec.DecodeError:
        return _EMPTY
    return _tree(found)


def _tree(told: Any) -> Mapping[str, Any]:
    return told if isinstance(told, dict) else _EMPTY


def _column(told: _Told, leaf: Leaf, known: Sequence[bool]) -> dict[str, Any]:
    counts = _each(told.nulls, leaf.path)
    if None in counts and not all(known):
        # A file from before the column has no value of it, and says nothing of it either.
        counts = [
            records if count is None and not known[one.schema] else count
            for count, records, one in zip(counts, told.records, told.files, strict=True)
        ]
    counts = [count if isinstance(count, int) else None for count in counts]
    # A file of nulls, or without rows, has no bounds.
    bounded = [
        place
        for place, (count, records) in enumerate(zip(counts, told.records, strict=True))
        if records != 0 and (count is None or count != records)
    ]
    low = _read([told.low[place] for place in bounded], leaf)
    high = _read([told.high[place] for place in bounded], leaf)
    found = _bounds(low, high, leaf, exact=False)
    if found and told.deletes:
        found["approximate"] = found["approximate"] or _DELETED
    return {"nulls": _nulls(told, counts), **found}


def _nulls(told: _Told, counts: Sequence[int | None]) -> int | None:
    if None in counts:
        return None
    total = sum(count for count in counts if count is not None)
    if not told.deletes:
        return total
    for known, count, records in zip(told.files, counts, told.records, strict=True):
        if count and known.file.deletion_vector is not None:
            # Which of the deleted rows were null, nothing tells, unless all were.
            if count != records or known.rows is None:
                return None
            total += known.rows - count
    return total


def _bounds(
    low: list[Any] | None, high: list[Any] | None, leaf: Leaf, *, exact: bool
) -> dict[str, Any]:
    if not low or not high:
        return {}
    found = bounds(low, high)
    reason = "" if exact else next(filter(None, map(cut_reason, found)), "")
    least, greatest = (spelled(value, leaf.type) for value in found)
    return {"minimum": least, "maximum": greatest, "approximate": reason}


def _partition_column(files: Sequence[KnownFile], leaf: Leaf) -> dict[str, Any]:
    """What the partitions tell of a column, exactly."""
    (name,) = leaf.path
    rows: dict[str, int | None] = {}
    for known in files:
        text = (known.file.partition_values or _EMPTY).get(name) or ""
        had = rows.get(text, 0)
        rows[text] = None if had is None or known.rows is None else had + known.rows
    nulls = rows.pop("", 0)
    values = _read([{name: text} for text, count in rows.items() if count != 0], leaf)
    return {"nulls": nulls, **_bounds(values, values, leaf, exact=True)}


def _read(trees: Sequence[Mapping[str, Any]], leaf: Leaf) -> list[Any] | None:
    """The values at a leaf; None where one is missing, or is no value of its type."""
    read = reader(leaf.type)
    values = _each(trees, leaf.path)
    if read is None or None in values:
        return None
    try:
        return [read(value) for value in values]
    except UNREADABLE:
        return None


def _each(trees: Sequence[Mapping[str, Any]], path: Sequence[str]) -> list[Any]:
    *above, last = path
    for name in above:
        trees = [_tree(tree.get(name)) for tree in trees]
    return [tree.get(last) for tree in trees]
