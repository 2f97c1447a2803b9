"""Texts that a Parquet dictionary repeats: a few packed bytes must not become gigabytes at once.

A text of a megabyte that a million rows repeat is stored once, and each row is a few bits; Arrow
would write it out for all rows of a batch. So such columns are read as dictionaries, and cut into
pieces of rows before they are written out, which counts as unpacking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.sources.input.unpacking import ExpansionGuard

_LARGE = 1 << 30  # bytes that a row group's column can't reach are no matter
_PACKED = 4  # bytes for each value: what takes more hardly repeats, and Arrow is slow to look
_PIECE = 64 << 20


def repeating_columns(metadata: Any, groups: Sequence[int]) -> list[str]:
    """Paths of the columns that may repeat long texts.

    Args:
        metadata: footer of a Parquet file whose row groups have been checked.
        groups: the row groups that are read.
    """
    found = dict[str, None]()
    for column in _chunks(metadata, groups):
        if (
            column.physical_type == "BYTE_ARRAY"
            and column.num_values * column.total_uncompressed_size > _LARGE
            and column.num_values * _PACKED > column.total_compressed_size
        ):
            found[column.path_in_schema] = None
    return list(found)


def packed_bytes(metadata: Any, groups: Sequence[int]) -> int:
    """Bytes that row groups take in the file; see `repeating_columns`."""
    return sum(column.total_compressed_size for column in _chunks(metadata, groups))


def _chunks(metadata: Any, groups: Sequence[int]) -> Iterator[Any]:
    for group in map(metadata.row_group, groups):
        yield from map(group.column, range(group.num_columns))


def in_pieces(batch: pa.RecordBatch, guard: ExpansionGuard) -> Iterator[pa.RecordBatch]:
    """A batch's rows in pieces whose repeated texts have 64 MiB at most, or are one row.

    Raises:
        SourceError: written out they are too many bytes.
    """
    size = sum(map(_text_bytes, batch.columns))
    if size > _PIECE and batch.num_rows > 1:
        half = batch.num_rows // 2
        for rows in (range(half), range(half, batch.num_rows)):
            # A slice of lists would keep the elements of all.
            yield from in_pieces(batch.take(pa.array(rows)), guard)
    else:
        guard.add(size)
        yield batch


def written_out(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of the file as Arrow reads it without dictionaries."""
    if batch.schema.types == schema.types:
        return batch
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text_bytes(array: Any) -> int:
    """Bytes that the texts of dictionaries have once they are written out."""
    t = array.type
    if pa.types.is_dictionary(t):
        if not (pa.types.is_string(t.value_type) or pa.types.is_binary(t.value_type)):
            return 0
        lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
        return int(pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0)
    if pa.types.is_struct(t):
        return sum(map(_text_bytes, array.flatten()))
    if pa.types.is_map(t):
        entries = pa.list_(pa.struct([("key", t.key_type), ("value", t.item_type)]))
        return _text_bytes(array.cast(entries))
    return _text_bytes(pc.list_flatten(array)) if t.num_fields else 0
