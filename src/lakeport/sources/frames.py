"""Read frames: pandas, Polars, Arrow, anything with `__arrow_c_stream__`, Spark, and records.

A frame is spooled batch by batch into Arrow IPC streams, which tasks map into memory. A Spark
DataFrame is not spooled: see `engine.sql.frames`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lakeport.engine.sql.frames import frame_digest, normalise_frame, void_marked
from lakeport.errors import SourceError
from lakeport.host.activity import add_progress
from lakeport.model import Batch, Flush, Scan, Split
from lakeport.schema.casting import normalise_schema, note_zoneless
from lakeport.schema.nested import find_untyped_columns, replace_untyped_columns
from lakeport.schema.types import check_column_names, find_duplicate
from lakeport.sources.records import (
    RecordOptions,
    check_values,
    record_batches,
    translate_arrow_limits,
)
from lakeport.sources.splits import DeclaredReader, align_batch, open_split
from lakeport.sources.spool import create_private_file

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 1 << 16
_SPLIT_BYTES = 64 << 20
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_OUTPUT_RATIO = 0.4

_CLASSES = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("polars", "LazyFrame"): "lazy",
    ("pyspark", "DataFrame"): "spark",
    ("pyarrow", "RecordBatch"): "batch",
    ("pyarrow", "RecordBatchReader"): "reader",
    ("pyarrow", "Dataset"): "dataset",
    ("pyarrow", "Scanner"): "reader_of",
}

_PANDAS_ONLY = {"period": "`dt.to_timestamp()`", "interval": "`.array.left`"}
"""Types of pandas that Arrow stores without their meaning -> how to convert them."""


def is_spark_frame(value: object) -> bool:
    """Whether a value is a Spark DataFrame; this imports no library."""
    return _get_frame_kind(value) == "spark"


def _get_frame_kind(value: object) -> str:
    """Return a frame's kind, such as `pandas`, `stream` or `records`; empty for other values."""
    for cls in type(value).__mro__:
        library = cls.__module__.partition(".")[0]
        kind = _CLASSES.get((library, cls.__name__))
        if kind:
            return kind
    if hasattr(value, "__arrow_c_stream__"):
        return "stream"
    return "records" if isinstance(value, (list, tuple, Iterator)) else ""


def frame_flushes(
    frame: Any,
    stream: str,
    folder: Path,
    *,
    digest: bool = False,
    max_columns: int = 5000,
    declared: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> Iterator[Flush]:
    """Check a value's kind; return an iterator that spools its rows and yields them as one flush.

    Args:
        frame: pandas DataFrame, Polars DataFrame or LazyFrame, `pyarrow` Table, RecordBatch,
            RecordBatchReader, Dataset or Scanner, Spark DataFrame (classic), an object with
            `__arrow_c_stream__`, or mappings in a list or from a generator.
        folder: the spool's folder; every task must see it, or its files are uploaded.
        digest: whether to compute `Batch.digest`; over the spooled rows it depends on their order.
        declared: columns whose type is declared. Records keep those of Arrow's type JSON as JSON
            text, whatever they hold.

    Raises:
        SourceError: the value is no frame; while iterating, a column's type or name can't be
            stored.
    """
    kind = _get_frame_kind(frame)
    if not kind:
        raise SourceError(
            f"a value of type {type(frame).__name__!r} is not a frame",
            "give a pandas, Polars, Spark or Arrow frame, a list of mappings, or file names.",
        )
    if kind == "spark" and frame.isStreaming:
        raise SourceError(
            "the frame is a stream, which has no end", "land it with `lakeport.land_stream`."
        )
    json = frozenset(name for name, type_ in declared.items() if isinstance(type_, pa.JsonType))
    numeric = frozenset(n for n, type_ in declared.items() if any(of(type_) for of in _NUMBERS))
    records = RecordOptions(stream, max_columns, json, numeric)

    def flushes() -> Iterator[Flush]:
        if kind == "spark":
            batch = _make_spark_batch(frame, stream, digest)
        else:
            opened = _open_frame(frame, kind, folder, records)
            batch = _spool_batch(*opened, stream, folder, digest)
        yield Flush((batch,), last=True)

    return flushes()


def _make_spark_batch(frame: Any, stream: str, digest: bool) -> Batch:
    """Return a Spark DataFrame as a batch, cast to types that tables support. Spools nothing."""
    plain, untyped, notes = normalise_frame(void_marked(frame), stream)
    added = frame_digest(plain) if digest else ""
    return Batch(stream, 0, frame=plain, digest=added, untyped=untyped, notes=notes)


def _spool_batch(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    stream: str,
    folder: Path,
    digest: bool,
) -> Batch:
    """Write a frame's rows to Arrow IPC files of about 64 MiB each; return their batch."""
    check_column_names(stream, schema.names)
    opened = normalise_schema(schema, keep_untyped=True)
    paths: list[Path] = []
    rows = 0
    plain, waiting = schema.remove_metadata(), _rebatch(schema, batches)
    batch = next(waiting, None)
    while batch is not None:
        paths.append(folder / f"frame-{len(paths):06d}.arrows")
        with create_private_file(paths[-1]) as file, pa.ipc.new_stream(file, plain) as writer:
            full = False
            while batch is not None and not full:
                writer.write_batch(batch.replace_schema_metadata(None))
                rows += batch.num_rows
                add_progress(batch.nbytes, rows=batch.num_rows)
                full = file.tell() >= _SPLIT_BYTES
                batch = next(waiting, None)
    return Batch(
        stream,
        0,
        reader=SpooledFrameReader(replace_untyped_columns(opened)),
        splits=tuple(Split(str(path), first_line=0) for path in paths),
        records=rows,
        bytes=sum(path.stat().st_size for path in paths),
        digest=_digest_files(paths) if digest else "",
        output_ratio=_OUTPUT_RATIO,
        notes=note_zoneless(schema),
        untyped=find_untyped_columns(opened),
    )


def _open_frame(
    frame: Any, kind: str, folder: Path, records: RecordOptions
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return schema and batches of a frame that is not Spark's; SourceError if it can't be read."""
    if kind == "records":
        return record_batches(frame, folder, _ROWS, records)
    if kind == "pandas":
        return pandas_batches(frame, _ROWS, records)
    if kind in ("polars", "lazy"):
        _refuse_objects(frame.collect_schema())
    if kind == "lazy":
        return _open_lazy(frame)
    if kind == "batch":
        return frame.schema, [frame]
    if kind == "dataset":
        reader = frame.scanner(batch_size=_ROWS).to_reader()
    elif kind == "reader_of":
        reader = frame.to_reader()
    elif kind == "reader":
        reader = frame
    else:
        reader = _open_arrow_stream(frame)
    return reader.schema, reader


def _open_arrow_stream(frame: Any) -> pa.RecordBatchReader:
    """Open an object with `__arrow_c_stream__`; raise SourceError if Arrow can't read a table."""
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(
            f"a value of type {type(frame).__name__!r} can't be read as an Arrow frame: {error}",
            "give a frame, not a single column, and convert columns whose type Arrow lacks.",
        ) from error


def _refuse_objects(schema: Mapping[str, Any]) -> None:
    """Raise SourceError if a Polars column holds Python objects, which Arrow can't represent."""
    for name, type_ in schema.items():
        if str(type_) == "Object":
            raise SourceError(
                f"column {name!r} of the frame holds Python objects",
                "convert the column in the source (for example to text), or leave it out.",
            )


def _open_lazy(frame: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return a Polars LazyFrame's schema, and an iterator that collects its rows part by part."""
    schema = frame.collect_schema().to_frame().to_arrow().schema

    def batches() -> Iterator[pa.RecordBatch]:
        for part in frame.collect_batches(chunk_size=_ROWS):
            yield from part.to_arrow().to_batches()

    return schema, batches()


def _rebatch(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of 65,536, so that a repeated run spools the same bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, _ROWS - rows)
            batch = batch.slice(part.num_rows)
            waiting.append(part)
            rows += part.num_rows
            if rows == _ROWS:
                yield _concat_batches(schema, waiting)
                waiting, rows = [], 0
    if waiting:
        yield _concat_batches(schema, waiting)


def _concat_batches(schema: pa.Schema, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches to one; unify their dictionaries where they differ."""
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts, schema).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


def _digest_files(paths: Iterable[Path]) -> str:
    """Return the SHA-256, in hex, over the SHA-256 digests of all files in order."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


@dataclass(frozen=True, slots=True)
class SpooledFrameReader(DeclaredReader):
    """Reader of rows spooled as Arrow IPC streams, with one whole file per split."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a spooled file, with the columns and types of `schema`."""
        for batch in _read_spool_file(split):
            yield align_batch(batch, self.schema)

    def scan(self, split: Split) -> Scan:
        """Count the rows of a spooled file; none of them is bad."""
        return Scan(sum(batch.num_rows for batch in _read_spool_file(split)))


def _read_spool_file(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a spooled file; raise SourceError if it can't be read."""
    try:
        local = split.storage is None
        with (
            pa.memory_map(split.uri) if local else open_split(split) as source,
            pa.ipc.open_stream(source) as stream,
        ):
            yield from cast("Iterable[pa.RecordBatch]", stream)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(
            f"spool file {Path(split.uri).name!r} can't be read: {error}",
            "every task must see the spool folder: on a cluster, set `spool_uri`.",
        ) from error


def pandas_batches(
    frame: pd.DataFrame, batch_rows: int, options: RecordOptions
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return a pandas frame's schema, inferred from all values, and batches of `batch_rows` rows.

    An index with a name becomes the first columns; one without a name is left out. NaN, NaT, NA
    and None are null.

    Raises:
        SourceError: a column mixes types, or two columns have the same name.
    """
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    names = [str(frame.index.names[level]) for level in named] + [str(c) for c in frame.columns]
    if (double := find_duplicate(names)) is not None:
        raise SourceError(
            f"the frame has two columns with the name {double!r}",
            "rename one of them; a named index becomes a column, too.",
        )
    columns = [frame.index.get_level_values(level) for level in named]
    columns += [frame.iloc[:, i] for i in range(frame.shape[1])]
    types = [
        _column_type(name, column, options) for name, column in zip(names, columns, strict=True)
    ]
    schema = pa.schema(list(zip(names, types, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), batch_rows):
            arrays = [
                _to_arrow(field.name, column[start : start + batch_rows], field.type)
                for field, column in zip(schema, columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, batches()


def _column_type(name: str, column: Any, options: RecordOptions) -> pa.DataType:
    """Return a pandas column's Arrow type; SourceError if an object column mixes types."""
    values = getattr(column.dtype, "categories", column)
    if values.dtype == object:
        check_values(name, values, replace(options, pandas=True))
    return _to_arrow(name, column if column.dtype == object else column[:0], None).type


def _to_arrow(name: str, values: Any, type_: pa.DataType | None) -> pa.Array:
    """Convert a pandas column to `type_` (None: inferred type); SourceError if no type fits."""
    try:
        with translate_arrow_limits(f"column {name!r} of the frame"):
            array = pa.array(values, type=type_, from_pandas=True)
    except (TypeError, ValueError, NotImplementedError) as error:
        if values.dtype != object and not len(values):
            raise SourceError(
                f"column {name!r} of the frame has type {values.dtype}, which tables don't have",
                "convert the column in the source (for example to text), or leave it out.",
            ) from error
        raise SourceError(
            f"column {name!r} of the frame mixes values that no one type holds",
            "convert it to one type first, for example with `astype`.",
        ) from error
    stored = getattr(array.type, "value_type", array.type)  # `pd.cut` makes categories of intervals
    kind = getattr(stored, "extension_name", "").removeprefix("pandas.")
    if kind in _PANDAS_ONLY:
        raise SourceError(
            f"column {name!r} of the frame holds {kind}s, which tables don't have",
            f"convert it first, for example with {_PANDAS_ONLY[kind]} or `astype(str)`.",
        )
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
