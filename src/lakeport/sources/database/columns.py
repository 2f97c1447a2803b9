"""A column of a database as it is asked for, and what becomes of its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.sources.splits import aligned


@dataclass(frozen=True, slots=True)
class Column:
    """A column to read.

    Attributes:
        name: its name, in the database and in the table.
        sql: the expression that gives its values.
        type: what they are in the table; those that come as text are numbers written out where
            this is a decimal, or a list of decimals. Arrow's type JSON stands for JSON text.
        check: an expression that is true of a row whose value can't be read; empty for none.
        reason: what such a value is, after `column 'a' holds`.
        hint: what to do about it.
        untyped: what it is known by where it has places without a value (see
            `lakeport.schema.nested`).
    """

    name: str
    sql: str
    type: pa.DataType
    check: str = ""
    reason: str = ""
    hint: str = ""
    untyped: pa.DataType | None = None

    def as_text(self) -> Column:
        """The same, without a type for its texts."""
        is_list = pa.types.is_list(self.type)
        return replace(self, type=pa.list_(pa.string()) if is_list else pa.string())


def quoted(name: str) -> str:
    """An identifier as SQL has it.

    >>> quoted('a "b"')
    '"a ""b""\"'
    """
    return '"' + name.replace('"', '""') + '"'


def typed(batch: pa.RecordBatch, columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    """What a database answered, as columns of their types.

    Args:
        batch: the columns, in order, and behind them the checks of those that have one.
        columns: what was asked for.
        schema: the columns to give; those that were not asked for are null.

    Raises:
        SourceError: a value can't be read, or does not fit; the message names the column.
    """
    checked = [column for column in columns if column.check]
    for column, refused in zip(checked, batch.columns[len(columns) :], strict=True):
        if pc.any(refused.cast(pa.bool_()), min_count=0).as_py():
            raise SourceError(f"column {column.name!r} holds {column.reason}", column.hint)
    arrays = [_typed(batch.column(i), column) for i, column in enumerate(columns)]
    named = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    return aligned(named, schema)


def _typed(array: Any, column: Column) -> Any:
    """An array of the column's type, where the driver gives numbers as text or has types apart."""
    if isinstance(array.type, pa.BaseExtensionType) and array.type != pa.uuid():
        array = array.storage
    wanted = column.type
    if pa.types.is_list(wanted) and pa.types.is_decimal(wanted.value_type):
        numbers = _decimals(array.flatten(), wanted.value_type, column.name)
        return pa.ListArray.from_arrays(_offsets(array), numbers, mask=array.is_null())
    if pa.types.is_boolean(wanted) and pa.types.is_integer(array.type):
        return pc.not_equal(array, 0)  # what is neither 0 nor 1 was refused
    if pa.types.is_decimal(wanted) and pa.types.is_string(array.type):
        return _decimals(array, wanted, column.name)
    return array


def _offsets(array: Any) -> Any:
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _decimals(texts: Any, wanted: pa.DataType, name: str) -> Any:
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        pass
    raise SourceError(  # outside the handler: Arrow's own words hold the value
        f"column {name!r} holds a number that decimal({wanted.precision},{wanted.scale}) can't "
        "hold: NaN, an infinity, or one with more digits",
        "read it by `query`, as `NULLIF(column, 'NaN')` or cast to double precision or text.",
    )
