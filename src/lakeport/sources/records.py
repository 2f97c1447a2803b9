"""Convert records, mappings in a list or from a generator, to Arrow batches of one schema.

The first pass writes the records to disk, part by part, and infers the schema: columns in the order
in which they first appear, of types that hold each of their values exactly. The second pass reads
the parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from itertools import islice
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.schema.casting import widen_integers
from lakeport.schema.nested import JSON_METADATA
from lakeport.schema.types import check_column_count
from lakeport.sources.spool import create_private_file

_LISTS = (list, tuple, set, frozenset)
_FAMILIES = (
    Real,
    (Integral, Decimal),
    str,
    (bytes, bytearray, memoryview),
    datetime,
    time,
    Mapping,
    _LISTS,
)
"""Python types whose values one Arrow type holds unchanged; booleans only with booleans."""
_ZONES = "times with and without a zone"
_ALIKE = {"bool_": bool, "bool": bool, "ndarray": list}
"""Names of NumPy's types -> the Python types that Arrow treats in the same way."""
_MAX_DEPTH = 40
_EXACT = 1 << 53
"""A double holds every whole number up to this one."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Limits and column kinds for converting Python records; with `pandas`, NaN is null.

    Attributes:
        max_columns: the maximum number of columns, and of members of an object.
        json_columns: columns that are kept as JSON text, whatever they hold.
        numeric_columns: columns with a declared numeric type; numbers without a common type are
            kept as text there, to be cast later.
    """

    stream: str = "records"
    max_columns: int = 5000
    json_columns: frozenset[str] = frozenset()
    numeric_columns: frozenset[str] = frozenset()
    pandas: bool = False


def record_batches(
    records: Iterable[Any], folder: Path, batch_rows: int, options: RecordOptions
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Spill records to files, `batch_rows` in memory at a time; return their schema and batches.

    Raises:
        SourceError: there is no record, one is no mapping, or no type holds all values of a
            column.
    """
    schema = pa.schema([])
    paths: list[Path] = []
    waiting = iter(records)
    while part := list(islice(waiting, batch_rows)):
        batch = _build_batch(part, len(paths) * batch_rows, options)
        schema = _join_schemas(schema, batch.schema, options.numeric_columns)
        check_column_count(options.stream, schema, options.max_columns, complete=False)
        path = folder / f"records-{len(paths):06d}.arrows"
        with create_private_file(path) as file, pa.ipc.new_stream(file, batch.schema) as writer:
            writer.write_batch(batch)
        paths.append(path)
    if not paths:
        raise SourceError("there are no records", "give at least one, whose keys name the columns.")
    if not schema.names:
        raise SourceError("the records have no keys", "a key is the name of a column.")

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
                for batch in stream:
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                    yield pa.RecordBatch.from_arrays(
                        [
                            _cast_column(columns[field.name], field)
                            if field.name in columns
                            else pa.nulls(len(batch), field.type)
                            for field in schema
                        ],
                        schema=schema,
                    )
            path.unlink()

    return schema, batches()


def _build_batch(
    records: Sequence[Any], records_before: int, options: RecordOptions
) -> pa.RecordBatch:
    """Convert records to a batch; errors number them from `records_before` + 1 on.

    Raises:
        SourceError: a record is no mapping, a key is no text, or no type holds a column's values.
    """
    names: dict[str, None] = {}
    for number, record in enumerate(records, records_before + 1):
        if not isinstance(record, Mapping):
            raise SourceError(
                f"record {number} is of type {type(record).__name__!r}, no mapping",
                "give mappings, such as {'id': 1}; or a frame, or file names.",
            )
        names.update(dict.fromkeys(record))
    for name in names:
        if not isinstance(name, str):
            raise SourceError(
                f"a record has a key of type {type(name).__name__!r}", "keys have to be texts."
            )
    found = pa.schema([(name, pa.null()) for name in names])
    check_column_count(options.stream, found, options.max_columns, complete=False)
    columns = []
    for name in names:
        values = [record.get(name) for record in records]
        if name in options.json_columns:
            columns.append(_json_column(name, values))
        else:
            columns.append(_build_column(name, values, options))
    if not columns:  # a batch has as many rows as its columns
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
    fields = []
    for name, column in zip(names, columns, strict=True):
        metadata = JSON_METADATA if name in options.json_columns else None
        fields.append(pa.field(name, column.type, metadata=metadata))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _json_column(name: str, values: list[Any]) -> pa.Array:
    """Return values as an array of JSON text; raise SourceError if JSON can't represent one."""
    try:
        texts = [
            None if v is None else json.dumps(v, ensure_ascii=False, allow_nan=False)
            for v in values
        ]
        return pa.array(texts, pa.string())
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise SourceError(
            f"{name!r} is declared as json and has a value that JSON lacks: {type(error).__name__}",
            "give it mappings, lists, texts, numbers, booleans and None.",
        ) from None


def _build_column(name: str, values: list[Any], options: RecordOptions) -> pa.Array:
    """Return values as an Arrow array that holds each exactly; SourceError if no type does."""
    if name in options.numeric_columns and _needs_text(values):
        return pa.array(map(_format_number, values), pa.string())
    check_values(name, values, options)
    try:
        with translate_arrow_limits(repr(name)):
            return pa.array(values)
    except (TypeError, ValueError, NotImplementedError) as error:
        kinds = " and ".join(sorted({type(value).__name__ for value in values} - {"NoneType"}))
        raise SourceError(
            f"no type that tables have holds the values of {name!r} exactly, which are {kinds}",
            "convert them first, for example to text.",
        ) from error


def _needs_text(values: Sequence[Any]) -> bool:
    """Whether values are finite numbers of several types, or over 2^53: text keeps them exact."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    large = any(isinstance(value, int) and abs(value) > _EXACT for value in present)
    return (
        (len(kinds) > 1 or large) and kinds <= {int, float, Decimal} and all(map(isfinite, present))
    )


def _format_number(value: Any) -> str | None:
    """Format a number for parsing as any numeric type, whole ones without a point; None is None."""
    if value is None:
        return None
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def check_values(name: str, values: Iterable[Any], options: RecordOptions, depth: int = 0) -> None:
    """Raise SourceError if Arrow would change values to give them one type, also nested ones.

    Arrow makes 1 of true, a date of a date with time, and a UTC time of one without a zone.
    """
    if depth > _MAX_DEPTH:
        raise SourceError(
            f"column {re.split(r'[.[]', name)[0]!r} is nested deeper than {_MAX_DEPTH} levels",
            "make it JSON text in the source; a field of records can be declared as `json`.",
        )
    present = _drop_nulls(values, options.pandas)
    kinds: set[type] = {_ALIKE.get(kind.__name__, kind) for kind in map(type, present)}
    together = any(all(issubclass(kind, family) for kind in kinds) for family in _FAMILIES)
    if len(kinds) > 1 and (bool in kinds or not together):
        raise _mixed_types_error(name, " and ".join(sorted(kind.__name__ for kind in kinds)))
    first = present[0] if present else None
    if isinstance(first, datetime):
        if len({value.tzinfo is None for value in present if value == value}) > 1:
            raise _mixed_types_error(name, _ZONES)
        if any(getattr(value, "nanosecond", 0) > 0 for value in present):
            raise SourceError(
                f"column {name!r} holds times that microseconds can't hold",
                "round them in the source, for example with `floor('us')`.",
            )
    elif isinstance(first, time) and any(value.tzinfo for value in present):
        raise SourceError(
            f"column {name!r} holds times of day with a zone, which tables don't have",
            "convert them in the source, for example with `isoformat()`.",
        )
    elif isinstance(first, Mapping):
        members: dict[Any, list[Any]] = {}
        for value in present:
            for key, member in value.items():
                members.setdefault(key, []).append(member)
        found = pa.struct([(str(key), pa.null()) for key in members])
        column = pa.schema([(name.partition(".")[0], found)])
        check_column_count(options.stream, column, options.max_columns, complete=False)
        for key, group in members.items():
            check_values(f"{name}.{key}", group, options, depth + 1)
    elif any(issubclass(kind, _LISTS) for kind in kinds):
        items = [item for value in present for item in value]
        check_values(f"{name}[]", items, options, depth + 1)


def _drop_nulls(values: Iterable[Any], pandas: bool) -> list[Any]:
    """Return the values that are not None; with `pandas`, drop NaN, NaT and NA, too."""
    present = [value for value in values if value is not None]
    kinds = {*map(type, present)} if pandas else set()
    null = {kind for kind in kinds if kind.__name__ in ("NAType", "NaTType")}
    numbers = {kind for kind in kinds if issubclass(kind, (Real, Decimal))}
    if not null and not numbers:
        return present
    return [
        value
        for value in present
        if type(value) not in null and not (type(value) in numbers and value != value)
    ]


@contextmanager
def translate_arrow_limits(subject: str) -> Iterator[None]:
    """Context manager that turns Arrow's overflow and Unicode errors into SourceError.

    These are whole numbers of more than 64 bits, and text that is no Unicode. The message begins
    with `subject`.
    """
    try:
        yield
    except OverflowError:
        raise SourceError(
            f"{subject} has a whole number of more than 64 bits",
            "give such numbers as `decimal.Decimal`.",
        ) from None
    except UnicodeEncodeError:
        raise SourceError(
            f"{subject} has a text with half of a surrogate pair, which is no Unicode",
            "correct the text in the source.",
        ) from None


def _mixed_types_error(name: str, types: str) -> SourceError:
    """Build the SourceError for a column of several types, which `types` lists."""
    return SourceError(
        f"column {name!r} mixes values that no one type holds: {types}",
        "give all of them a zone, or none."
        if types == _ZONES
        else "convert them to one type first.",
    )


def _cast_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast a spilled column to the field's type; raise SourceError if a value would change."""
    try:
        same = column.type.equals(field.type)
        return column if same else widen_integers(column, field.type).cast(field.type)
    except pa.ArrowInvalid as error:
        raise SourceError(
            f"no one type holds the values of {field.name!r} exactly: some are {column.type}, and "
            f"others make it {field.type}",
            "convert them to one type first.",
        ) from error


def _join_schemas(one: pa.Schema, other: pa.Schema, numeric_columns: Collection[str]) -> pa.Schema:
    """Merge two schemas, with types that hold the values of both; SourceError if there are none.

    Whole numbers and fractions become fractions, times with zones become times in UTC.

    Args:
        numeric_columns: columns of a declared numeric type; one that is text in a schema is text.
    """
    known = {*one.names}
    other = pa.schema([field.with_type(_use_utc(field.type)) for field in other])
    for i, field in enumerate(other):
        if field.name in known:
            kinds = (one.field(field.name).type, field.type)
            if field.name in numeric_columns and any(map(pa.types.is_string, kinds)):
                one = one.set(one.get_field_index(field.name), field.with_type(pa.string()))
                other = other.set(i, field.with_type(pa.string()))
                continue
            _check_types(field.name, *kinds)
    try:
        return pa.unify_schemas([one, other], promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise SourceError(
            f"the records mix values that no one type holds: {error}",
            "convert them to one type first.",
        ) from error


def _use_utc(type_: pa.DataType) -> pa.DataType:
    """Replace time zones other than UTC in a type, also in nested types."""
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if pa.types.is_list(type_):
        return pa.list_(_use_utc(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_use_utc(field.type)) for field in type_])
    return type_


def _check_types(name: str, one: pa.DataType, other: pa.DataType) -> None:
    """Raise SourceError if Arrow would change values to unify two types of a column, also nested.

    It makes doubles of decimals, bytes of text, and UTC times of times without a zone.
    """
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        members = {field.name: field.type for field in one}
        for field in other:
            _check_types(f"{name}.{field.name}", members.get(field.name, pa.null()), field.type)
    elif pa.types.is_list(one) and pa.types.is_list(other):
        _check_types(f"{name}[]", one.value_type, other.value_type)
    for left, right in ((one, other), (other, one)):
        if pa.types.is_decimal(left) and pa.types.is_floating(right):
            raise _mixed_types_error(name, "Decimal and float")
        if pa.types.is_binary(left) and pa.types.is_string(right):
            raise _mixed_types_error(name, "bytes and str")
        if (
            pa.types.is_timestamp(left)
            and pa.types.is_timestamp(right)
            and left.tz
            and not right.tz
        ):
            raise _mixed_types_error(name, _ZONES)
