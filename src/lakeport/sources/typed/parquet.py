"""Read Parquet files, some row groups at a time, within limits of memory.

Parquet stores a text of a megabyte that a million rows repeat once, and a few bits for each row;
Arrow would write it out for all rows of a batch. So such columns are read as dictionaries, and the
rows are cut into pieces before texts are written out. That counts as unpacking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.schema.casting import normalise_schema
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

_MAX_REPEATED_BYTES = 1 << 30  # of a row group's column once written out; less does no harm
_MAX_BYTES_PER_VALUE = 4  # larger texts hardly repeat, and dictionaries are slow to read
_PIECE_BYTES = 64 << 20

_NAME = "Parquet"
_BATCH_ROWS = 1 << 16


def find_repeating_columns(metadata: Any, groups: Sequence[int]) -> list[str]:
    """Return the paths of text columns that may exceed 1 GiB per row group once decoded.

    Args:
        metadata: footer of a Parquet file whose row groups have been checked.
    """
    found = dict[str, None]()
    for column in _column_chunks(metadata, groups):
        if (
            column.physical_type == "BYTE_ARRAY"
            and column.num_values * column.total_uncompressed_size > _MAX_REPEATED_BYTES
            and column.num_values * _MAX_BYTES_PER_VALUE > column.total_compressed_size
        ):
            found[column.path_in_schema] = None
    return list(found)


def sum_compressed_bytes(metadata: Any, groups: Sequence[int]) -> int:
    """Return the compressed size of row groups in bytes; see `find_repeating_columns`."""
    return sum(column.total_compressed_size for column in _column_chunks(metadata, groups))


def _column_chunks(metadata: Any, groups: Sequence[int]) -> Iterator[Any]:
    """Yield the metadata of each column chunk of some row groups."""
    for group in map(metadata.row_group, groups):
        yield from map(group.column, range(group.num_columns))


def cut_by_text_bytes(batch: pa.RecordBatch, guard: ExpansionGuard) -> Iterator[pa.RecordBatch]:
    """Split a batch into pieces of at most 64 MiB of text, or one row; `guard` counts the bytes."""
    size = sum(map(_count_text_bytes, batch.columns))
    if size > _PIECE_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        for rows in (range(half), range(half, batch.num_rows)):
            # A slice of lists would keep the elements of all.
            yield from cut_by_text_bytes(batch.take(pa.array(rows)), guard)
    else:
        guard.add(size)
        yield batch


def _count_text_bytes(array: Any) -> int:
    """Return the decoded size of dictionary-encoded texts in bytes; 0 for other arrays."""
    t = array.type
    if pa.types.is_dictionary(t):
        if not (pa.types.is_string(t.value_type) or pa.types.is_binary(t.value_type)):
            return 0
        lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
        return int(pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0)
    if pa.types.is_struct(t):
        return sum(map(_count_text_bytes, array.flatten()))
    if pa.types.is_map(t):
        entries = pa.list_(pa.struct([("key", t.key_type), ("value", t.item_type)]))
        return _count_text_bytes(array.cast(entries))
    return _count_text_bytes(pc.list_flatten(array)) if t.num_fields else 0


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999


def read_stored_schema(parquet: Any) -> pa.Schema:
    """Return the Arrow schema of an open `ParquetFile`, with ENUMs as text, also nested ones.

    Arrow reads the logical type ENUM as bytes; the Parquet format says that it is UTF-8 text.
    """
    schema = parquet.schema_arrow
    leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    if not any(leaf.logical_type.type == "ENUM" for leaf in leaves):
        return schema
    rest = iter(leaves)
    return pa.schema([field.with_type(_replace_enums(field.type, rest)) for field in schema])


def _replace_enums(t: Any, leaves: Iterator[Any]) -> Any:
    """Return a type with text in place of ENUM; takes its leaf columns from `leaves`, in order."""
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_replace_enums(f.type, leaves)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_replace_enums(t.key_type, leaves), _replace_enums(t.item_type, leaves))
    if t.num_fields:
        return pa.list_(_replace_enums(t.value_type, leaves))
    return pa.string() if next(leaves).logical_type.type == "ENUM" else t


def cast_to_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to a schema's types: dictionaries and ENUMs to text, without a UTF-8 check."""
    if batch.schema.types == schema.types:
        return batch
    arrays = [
        pc.cast(array, options=pc.CastOptions(field.type, allow_invalid_utf8=True))
        if array.type != field.type
        else array
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def find_int96_columns(parquet: Any) -> list[str]:
    """Return the top-level columns of an open `ParquetFile` that hold INT96 at any depth."""
    leaves = (parquet.schema.column(i) for i in range(len(parquet.schema)))
    names = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    return [name for name in parquet.schema_arrow.names if name.partition(".")[0] in names]


def check_int96_values(
    micros_rows: pa.RecordBatch, nanos_rows: pa.RecordBatch, seconds_rows: pa.RecordBatch
) -> None:
    """Raise SourceError for INT96 finer than microseconds, or outside the years 1 to 9999.

    Arrow cuts INT96 to the unit that it is asked for, and wraps what the unit can't reach, at
    2**64. The remainder of nanoseconds to microseconds is right all the same, as both wrap alike;
    whole seconds never wrap.

    Args:
        micros_rows: rows as Arrow reads them with microseconds.
        nanos_rows: the same rows, with nanoseconds.
        seconds_rows: the same rows, with seconds.
    """
    columns = (rows.columns for rows in (micros_rows, nanos_rows, seconds_rows))
    for name, *arrays in zip(micros_rows.schema.names, *columns, strict=True):
        for (path, micros), (_, nanos), (_, seconds) in zip(
            *(iterate_leaves(array, name) for array in arrays), strict=True
        ):
            if micros.type == nanos.type:  # another type than INT96
                continue
            _check_int96_leaf(path, *(leaf.cast(pa.int64()) for leaf in (micros, nanos, seconds)))


def _check_int96_leaf(path: str, micros: Any, nanos: Any, seconds: Any) -> None:
    """Raise SourceError if a column's values, as integers in three units, are not storable."""
    found = pc.min_max(seconds).as_py()
    if found["min"] is None:
        return
    if found["min"] < _FIRST_SECOND or found["max"] > _LAST_SECOND:
        raise SourceError(
            f"column {path!r} holds a date outside the years 1 to 9999",
            "correct the values in the source, or make the column text.",
        )
    if pc.any(pc.not_equal(pc.subtract(nanos, pc.multiply(micros, 1000)), 0)).as_py():
        raise SourceError(
            f"column {path!r} holds timestamps that are finer than microseconds",
            "round them to microseconds where the file is written, or make the column text.",
        )


def read_footer(file: SourceFile, limits: UnpackLimits) -> Footer:
    """Read a Parquet file's schema, row count and the uncompressed bytes of each row group.

    Raises:
        SourceError: it is no whole Parquet file, or its pages unpack to more than the limits allow.
    """
    with _open_parquet(file.split(0, -1, 0)) as parquet:
        meta = parquet.metadata
        sizes = tuple(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        ExpansionGuard(file.uri, limits, packed=file.bytes).add(sum(sizes))
        instants = find_int96_columns(parquet)  # which Arrow reads as times without a zone
        fields = [
            normalise_schema(pa.schema([f])).field(0) if f.name in instants else f
            for f in read_stored_schema(parquet)
        ]
        return Footer(file, pa.schema(fields), sizes, meta.num_rows)


def read_batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the row groups `split.start` up to `split.end` of a file.

    Raises:
        SourceError: the file is damaged, unpacks to too much, or holds dates or timestamps that
            can't be read as they are.
    """
    with _open_parquet(split, checked_groups=range(split.start, split.end)) as parquet:
        calendar = HybridCalendar.of_parquet(parquet.metadata)
        if columns := find_int96_columns(parquet):
            _check_int96_columns(split, columns, calendar)
        stored, plain = read_stored_schema(parquet), parquet.schema_arrow
        for batch in _read_pieces(parquet, split, limits):
            with name_file_in_errors(split.uri):
                rows = cast_to_stored(cast_to_stored(batch, plain), stored)
                rows = calendar.rebase(rows) if calendar else rows
            yield rows


def count_rows(split: Split) -> int:
    """Return the number of rows in a split's row groups, from the footer alone."""
    with _open_parquet(split) as parquet:
        groups = range(split.start, split.end)
        return sum(parquet.metadata.row_group(i).num_rows for i in groups)


@contextmanager
def _open_parquet(
    split: Split,
    int96_unit: str = "us",
    dictionary_columns: Sequence[str] = (),
    checked_groups: Sequence[int] = (),
) -> Iterator[Any]:
    """Context manager that opens a split's file as a `ParquetFile`; SourceError if unreadable.

    Args:
        int96_unit: the unit that INT96 timestamps are read with.
        checked_groups: row groups whose columns' metadata are checked, so that they may be read.
    """
    import pyarrow.parquet as pq

    plain = split.storage is None and not is_digesting()
    with explain_read_errors(split.uri, _NAME):
        source = split.uri if plain else open_split(split, in_order=False)
        with pq.ParquetFile(
            source,
            pre_buffer=False,
            coerce_int96_timestamp_unit=int96_unit,
            read_dictionary=list(dictionary_columns),
            page_checksum_verification=True,
        ) as file:
            if checked_groups:
                _check_column_metadata(
                    pq.ParquetFile(source, metadata=file.metadata, buffer_size=1), checked_groups
                )
            yield file


def _check_column_metadata(parquet: Any, groups: Sequence[int]) -> None:
    """Raise OSError for broken column metadata of row groups, which would crash pyarrow later.

    Args:
        parquet: a `ParquetFile` with a buffer, so that opening a row group reads no page.
    """
    columns = range(parquet.metadata.num_columns)
    with parquet:
        for group in groups:
            next(parquet.reader.iter_batches(0, [group], columns), None)


def _read_row_groups(parquet: Any, split: Split, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield a split's rows in batches; SourceError if the footer has another number of rows."""
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


def _check_int96_columns(split: Split, columns: list[str], calendar: HybridCalendar | None) -> None:
    """Read INT96 columns in three units; SourceError if microseconds can't hold the values."""
    with (
        _open_parquet(split) as us,
        _open_parquet(split, "ns") as ns,
        _open_parquet(split, "s") as s,
    ):
        parts = (_read_row_groups(parquet, split, columns) for parquet in (us, ns, s))
        for micros, nanos, seconds in zip(*parts, strict=True):
            with name_file_in_errors(split.uri):
                check_int96_values(micros, nanos, calendar.rebase(seconds) if calendar else seconds)


def _read_pieces(parquet: Any, split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Yield a split's rows in pieces of bounded size; repeated texts stay dictionary-encoded."""
    metadata, groups = parquet.metadata, range(split.start, split.end)
    guard = ExpansionGuard(split.uri, limits, sum_compressed_bytes(metadata, groups))
    repeating = find_repeating_columns(metadata, groups)
    again = (
        _open_parquet(split, dictionary_columns=repeating) if repeating else nullcontext(parquet)
    )
    with again as opened:
        for batch in _read_row_groups(opened, split):
            yield from cut_by_text_bytes(batch, guard)
