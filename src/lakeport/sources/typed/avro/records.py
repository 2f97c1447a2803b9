"""Avro records -> record batches, some blocks at a time; `fastavro` decodes them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

import pyarrow as pa

from lakeport.host.extras import missing
from lakeport.model import Split
from lakeport.schema.calendars import HybridCalendar
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.unpacking import ExpansionGuard, UnpackLimits
from lakeport.sources.splits import open_split
from lakeport.sources.typed.avro.container import (
    Opening,
    container,
    find_blocks,
    open_container,
    unpack,
)
from lakeport.sources.typed.avro.schema import Column, columns_of, without_logical_types
from lakeport.sources.typed.header import Header, naming, reading

_NAME = "Avro"
_PART = 1 << 20
_PIECE = 4 << 20  # bytes of records that are decoded at a time
_BUFFER = 1 << 18


def look(file: SourceFile) -> Header:
    """A file's columns; its parts are ranges of bytes, in which blocks are found by the tasks.

    Raises:
        SourceError: it is no Avro file, or does not hold the rows of a table.
        MissingDependency: `fastavro` is not installed.
    """
    with reading(file.name, _NAME), file.open() as source:
        columns = _columns(open_container(source).schema, file.name)
    count = -(-file.bytes // _PART)
    return Header(_arrow(columns), (_PART,) * count)


def batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Read the parts `split.start` to `split.end` of a file.

    Raises:
        SourceError: the file is damaged, or unpacks to too much.
    """
    guard = ExpansionGuard(split.uri, limits)
    with reading(split.uri, _NAME), _buffered(split) as source:
        opening = open_container(source)
        columns = _columns(opening.schema, split.uri)
        schema = without_logical_types(opening.schema)
        calendar = HybridCalendar.of_avro(opening.metadata, _arrow(columns))
        for records, data in _pieces(source, opening, split, guard):
            batch = _batch(_decoded(schema, records, data), columns)
            if calendar is not None:
                with naming(split.uri):
                    batch = calendar.rebase(batch)
            yield batch


def _buffered(split: Split) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, open_split(split)), _BUFFER)


def _pieces(
    source: BinaryIO, opening: Opening, split: Split, guard: ExpansionGuard
) -> Iterator[tuple[int, bytes]]:
    """Some blocks' records at a time, and how many they are."""
    records, size = 0, 0
    parts: list[bytes] = []
    for block in find_blocks(source, opening, split.start * _PART, split.end * _PART):
        guard.packed += block.size
        parts.append(unpack(source, block, opening.codec, guard))
        records += block.records
        size += len(parts[-1])
        if size >= _PIECE:
            yield records, b"".join(parts)
            records, size, parts = 0, 0, []
    if records:
        yield records, b"".join(parts)


def _columns(schema: Any, name: str) -> dict[str, Column]:
    fastavro = _fastavro()
    try:
        parsed = fastavro.parse_schema(schema, named_schemas={})
    except Exception as error:
        raise ValueError(f"its schema is none: {error}") from None
    with naming(name):
        return columns_of(parsed)


def _arrow(columns: Mapping[str, Column]) -> pa.Schema:
    return pa.schema([(name, column.type) for name, column in columns.items()])


def _decoded(schema: Any, records: int, data: bytes) -> list[dict[str, Any]]:
    try:
        return list(_fastavro().reader(io.BytesIO(container(schema, records, data))))
    except Exception as error:  # what it meets in damaged data it does not foresee
        raise ValueError(f"its records are damaged: {error or type(error).__name__}") from None


def _batch(records: list[dict[str, Any]], columns: Mapping[str, Column]) -> pa.RecordBatch:
    arrays = []
    for name, column in columns.items():
        values = [record[name] for record in records]
        if column.change is not None:
            values = [None if value is None else column.change(value) for value in values]
        array = pa.array(values, column.plain)
        arrays.append(array if column.plain == column.type else array.cast(column.type))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        problem = "the source is Avro, and the package `fastavro` is not installed"
        raise missing(problem, "avro") from None
    return fastavro
