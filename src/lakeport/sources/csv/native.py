"""Blocks of CSV by the native kernel: exactly what pyarrow's way gives, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.native import kernel
from lakeport.native.arrays import array_of
from lakeport.sources.csv.dialect import Dialect
from lakeport.sources.csv.records import Block

if TYPE_CHECKING:
    from lakeport.native._kernel import CsvParser, Spec

_KINDS = {
    pa.string(): "string",
    pa.int64(): "integer",
    pa.float64(): "number",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}


class NativeRows:
    """Blocks of one layout -> record batches.

    Args:
        layout: the columns of the file; empty names are those of columns to leave out.
        schema: the columns to read; those that the file lacks are null.
        dialect: how the file is written.
        required: columns that a record must have a value in.
        foreign: columns whose texts are not plain, which the kernel does not read.
    """

    def __init__(
        self,
        layout: Sequence[str],
        schema: pa.Schema,
        dialect: Dialect,
        required: Collection[str],
        foreign: Collection[str] = (),
    ) -> None:
        self._schema = schema
        known = {*schema.names}
        self._names = [name for name in layout if name in known]
        specs = {name: _spec(schema.field(name)) for name in self._names}
        readable = all(specs.values()) and not set(required) - specs.keys()
        readable = readable and not specs.keys() & set(foreign)
        fields = [(spec, n in required) if (spec := specs.get(n)) else None for n in layout]
        self._parser = _parser(dialect, fields) if readable else None

    def batch(self, block: Block) -> pa.RecordBatch | None:
        """All records of a block; None if any of them has to be looked at."""
        if self._parser is None or block.torn or block.stray:
            return None
        found = self._parser.parse(block.data)
        if found is None:
            return None
        rows, columns = found
        arrays = {
            name: array_of(self._schema.field(name).type, parts)
            for name, parts in zip(self._names, columns, strict=True)
        }
        whole = [
            arrays[field.name] if field.name in arrays else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(whole, schema=self._schema)


class NativeKinds:
    """Tells what the texts of columns can be (see `lakeport.sources.csv.values.kinds_of`).

    Args:
        width: how many columns the file has.
        dialect: how the file is written.
    """

    def __init__(self, width: int, dialect: Dialect) -> None:
        self._parser = _parser(dialect, [None] * width)

    def __bool__(self) -> bool:
        """Whether such files can be read here at all."""
        return self._parser is not None

    def kinds(self, block: Block, kinds: Sequence[int]) -> list[int] | None:
        """For each column those of `kinds` that all its texts fit; None if one is not sure."""
        if self._parser is None or block.torn or block.stray:
            return None
        found = self._parser.kinds(block.data, kinds)
        return None if found is None else list(found)


def _parser(dialect: Dialect, fields: Sequence[tuple[Spec, bool] | None]) -> CsvParser | None:
    native = kernel()
    if native is None or not dialect.native:
        return None
    quote = ord(dialect.quote) if dialect.quote else None
    return native.csv_parser(ord(dialect.delimiter), quote, dialect.null_values, fields)


def _spec(column: pa.Field) -> Spec | None:
    if pa.types.is_decimal128(column.type):
        return column.name, "decimal", (column.type.precision, column.type.scale)
    kind = _KINDS.get(column.type)
    return None if kind is None else (column.name, kind, None)
