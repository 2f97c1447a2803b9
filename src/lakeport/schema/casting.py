"""Arrow data of any kind -> the types that tables have, without losing anything.

Arrow's own casts are used where they check; where they don't (narrower floats, views, years that
no reader can show) the check is made here.
"""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.schema.nested import (
    JSON_TEXT,
    OBJECT,
    assembled,
    is_json,
    is_list,
    is_untyped,
    parts,
    with_text,
)

TIMESTAMP = pa.timestamp("us", "UTC")
"""The one timestamp type: microseconds since 1970, an instant in UTC."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, days since 1970
_DAY = 86_400_000_000
_RANGES = {
    pa.date32(): (_FIRST_DAY, _LAST_DAY),
    TIMESTAMP: (_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1),
}
_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.uuid(): pa.string(),
    pa.bool8(): pa.bool_(),
}
_KEPT = (
    pa.types.is_string,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_binary,
)


def normalise(schema: pa.Schema, *, open_places: bool = False) -> pa.Schema:
    """Tell how the columns of any Arrow schema are stored in a table.

    Unsigned integers become the next wider type (64 bit: decimal(20,0)), all timestamps
    microseconds in UTC, times and UUIDs text, dictionaries their values, views and large types
    the plain ones. Metadata is left out, but for what marks JSON, and every column may be null.

    Args:
        schema: any Arrow schema.
        open_places: keep the type null, and objects without members, as they are (see
            `lakeport.schema.nested`), in place of text.

    Raises:
        SourceError: a column has a type with no equivalent (duration, interval, union, decimals
            of more than 38 digits); the message names the column.

    Example:
        >>> normalise(pa.schema([("n", pa.uint16()), ("t", pa.timestamp("ns"))])).types
        [DataType(int32), TimestampType(timestamp[us, tz=UTC])]
    """
    found = pa.schema([_normal_part(f, f.name) for f in schema])
    return found if open_places else with_text(found)


def cast_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Cast a record batch to a normalised schema, by position, without losing anything.

    Timestamps without a zone are taken as UTC. Integers may become wider integers, decimals or
    floats, dates timestamps, and anything its normalised type.

    Raises:
        SourceError: a value does not fit (timestamps finer than microseconds, years outside 1 to
            9999, digits that would be lost), or a type can't become the other one; the message
            names the column, never the value.

    Example:
        >>> batch = pa.RecordBatch.from_pydict({"n": pa.array([1, None], pa.uint8())})
        >>> cast_batch(batch, normalise(batch.schema)).schema.types
        [DataType(int16)]
    """
    columns = [
        _cast(column, f.type, f.name) for column, f in zip(batch.columns, target, strict=True)
    ]
    if not columns:
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=target)


def check_range(array: pa.Array) -> bool:
    """Tell whether dates and timestamps lie within the years 1 to 9999; true for other types."""
    bounds = _RANGES.get(array.type)
    if bounds is None or array.null_count == len(array):
        return True
    raw = array.view(pa.int32() if array.type == pa.date32() else pa.int64())
    found = pc.min_max(raw)
    return bool(bounds[0] <= found["min"].as_py() and found["max"].as_py() <= bounds[1])


def _normal_part(part: Any, path: str) -> Any:
    return pa.field(
        part.name, _normal(part.type, path), metadata=JSON_TEXT if is_json(part) else None
    )


def _normal(t: Any, path: str) -> Any:
    if t in _WIDER:
        return _WIDER[t]
    if is_untyped(t) or any(kept(t) for kept in _KEPT):
        return t
    if pa.types.is_timestamp(t):
        return TIMESTAMP
    if pa.types.is_time(t):
        return pa.string()
    if pa.types.is_decimal(t) and t.precision <= 38 and t.scale >= 0:
        return pa.decimal128(t.precision, t.scale)
    if pa.types.is_fixed_size_binary(t):
        return pa.binary()
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return _normal(t.value_type, path)
    if pa.types.is_struct(t):
        return pa.struct([_normal_part(f, f"{path}.{f.name}") for f in t])
    if pa.types.is_map(t):
        # Arrow has no open key: those of maps without entries are text.
        key = pa.string() if is_untyped(t.key_type) else _normal(t.key_type, f"{path}.key")
        return pa.map_(key, _normal_part(t.item_field, f"{path}.value"))
    if is_list(t):
        return pa.list_(_normal_part(t.value_field, f"{path}.element").with_name("item"))
    if isinstance(t, pa.BaseExtensionType):
        return _normal(t.storage_type, path)
    raise SourceError(
        f"column {path!r} has type {t}, which tables don't have",
        "convert the column in the source (for example to text), or leave it out.",
    )


def _cast(array: Any, target: Any, path: str) -> Any:
    """One column (or a nested part of one) as `target`."""
    source = array.type
    if source == target and not _dated(target):
        return array
    if source == pa.uuid() and target == pa.string():
        texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in array.storage.to_pylist()]
        return pa.array(texts, pa.string())
    if source == pa.bool8() and target == pa.bool_():
        return pc.not_equal(array.storage, 0)
    if isinstance(source, pa.BaseExtensionType):
        return _cast(array.storage, target, path)
    if pa.types.is_dictionary(source):
        return _cast(array.dictionary, target, path).take(array.indices)
    if pa.types.is_run_end_encoded(source):
        return _cast(pc.run_end_decode(array), target, path)
    if source == OBJECT and pa.types.is_string(target):
        return pc.if_else(array.is_valid(), "{}", pa.scalar(None, target))
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(array, target, path)
    both_maps = pa.types.is_map(source) and pa.types.is_map(target)
    if both_maps or (is_list(source) and pa.types.is_list(target)):
        types = (target.key_type, target.item_type) if both_maps else (target.value_type,)
        found = zip(parts(array), types, strict=True)
        children = [_cast(part, t, f"{path}.{name}") for (name, part), t in found]
        return assembled(array, children, target)
    if source != target:
        array = _plain(array, target, path)
    if not check_range(array):
        raise SourceError(
            f"column {path!r} holds a date outside the years 1 to 9999",
            "correct the values in the source, or make the column text.",
        )
    return array


def _dated(t: Any) -> bool:
    """Whether dates or timestamps stand anywhere in a type."""
    return t in _RANGES or any(_dated(t.field(i).type) for i in range(t.num_fields))


def _struct(array: Any, target: Any, path: str) -> Any:
    """Members by name; those that the source lacks are null."""
    missing = [f.name for f in array.type if target.get_field_index(f.name) < 0]
    if missing:
        raise SourceError(
            f"column {path!r} holds the member {missing[0]!r}, which the table's column lacks",
            "land the data into another table, or leave the member out.",
        )
    members = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    children = [
        _cast(members[f.name], f.type, f"{path}.{f.name}")
        if f.name in members
        else pa.nulls(len(array), f.type)
        for f in target
    ]
    return assembled(array, children, target)


def _plain(array: Any, target: Any, path: str) -> Any:
    """A cast between flat types that never rounds, wraps or changes a text."""
    if not _may_become(array.type, target):
        raise SourceError(
            f"column {path!r} has type {array.type} and can't become {target}",
            "convert the column in the source, or land it under another name.",
        )
    try:
        cast = widened(array, target).cast(target)
    except pa.ArrowInvalid:
        cast = None
    if cast is None or (pa.types.is_floating(target) and not _same(array, cast)):
        raise SourceError(
            f"column {path!r} holds a value that {target} can't hold without losing digits",
            "correct the values in the source, or have it write them as text."
            if pa.types.is_timestamp(target)
            else "correct the values in the source, or have a type that holds them all declared by "
            "`--column`: `string`, or `json` for a whole object or list.",
        )
    return cast


def _may_become(source: Any, target: Any) -> bool:
    if _WIDER.get(source) == target or pa.types.is_null(source):
        return True
    if pa.types.is_string(target):
        return bool(pa.types.is_time(source))
    if pa.types.is_binary(target):
        return bool(pa.types.is_fixed_size_binary(source))
    if pa.types.is_timestamp(target):
        return bool(pa.types.is_timestamp(source) or pa.types.is_date(source))
    if pa.types.is_decimal(target) or pa.types.is_integer(target) or pa.types.is_floating(target):
        return bool(
            pa.types.is_integer(source)
            or (pa.types.is_floating(source) and not pa.types.is_decimal(target))
            or (pa.types.is_decimal(source) and pa.types.is_decimal(target))
        )
    return False


def widened(array: Any, target: Any) -> Any:
    """Return integers on their way to decimals, which Arrow judges by their type's widest value."""
    if not (pa.types.is_decimal(target) and pa.types.is_integer(array.type)):
        return array
    return array.cast(pa.decimal128(20, 0)).cast(pa.decimal256(76, target.scale))


def _same(before: Any, after: Any) -> bool:
    """Whether the values are the same numbers still; NaN stays NaN."""
    if pa.types.is_integer(before.type) or before.type.bit_width <= after.type.bit_width:
        return True
    back = after.cast(before.type, safe=False)
    equal = pc.or_(pc.equal(back, before), pc.and_(pc.is_nan(back), pc.is_nan(before)))
    return bool(pc.all(equal, min_count=0).as_py())
