"""pandas DataFrames -> Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.schema.types import repeated
from lakeport.sources.frames.records import DEFAULT, RecordOptions, arrow_limits, check_values

if TYPE_CHECKING:
    import pandas as pd


def pandas_batches(
    frame: pd.DataFrame, rows: int, options: RecordOptions = DEFAULT
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """A frame's schema, from all of its values, and its rows in batches of `rows`.

    An index without a name is left out; one with a name becomes columns in front. NaN, NaT, NA
    and None are null.

    Raises:
        SourceError: a column mixes types, or two columns have the same name.
    """
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    names = [str(frame.index.names[level]) for level in named] + [str(c) for c in frame.columns]
    if (double := repeated(names)) is not None:
        raise SourceError(
            f"the frame has two columns with the name {double!r}",
            "rename one of them; a named index becomes a column, too.",
        )
    columns = [frame.index.get_level_values(level) for level in named]
    columns += [frame.iloc[:, i] for i in range(frame.shape[1])]
    types = [_type(name, column, options) for name, column in zip(names, columns, strict=True)]
    schema = pa.schema(list(zip(names, types, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), rows):
            arrays = [
                _array(field.name, column[start : start + rows], field.type)
                for field, column in zip(schema, columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, batches()


def _type(name: str, column: Any, options: RecordOptions) -> pa.DataType:
    """The type of a whole column; only columns of Python objects need all of their values."""
    values = getattr(column.dtype, "categories", column)
    if values.dtype == object:
        check_values(name, values, replace(options, pandas=True))
    return _array(name, column if column.dtype == object else column[:0], None).type


def _mixed(name: str) -> SourceError:
    return SourceError(
        f"column {name!r} of the frame mixes values that no one type holds",
        "convert it to one type first, for example with `astype`.",
    )


def _unlike(name: str, column: Any) -> SourceError:
    return SourceError(
        f"column {name!r} of the frame has type {column.dtype}, which tables don't have",
        "convert the column in the source (for example to text), or leave it out.",
    )


def _array(name: str, values: Any, type_: pa.DataType | None) -> pa.Array:
    try:
        with arrow_limits(f"column {name!r} of the frame"):
            array = pa.array(values, type=type_, from_pandas=True)
    except (TypeError, ValueError, NotImplementedError) as error:
        if values.dtype != object and not len(values):
            raise _unlike(name, values) from error
        raise _mixed(name) from error
    if getattr(array.type, "extension_name", "") == "pandas.period":  # numbers without a meaning
        raise SourceError(
            f"column {name!r} of the frame holds periods, which tables don't have",
            "convert it first, for example with `dt.to_timestamp()` or `astype(str)`.",
        )
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
