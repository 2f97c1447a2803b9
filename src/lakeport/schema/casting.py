"""Cast Arrow columns to the types of tables, and to other types, without losing anything.

`normalise_schema` and `cast_batch` bring Arrow data of any kind to the types that tables have.
Arrow's own casts are used where they check; where they don't (narrower floats, views, years that
no reader can show) the check is made here.

`convert_exactly` gives a column another of these types, value by value exactly, or not at all.
Numbers become other numbers where they stay the same number: an integer becomes a double up to
2**53, a double a decimal if that reads as the same double again. Dates become their midnight in
UTC, a midnight its date, everything the text of it, and a text what it spells.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import InputError, SourceError
from lakeport.schema.hints import quote_names
from lakeport.schema.literals import parse_days, parse_double, parse_microseconds
from lakeport.schema.nested import (
    EMPTY_STRUCT,
    JSON_METADATA,
    is_json,
    is_list,
    is_untyped,
    list_children,
    list_parts,
    rebuild_nested,
    replace_untyped_columns,
)
from lakeport.schema.types import TIMESTAMP, format_type, is_number

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
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_LONG = range(-(2**63), 2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEPT = (
    pa.types.is_string,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_binary,
)


def normalise_schema(schema: pa.Schema, *, keep_untyped: bool = False) -> pa.Schema:
    """Convert a schema to types that tables store without loss; SourceError if a type has none.

    Unsigned integers become the next wider type (64 bit: decimal(20,0)), all timestamps
    microseconds in UTC, times and UUIDs text, dictionaries their values, views and large types
    the plain ones. Metadata is left out, but for what marks JSON, and every column may be null.

    With `keep_untyped`, null types and structs without members stay, in place of text.

    Raises:
        SourceError: a column has a type with no equivalent (duration, interval, union, decimals
            of more than 38 digits); the message names the column.

    >>> normalise_schema(pa.schema([("n", pa.uint16()), ("t", pa.timestamp("ns"))])).types
    [DataType(int32), TimestampType(timestamp[us, tz=UTC])]
    """
    found = pa.schema([_normalise_field(f, f.name) for f in schema])
    return found if keep_untyped else replace_untyped_columns(found)


def note_zoneless(schema: pa.Schema) -> tuple[str, ...]:
    """Return the note that timestamps without a zone are taken as UTC; empty if there are none.

    >>> note_zoneless(pa.schema([("at", pa.timestamp("ns")), ("seen", pa.timestamp("us", "UTC"))]))
    ("timestamps without a zone are taken as UTC: 'at'",)
    """
    paths = [path for f in schema for path in _list_zoneless(f.type, f.name)]
    return (f"timestamps without a zone are taken as UTC: {quote_names(paths)}",) if paths else ()


def has_zoneless(type_: pa.DataType) -> bool:
    """Whether a type is, or has at any depth, a timestamp without a zone."""
    return any(_list_zoneless(type_, "column"))


def _list_zoneless(t: Any, path: str) -> Iterator[str]:
    """Yield the dotted path of each timestamp without a zone in a column of type `t`."""
    if pa.types.is_timestamp(t) and t.tz is None:
        yield path
    elif pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        yield from _list_zoneless(t.value_type, path)
    for name, part in list_parts(t):
        yield from _list_zoneless(part.type, f"{path}.{name}")


def cast_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Cast a record batch to table types, by position; SourceError if a value would change.

    Timestamps without a zone are taken as UTC. Integers may become wider integers, decimals or
    floats, dates timestamps, and anything its normalised type.

    Raises:
        SourceError: a value does not fit (timestamps finer than microseconds, years outside 1 to
            9999, digits that would be lost), or a type can't become the other one; the message
            names the column, never the value.

    >>> batch = pa.RecordBatch.from_pydict({"n": pa.array([1, None], pa.uint8())})
    >>> cast_batch(batch, normalise_schema(batch.schema)).schema.types
    [DataType(int16)]
    """
    columns = [
        _cast_array(column, f.type, f.name) for column, f in zip(batch.columns, target, strict=True)
    ]
    if not columns:
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=target)


def has_storable_years(array: pa.Array) -> bool:
    """Whether all dates and timestamps lie within the years 1 to 9999; True for other types."""
    bounds = _RANGES.get(array.type)
    if bounds is None or array.null_count == len(array):
        return True
    raw = array.view(pa.int32() if array.type == pa.date32() else pa.int64())
    found = pc.min_max(raw)
    return bool(bounds[0] <= found["min"].as_py() and found["max"].as_py() <= bounds[1])


def _normalise_field(part: Any, path: str) -> Any:
    """Return a field with the table type for its own; keep only metadata that marks JSON."""
    return pa.field(
        part.name,
        _normalise_type(part.type, path),
        metadata=JSON_METADATA if is_json(part) else None,
    )


def _normalise_type(t: Any, path: str) -> Any:
    """Return the table type for an Arrow type; SourceError for column `path` if there is none."""
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
        return _normalise_type(t.value_type, path)
    if pa.types.is_struct(t):
        return pa.struct([_normalise_field(f, f"{path}.{f.name}") for f in t])
    if pa.types.is_map(t):
        # Arrow has no null keys: keys of maps without entries are text.
        key = pa.string() if is_untyped(t.key_type) else _normalise_type(t.key_type, f"{path}.key")
        return pa.map_(key, _normalise_field(t.item_field, f"{path}.value"))
    if is_list(t):
        return pa.list_(_normalise_field(t.value_field, f"{path}.element").with_name("item"))
    if isinstance(t, pa.BaseExtensionType):
        return _normalise_type(t.storage_type, path)
    raise SourceError(
        f"column {path!r} has type {t}, which tables don't have",
        "convert the column in the source (for example to text), or leave it out.",
    )


def _cast_array(array: Any, target: Any, path: str) -> Any:
    """Cast a column, or a part of one at `path`; SourceError if a value would change."""
    source = array.type
    if source == target and not _has_dates(target):
        return array
    if source == pa.uuid() and target == pa.string():
        texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in array.storage.to_pylist()]
        return pa.array(texts, pa.string())
    if source == pa.bool8() and target == pa.bool_():
        return pc.not_equal(array.storage, 0)
    if isinstance(source, pa.BaseExtensionType):
        return _cast_array(array.storage, target, path)
    if pa.types.is_dictionary(source):
        return _cast_array(array.dictionary, target, path).take(array.indices)
    if pa.types.is_run_end_encoded(source):
        return _cast_array(pc.run_end_decode(array), target, path)
    if source == EMPTY_STRUCT and pa.types.is_string(target):
        return pc.if_else(array.is_valid(), "{}", pa.scalar(None, target))
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _cast_struct(array, target, path)
    both_maps = pa.types.is_map(source) and pa.types.is_map(target)
    if both_maps or (is_list(source) and pa.types.is_list(target)):
        found = zip(list_children(array), list_parts(target), strict=True)
        children = [_cast_array(old, new.type, f"{path}.{name}") for (name, old), (_, new) in found]
        return rebuild_nested(array, children, target)
    if source != target:
        array = _cast_flat(array, target, path)
    if not has_storable_years(array):
        raise SourceError(
            f"column {path!r} holds a date outside the years 1 to 9999",
            "correct the values in the source, or make the column text.",
        )
    return array


def _has_dates(t: Any) -> bool:
    """Whether a type has dates or timestamps at any depth."""
    return t in _RANGES or any(_has_dates(part.type) for _, part in list_parts(t))


def _cast_struct(array: Any, target: Any, path: str) -> Any:
    """Cast a struct's members by name: missing ones become null; SourceError for unknown ones."""
    missing = [f.name for f in array.type if target.get_field_index(f.name) < 0]
    if missing:
        raise SourceError(
            f"column {path!r} holds the member {missing[0]!r}, which the table's column lacks",
            "land the data into another table, or leave the member out.",
        )
    members = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    children = [
        _cast_array(members[f.name], f.type, f"{path}.{f.name}")
        if f.name in members
        else pa.nulls(len(array), f.type)
        for f in target
    ]
    return rebuild_nested(array, children, target)


def _cast_flat(array: Any, target: Any, path: str) -> Any:
    """Cast between flat types; SourceError if a value would be rounded or is out of range."""
    if not _may_cast(array.type, target):
        raise SourceError(
            f"column {path!r} has type {array.type} and can't become {target}",
            "convert the column in the source, or land it under another name.",
        )
    try:
        cast = widen_integers(array, target).cast(target)
    except pa.ArrowInvalid:
        cast = None
    if cast is None or (pa.types.is_floating(target) and not _has_same_numbers(array, cast)):
        raise SourceError(
            f"column {path!r} holds a value that {target} can't hold without losing digits",
            "correct the values in the source, or have it write them as text."
            if pa.types.is_timestamp(target)
            else "correct the values in the source, or have a type that holds them all declared by "
            "`--column`: `string`, or `json` for a whole object or list.",
        )
    return cast


def _may_cast(source: Any, target: Any) -> bool:
    """Whether tables allow a cast between two flat types; ignores the values."""
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


def widen_integers(array: Any, target: Any) -> Any:
    """Cast integers to decimals of 76 digits if `target` is a decimal; return others unchanged."""
    if not (pa.types.is_decimal(target) and pa.types.is_integer(array.type)):
        return array
    return array.cast(pa.decimal128(20, 0)).cast(pa.decimal256(76, target.scale))


def _has_same_numbers(before: Any, after: Any) -> bool:
    """Whether a cast left all numbers the same; NaN equals NaN."""
    if pa.types.is_integer(before.type) or before.type.bit_width <= after.type.bit_width:
        return True
    back = after.cast(before.type, safe=False)
    equal = pc.or_(pc.equal(back, before), pc.and_(pc.is_nan(back), pc.is_nan(before)))
    return bool(pc.all(equal, min_count=0).as_py())


class InexactError(Exception):
    """Raised for the first value of a column that the target type can't hold exactly."""

    def __init__(self, index: int, value: object) -> None:
        super().__init__(index, value)
        self.index = index
        self.value = value


def can_convert(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some values of `source` can become `target`; `convert_exactly` checks each.

    >>> can_convert(pa.int64(), pa.date32()), can_convert(pa.string(), pa.date32())
    (False, True)
    """
    if source == target or pa.types.is_null(source):
        return True
    if isinstance(source, pa.JsonType):
        source = pa.string()
    if pa.types.is_string(source):
        return pa.types.is_string(target) or _find_parser(target) is not None
    if pa.types.is_string(target):
        return is_number(source) or _is_date_or_timestamp(source) or pa.types.is_boolean(source)
    return can_narrow(source, target)


def can_narrow(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether both types are numbers, or both are dates or timestamps: a cast may be exact.

    >>> can_narrow(pa.float64(), pa.int64()), can_narrow(pa.int64(), pa.string())
    (True, False)
    """
    numbers = is_number(source) and is_number(target)
    return numbers or (_is_date_or_timestamp(source) and _is_date_or_timestamp(target))


def convert_exactly(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert a column to another type; raise InexactError if a value would change.

    TypeError for types that `can_convert` refuses, unless all values are null.

    >>> convert_exactly(pa.array([1, 2]), pa.decimal128(4, 1)).to_pylist()
    [Decimal('1.0'), Decimal('2.0')]
    """
    source = column.type
    if source == target:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), target)
    if not can_convert(source, target):
        raise TypeError(f"{source} is never {target}")
    if pa.types.is_string(source):
        return _parse_texts(column, target)
    cast = _try_cast(column, target)
    if cast is None:
        refused = _find_refused(column, target)
        convert_exactly(column[:refused], target)  # raises if an earlier value is rounded
        raise _inexact_error(column, refused)
    wrong = pc.fill_null(_find_changes(column, cast), False)
    if pc.any(wrong).as_py():
        raise _inexact_error(column, wrong.index(True).as_py())
    return cast


@contextmanager
def explain_failed_cast(name: str, source: pa.DataType, type_: pa.DataType) -> Iterator[None]:
    """Turn InexactError and TypeError of the body into an InputError naming the column."""
    try:
        yield
    except InexactError as error:
        raise InputError(
            f"column {name!r} is declared as {format_type(type_)}, which {error.value!r} is not",
            "declare a type that holds every value, or correct the source.",
        ) from None
    except TypeError:
        raise InputError(
            f"column {name!r} is {format_type(source)} in the source, and declared as "
            f"{format_type(type_)}",
            "declare a type that its values can have, such as `json`, or leave it undeclared.",
        ) from None


def _is_date_or_timestamp(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


def _inexact_error(column: pa.Array, index: int) -> InexactError:
    """Build the error for the value at an index; see `convert_exactly`."""
    return InexactError(index, column[index].as_py())


def _try_cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Cast by Arrow, which may round; None if a value is refused or a year is out of range."""
    try:
        cast = widen_integers(column, target).cast(target)
    except pa.ArrowInvalid:
        return None
    return cast if has_storable_years(cast) else None


def _find_changes(before: pa.Array, after: pa.Array) -> pa.Array:
    """Return a mask of the values that a cast changed; casts `after` back to compare."""
    try:
        back = widen_integers(after, before.type).cast(before.type, safe=False)
    except pa.ArrowInvalid:  # a rounded value is out of range of its old type
        if len(before) == 1:
            return pa.array([before.null_count == 0])
        half = len(before) // 2
        parts = (slice(None, half), slice(half, None))
        return pa.concat_arrays([_find_changes(before[part], after[part]) for part in parts])
    same = pc.equal(back, before)
    if pa.types.is_floating(before.type):
        if not (pa.types.is_floating(after.type) or pa.types.is_string(after.type)):
            # Integers and decimals have no negative zero.
            lost = pc.and_(pc.equal(before, 0.0), pc.less(pc.divide(1.0, before), 0.0))
            same = pc.and_(same, pc.invert(lost))
        same = pc.or_(same, pc.and_(pc.is_nan(back), pc.is_nan(before)))
    return pc.invert(same)


def _find_refused(column: pa.Array, target: pa.DataType) -> int:
    """Return the index of the first value that `_try_cast` refuses; one must exist."""
    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        if _try_cast(column[start:middle], target) is None:
            end = middle
        else:
            start = middle
    return start


def _parse_texts(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse a string column to a type; InexactError for the first text that does not fit."""
    parse = _find_parser(target)
    if parse is None:
        raise TypeError(f"no text is {target}")
    values: list[Any] = []
    for index, text in enumerate(column.to_pylist()):
        try:
            values.append(None if text is None else parse(text))
        except (ValueError, ArithmeticError):
            raise InexactError(index, text) from None
    return pa.array(values, target)


def _find_parser(target: pa.DataType) -> Callable[[str], Any] | None:
    """Return the function that parses texts to a type; None if texts never have this type."""
    if pa.types.is_decimal(target):
        return lambda text: _parse_decimal(text, target)
    return _PARSERS.get(target)


def _parse_decimal(text: str, target: pa.DataType) -> Decimal:
    """Parse a decimal; ValueError for other texts, and digits beyond precision or scale."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    value = Decimal(text)
    _, digits, exponent = value.normalize().as_tuple()
    power = exponent if isinstance(exponent, int) else 0
    if -power > target.scale or len(digits) + power > target.precision - target.scale:
        raise ValueError(text)
    return value


def _parse_integer(text: str) -> int:
    """Parse an integer; ValueError for other texts, and beyond 64 bits."""
    if not _WHOLE.fullmatch(text) or int(text) not in _LONG:
        raise ValueError(text)
    return int(text)


def _parse_number(text: str) -> float:
    """Parse a number to a double; ValueError for other texts, and where `parse_double` raises."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return parse_double(text)


def _parse_boolean(text: str) -> bool:
    """Parse `true` or `false` in any case; ValueError for other texts."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _parse_date(text: str) -> date:
    return (_EPOCH + timedelta(days=parse_days(text))).date()


def _parse_timestamp(text: str) -> datetime:
    return _EPOCH + timedelta(microseconds=parse_microseconds(text))


_PARSERS: dict[pa.DataType, Callable[[str], Any]] = {
    pa.int64(): _parse_integer,
    pa.float64(): _parse_number,
    pa.bool_(): _parse_boolean,
    pa.date32(): _parse_date,
    TIMESTAMP: _parse_timestamp,
}
