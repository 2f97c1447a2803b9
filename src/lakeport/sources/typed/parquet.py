"""Parquet files as a source.

A text of a megabyte that a million rows repeat is stored once, and each row is a few bits; Arrow
would write it out for all rows of a batch. So such columns are read as dictionaries, and cut into
pieces of rows before they are written out, which counts as unpacking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.schema.nested import iterate_leaves
from lakeport.schema.rebase import HybridCalendar
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import ExpansionGuard, UnpackLimits
from lakeport.sources.splits import (
    Footer,
    explain_read_errors,
    is_digesting,
    name_file_in_errors,
    open_split,
)

_LARGE = 1 << 30  # bytes that a row group's column can't reach are no matter
_PACKED = 4  # bytes for each value: what takes more hardly repeats, and Arrow is slow to look
_PIECE = 64 << 20

_NAME = "Parquet"
_BATCH_ROWS = 1 << 16


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


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999


def stored_schema(parquet: Any) -> pa.Schema:
    """The columns of an open `ParquetFile`, with ENUM as the text that it is, also within others.

    Arrow reads the logical type ENUM as bytes; the Parquet format says that it is UTF-8 text.
    """
    schema = parquet.schema_arrow
    leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    if not any(leaf.logical_type.type == "ENUM" for leaf in leaves):
        return schema
    rest = iter(leaves)
    return pa.schema([field.with_type(_with_text(field.type, rest)) for field in schema])


def _with_text(t: Any, leaves: Iterator[Any]) -> Any:
    """A type with its ENUMs as text; takes its leaf columns from `leaves`, in the file's order."""
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_with_text(f.type, leaves)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_with_text(t.key_type, leaves), _with_text(t.item_type, leaves))
    if t.num_fields:
        return pa.list_(_with_text(t.value_type, leaves))
    return pa.string() if next(leaves).logical_type.type == "ENUM" else t


def as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch, its dictionaries written out or its ENUMs as text; the bytes stay as they are."""
    if batch.schema.types == schema.types:
        return batch
    arrays = [
        pc.cast(array, options=pc.CastOptions(field.type, allow_invalid_utf8=True))
        if array.type != field.type
        else array
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def has_int96(parquet: Any) -> list[str]:
    """The columns of an open `ParquetFile` that hold INT96 timestamps, if only within others."""
    leaves = (parquet.schema.column(i) for i in range(len(parquet.schema)))
    names = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    return [name for name in parquet.schema_arrow.names if name.partition(".")[0] in names]


def check_int96(us: pa.RecordBatch, ns: pa.RecordBatch, s: pa.RecordBatch) -> None:
    """Check that microseconds hold all that INT96 timestamps say.

    Arrow cuts INT96 to the unit that it is asked for, and wraps what the unit can't reach, at
    2**64. The remainder of nanoseconds to microseconds is right all the same, as both wrap alike;
    whole seconds never wrap.

    Args:
        us: rows as Arrow reads them with microseconds.
        ns: the same rows, with nanoseconds.
        s: the same rows, with seconds.

    Raises:
        SourceError: a value is finer than microseconds, or of another year than 1 to 9999; the
            message names the column.
    """
    for name, *arrays in zip(us.schema.names, us.columns, ns.columns, s.columns, strict=True):
        for (path, micros), (_, nanos), (_, seconds) in zip(
            *(iterate_leaves(array, name) for array in arrays), strict=True
        ):
            if micros.type == nanos.type:  # another type than INT96
                continue
            _check_leaf(path, *(leaf.cast(pa.int64()) for leaf in (micros, nanos, seconds)))


def _check_leaf(path: str, us: Any, ns: Any, s: Any) -> None:
    found = pc.min_max(s).as_py()
    if found["min"] is None:
        return
    if found["min"] < _FIRST_SECOND or found["max"] > _LAST_SECOND:
        raise SourceError(
            f"column {path!r} holds a date outside the years 1 to 9999",
            "correct the values in the source, or make the column text.",
        )
    if pc.any(pc.not_equal(pc.subtract(ns, pc.multiply(us, 1000)), 0)).as_py():
        raise SourceError(
            f"column {path!r} holds timestamps that are finer than microseconds",
            "round them to microseconds where the file is written, or make the column text.",
        )


def look(file: SourceFile, limits: UnpackLimits) -> Footer:
    """Return what a file's footer says: its columns, and the bytes and rows of its row groups.

    Raises:
        SourceError: it is no whole Parquet file, or its pages unpack to more than the limits allow.
    """
    with _opened(file.split(0, -1, 0)) as parquet:
        meta = parquet.metadata
        sizes = tuple(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        ExpansionGuard(file.uri, limits, packed=file.bytes).add(sum(sizes))
        return Footer(file, stored_schema(parquet), sizes, meta.num_rows)


def batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Read the row groups `split.start` to `split.end` of a file.

    Raises:
        SourceError: the file is damaged, unpacks to too much, or holds dates or timestamps that
            can't be read as they are.
    """
    with _opened(split, checked=range(split.start, split.end)) as parquet:
        calendar = HybridCalendar.of_parquet(parquet.metadata)
        if columns := has_int96(parquet):
            _check_int96(split, columns, calendar)
        stored, plain = stored_schema(parquet), parquet.schema_arrow
        for batch in _pieces(parquet, split, limits):
            with name_file_in_errors(split.uri):
                rows = as_stored(as_stored(batch, plain), stored)
                rows = calendar.rebase(rows) if calendar else rows
            yield rows


def count_rows(split: Split) -> int:
    """Return the number of rows in a split's row groups, by the footer."""
    with _opened(split) as parquet:
        groups = range(split.start, split.end)
        return sum(parquet.metadata.row_group(i).num_rows for i in groups)


@contextmanager
def _opened(
    split: Split,
    int96: str = "us",
    dictionaries: Sequence[str] = (),
    checked: Sequence[int] = (),
) -> Iterator[Any]:
    """A split's `ParquetFile`.

    Args:
        split: the part of the file that a task reads.
        int96: the unit that INT96 timestamps are read with.
        dictionaries: paths of columns that are read as such.
        checked: the row groups whose columns' metadata may be asked for.
    """
    import pyarrow.parquet as pq

    plain = split.storage is None and not is_digesting()
    with explain_read_errors(split.uri, _NAME):
        source = split.uri if plain else open_split(split, in_order=False)
        with pq.ParquetFile(
            source,
            pre_buffer=False,
            coerce_int96_timestamp_unit=int96,
            read_dictionary=list(dictionaries),
            page_checksum_verification=True,
        ) as file:
            if checked:
                _check_columns(
                    pq.ParquetFile(source, metadata=file.metadata, buffer_size=1), checked
                )
            yield file


def _check_columns(parquet: Any, groups: Sequence[int]) -> None:
    """Have Arrow refuse what a broken footer tells of columns; pyarrow ends the process over it.

    Args:
        parquet: a `ParquetFile` with a buffer, so that to begin with a row group reads no page.
        groups: the row groups.

    Raises:
        OSError: a column's metadata contradict the schema.
    """
    columns = range(parquet.metadata.num_columns)
    with parquet:
        for group in groups:
            next(parquet.reader.iter_batches(0, [group], columns), None)


def _batches(parquet: Any, split: Split, columns: list[str] | None = None) -> Iterator[Any]:
    """A split's rows, as many as its row groups are said to have.

    Raises:
        SourceError: the pages hold fewer or more: the file is damaged.
    """
    groups = list(range(split.start, split.end))
    expected = sum(parquet.metadata.row_group(i).num_rows for i in groups)
    found = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns):
        found += batch.num_rows
        yield batch
    if found != expected:
        raise SourceError(
            f"file {split.uri!r} holds {found} rows where its footer tells {expected}",
            "the file is damaged: get it again.",
        )


def _check_int96(split: Split, columns: list[str], calendar: HybridCalendar | None) -> None:
    """Refuse INT96 timestamps that microseconds can't hold; see `check_int96`."""
    with _opened(split) as us, _opened(split, "ns") as ns, _opened(split, "s") as s:
        parts = (_batches(parquet, split, columns) for parquet in (us, ns, s))
        for micros, nanos, seconds in zip(*parts, strict=True):
            with name_file_in_errors(split.uri):
                check_int96(micros, nanos, calendar.rebase(seconds) if calendar else seconds)


def _pieces(parquet: Any, split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """The split's rows, with repeated texts as dictionaries, in pieces that fit the memory."""
    metadata, groups = parquet.metadata, range(split.start, split.end)
    guard = ExpansionGuard(split.uri, limits, packed_bytes(metadata, groups))
    repeating = repeating_columns(metadata, groups)
    again = _opened(split, dictionaries=repeating) if repeating else nullcontext(parquet)
    with again as opened:
        for batch in _batches(opened, split):
            yield from in_pieces(batch, guard)
