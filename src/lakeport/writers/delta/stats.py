"""Make Delta's file statistics from a Parquet footer. Pure functions.

Readers skip a file when its statistics exclude a match. So an uncertain bound is left out, and a
truncated one is moved outwards, never inwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

INDEXED_COLUMNS = 32
_PREFIX = 32
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ParquetLeaf:
    """A leaf column of a Parquet file: its ordinal, path and type.

    Attributes:
        index: the column's ordinal in the file.
        path: names from the top-level column down.
        type: the values' type.
        repeated: whether it is below a list or map, where Delta has no statistics.
    """

    index: int
    path: tuple[str, ...]
    type: pa.DataType
    repeated: bool


def list_leaves(schema: pa.Schema) -> list[ParquetLeaf]:
    """Return the leaf columns of a schema, in the Parquet file's order.

    >>> s = pa.schema([("a", pa.struct([("b", pa.int64())])), ("c", pa.list_(pa.string()))])
    >>> [(leaf.path, leaf.repeated) for leaf in list_leaves(s)]
    [(('a', 'b'), False), (('c', 'element'), True)]
    """
    parts = (item for column in schema for item in _walk((column.name,), column.type, False))
    return [ParquetLeaf(i, *part) for i, part in enumerate(parts)]


def find_nan_leaves(batch: pa.RecordBatch, leaves: Collection[ParquetLeaf]) -> set[int]:
    """Return the ordinals of leaf columns with a NaN; columns below lists are left out."""
    found = set()
    for leaf in leaves:
        if leaf.repeated or not pa.types.is_floating(leaf.type):
            continue
        values = batch.column(batch.schema.get_field_index(leaf.path[0]))
        for name in leaf.path[1:]:
            values = values.field(name)
        if pc.any(pc.is_nan(values)).as_py():
            found.add(leaf.index)
    return found


def make_stats(
    footer: pq.FileMetaData,
    schema: pa.Schema,
    *,
    nans: Collection[int] = (),
    indexed: int = INDEXED_COLUMNS,
) -> str:
    """Return a data file's Delta statistics as JSON text: row count, bounds, null counts.

    Args:
        footer: the file's Parquet metadata.
        schema: the file's columns.
        nans: ordinals of leaf columns with a NaN, which get no bounds.
        indexed: number of leaf columns that get statistics; -1 for all.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    usable = [leaf for leaf in list_leaves(schema) if not leaf.repeated]
    for leaf in usable if indexed < 0 else usable[:indexed]:
        chunks = [footer.row_group(g).column(leaf.index) for g in range(footer.num_row_groups)]
        found = [chunk.statistics for chunk in chunks]
        if all(stats is not None and stats.has_null_count for stats in found):
            _put(nulls, leaf.path, sum(int(stats.null_count) for stats in found))
        bounds = _read_bounds(chunks, leaf.type) if leaf.index not in nans else None
        if bounds is not None:
            for tree, value in zip((low, high), bounds, strict=True):
                if value is not _MISSING:
                    _put(tree, leaf.path, value)
    body = {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return _dump(body)


def _walk(
    path: tuple[str, ...], type_: pa.DataType, repeated: bool
) -> Iterator[tuple[tuple[str, ...], pa.DataType, bool]]:
    """Yield the path and type of each leaf in a type, and whether it is below a list or map."""
    if pa.types.is_struct(type_):
        for child in type_:
            yield from _walk((*path, child.name), child.type, repeated)
    elif pa.types.is_list(type_):
        yield from _walk((*path, "element"), type_.value_type, True)
    elif pa.types.is_map(type_):
        yield from _walk((*path, "key"), type_.key_type, True)
        yield from _walk((*path, "value"), type_.item_type, True)
    else:
        yield path, type_, repeated


def _read_bounds(
    chunks: list[pq.ColumnChunkMetaData], type_: pa.DataType
) -> tuple[Any, Any] | None:
    """Return a column's lowest and highest value for JSON; None if a row group lacks them."""
    if pa.types.is_boolean(type_) or pa.types.is_binary(type_):
        return None
    low: Any = None
    high: Any = None
    for chunk in chunks:
        stats = chunk.statistics
        if stats is not None and stats.has_null_count and stats.null_count == chunk.num_values:
            continue
        if stats is None or not stats.has_min_max:
            return None
        # Of dates and times as integers, as Python's end at the year 9999.
        is_raw = pa.types.is_temporal(type_)
        first, last = (stats.min_raw, stats.max_raw) if is_raw else (stats.min, stats.max)
        low = first if low is None else min(low, first)
        high = last if high is None else max(high, last)
    return None if low is None else _encode_bounds(low, high, type_)


def _encode_bounds(low: Any, high: Any, type_: pa.DataType) -> tuple[Any, Any] | None:
    """Return bounds for JSON, low rounded down and high up; None for infinity or year 10000."""
    if pa.types.is_string(type_):
        return low[:_PREFIX], _truncate_upwards(high)
    if pa.types.is_floating(type_):
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    if not pa.types.is_temporal(type_):
        return low, high
    try:
        if pa.types.is_date(type_):
            return _format_day(low), _format_day(high)
        zone = "Z" if type_.tz else ""
        return _format_time(low // 1000) + zone, _format_time(-(-high // 1000)) + zone
    except OverflowError:
        return None


def _format_day(days: int) -> str:
    """Return a date, in days since 1970, as ISO text."""
    return (_EPOCH_DAY + timedelta(days=days)).isoformat()


def _format_time(milliseconds: int) -> str:
    """Return a time, in milliseconds since 1970, as ISO text."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def _truncate_upwards(text: str) -> Any:
    """Cut text above 32 characters so that it sorts higher; _MISSING if there is no such text."""
    if len(text) <= _PREFIX:
        return text
    for end in range(_PREFIX, 0, -1):
        code = ord(text[end - 1]) + 1
        if code <= 0x10FFFF:
            return text[: end - 1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)
    return _MISSING


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value in nested dicts at a path, and create missing dicts."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _dump(value: Any) -> str:
    """Return JSON text, with decimals as plain numbers with all their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)
