"""pandas DataFrames -> Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.schema.types import repeated

if TYPE_CHECKING:
    import pandas as pd


def pandas_batches(frame: pd.DataFrame, rows: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
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
    types = [_type(name, column) for name, column in zip(names, columns, strict=True)]
    schema = pa.schema(list(zip(names, types, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), rows):
            arrays = [
                _array(field.name, column[start : start + rows], field.type)
                for field, column in zip(schema, columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, batches()


def _type(name: str, column: Any) -> pa.DataType:
    """The type of a whole column; only columns of Python objects need all of their values."""
    if column.dtype == object:
        found = _array(name, column, None).type
        if _changed(column, found):
            raise _mixed(name)
        return found
    return _array(name, column[:0], None).type


def _changed(values: Iterable[Any], found: pa.DataType) -> bool:
    """Whether Arrow takes values for others at any depth.

    It would take true for 1, a date-time for its day, and a text for its bytes.
    """
    if pa.types.is_struct(found):
        records = [value for value in values if isinstance(value, Mapping)]
        return any(_changed([r.get(f.name) for r in records], f.type) for f in found)
    if pa.types.is_list(found):
        return _changed(chain.from_iterable(v for v in values if _has_items(v)), found.value_type)
    kinds = {kind for kind in set(map(type, values)) if kind.__name__ != "NaTType"}
    if pa.types.is_date(found):
        return any(issubclass(kind, datetime) for kind in kinds)
    if pa.types.is_binary(found):
        return any(issubclass(kind, str) for kind in kinds)
    number = pa.types.is_integer(found) or pa.types.is_floating(found)
    return number and any(kind.__name__ in ("bool", "bool_") for kind in kinds)


def _has_items(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


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
        array = pa.array(values, type=type_, from_pandas=True)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
    ) as error:
        if values.dtype != object and not len(values):
            raise _unlike(name, values) from error
        raise _mixed(name) from error
    except UnicodeEncodeError:
        raise SourceError(
            f"column {name!r} of the frame has a text with half of a surrogate pair, which is no "
            "Unicode",
            "correct the text in the source.",
        ) from None
    if getattr(array.type, "extension_name", "") == "pandas.period":  # numbers without a meaning
        raise SourceError(
            f"column {name!r} of the frame holds periods, which tables don't have",
            "convert it first, for example with `dt.to_timestamp()` or `astype(str)`.",
        )
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
