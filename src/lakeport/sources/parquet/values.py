"""What Parquet files hold that Arrow's reader takes on trust: texts, ENUMs, INT96 timestamps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.schema.nested import leaves

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


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


def as_text(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of `stored_schema`; the bytes stay as they are."""
    if batch.schema.types == schema.types:
        return batch
    arrays = [
        pc.cast(array, options=pc.CastOptions(field.type, allow_invalid_utf8=True))
        if array.type != field.type
        else array
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_values(batch: pa.RecordBatch) -> None:
    """Check that texts are UTF-8 and decimals have no more digits than their type.

    No reader of the table could do without, and Arrow takes both from the file as they are.

    Raises:
        SourceError: one is not; the message names the column.
    """
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        for path, leaf in leaves(array, name):
            is_text = leaf.type in _TEXTS
            if not is_text and not pa.types.is_decimal(leaf.type):
                continue
            try:
                leaf.validate(full=True)
            except pa.ArrowInvalid:
                raise _refused(path, is_text) from None


def _refused(path: str, is_text: bool) -> SourceError:
    if is_text:
        return SourceError(
            f"column {path!r} holds text that is not UTF-8",
            "write it as UTF-8, or as a column of bytes.",
        )
    return SourceError(
        f"column {path!r} holds decimals of more digits than its type has",
        "write it with a wider type.",
    )


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
            *(leaves(array, name) for array in arrays), strict=True
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
