"""Avro schemas: the Arrow types of their records, and how values become Arrow's.

https://avro.apache.org/docs/1.12.0/specification/#logical-types
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError

_PRIMITIVE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_MOST_DIGITS = 76

Change = Callable[[Any], Any]


class Column(NamedTuple):
    """How an Avro type is read.

    Attributes:
        plain: the Arrow type of the values as they are decoded.
        type: the Arrow type that they mean, which `plain` can be cast to.
        change: makes of a decoded value one of `plain`; None where it is one.
    """

    plain: pa.DataType
    type: pa.DataType
    change: Change | None = None


def columns_of(schema: Any) -> dict[str, Column]:
    """The columns of a file's records.

    Args:
        schema: parsed, with full names, as `fastavro.parse_schema` gives it.

    Raises:
        SourceError: it is no schema of records, or a column has no equivalent in a table.
    """
    if not isinstance(schema, Mapping) or schema.get("type") not in ("record", "error"):
        raise SourceError("it holds no records, which rows are made of", "rows are Avro records.")
    known: dict[str, Any] = {}
    _learn(schema, known)
    name = schema["name"]
    if not schema["fields"]:
        raise SourceError("its records have no fields", "rows are made of columns.")
    return {f["name"]: _column(f["type"], f["name"], known, {name}) for f in schema["fields"]}


def without_logical_types(schema: Any) -> Any:
    """A schema whose values are decoded as they are stored."""
    if isinstance(schema, Mapping):
        parts = schema.items()
        return {k: without_logical_types(v) for k, v in parts if k != "logicalType"}
    return [without_logical_types(part) for part in schema] if isinstance(schema, list) else schema


def _learn(schema: Any, known: dict[str, Any]) -> None:
    """Note the types that have names, which a schema may name before or behind."""
    if isinstance(schema, list):
        for part in schema:
            _learn(part, known)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            known[schema["name"]] = schema
        for field in schema.get("fields", ()):
            _learn(field["type"], known)
        for part in ("type", "items", "values"):
            _learn(schema.get(part), known)


def _column(schema: Any, path: str, known: Mapping[str, Any], within: set[str]) -> Column:
    if isinstance(schema, str) and schema in _PRIMITIVE:
        return Column(_PRIMITIVE[schema], _PRIMITIVE[schema])
    if isinstance(schema, str):
        if schema in within:
            raise SourceError(
                f"column {path!r} holds itself, which no table's column can",
                "leave it out where the file is written, or write it as JSON text.",
            )
        schema = known[schema]
    if isinstance(schema, list):
        return _union(schema, path, known, within)
    kind = schema["type"]
    if kind == "array":
        item = _column(schema["items"], f"{path}.element", known, within)
        change = None if item.change is None else _each(item.change)
        return Column(pa.list_(item.plain), pa.list_(item.type), change)
    if kind == "map":
        value = _column(schema["values"], f"{path}.value", known, within)
        plain, type_ = (pa.map_(pa.string(), t) for t in (value.plain, value.type))
        return Column(plain, type_, _pairs(value.change))
    if kind in ("record", "error"):
        return _record(schema, path, known, within | {schema["name"]})
    if kind == "enum":
        return Column(pa.string(), pa.string())
    return (
        _logical(kind, schema, path)
        if kind in (*_PRIMITIVE, "fixed")
        else _column(kind, path, known, within)
    )


def _record(schema: Any, path: str, known: Mapping[str, Any], within: set[str]) -> Column:
    columns = {
        f["name"]: _column(f["type"], f"{path}.{f['name']}", known, within)
        for f in schema["fields"]
    }
    changes = {name: c.change for name, c in columns.items() if c.change is not None}
    return Column(
        pa.struct([(name, c.plain) for name, c in columns.items()]),
        pa.struct([(name, c.type) for name, c in columns.items()]),
        _members(changes) if changes else None,
    )


def _union(parts: list[Any], path: str, known: Mapping[str, Any], within: set[str]) -> Column:
    """One type and null; or several that are one in a table: int and long, float and double."""
    columns = [_column(part, path, known, within) for part in parts if part != "null"]
    if not columns:
        return Column(pa.null(), pa.null())
    for wide in columns:
        if all(_within(column, wide) for column in columns):
            return wide
    kinds = ", ".join(str(column.type) for column in columns)
    raise SourceError(
        f"column {path!r} may hold values of several types ({kinds}), which tables don't have",
        "write it as one of them, or each into a column of its own.",
    )


def _within(column: Column, wide: Column) -> bool:
    if column.type == wide.type:
        return (column.change is None) == (wide.change is None)
    return (column.type, wide.type) in (
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.float64()),
    )


def _logical(kind: str, schema: Mapping[str, Any], path: str) -> Column:
    """A primitive type or bytes of a fixed size, with the logical type that it may have.

    One that is unknown, or does not fit, is ignored, as the specification has it.
    """
    logical = schema.get("logicalType", "")
    plain = pa.binary(schema["size"]) if kind == "fixed" else _PRIMITIVE[kind]
    if (kind, logical) in _LOGICAL:
        return Column(plain, _LOGICAL[kind, logical])
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision:
            wide = pa.decimal128 if precision <= 38 else pa.decimal256
            return Column(wide(precision, scale), wide(precision, scale), _decimal(scale))
        raise SourceError(
            f"column {path!r} holds decimals of {precision} digits, {scale} behind the point",
            "tables have decimals of at most 38 digits.",
        )
    if logical == "uuid" and kind == "fixed" and schema["size"] == 16:
        return Column(pa.string(), pa.string(), lambda value: str(uuid.UUID(bytes=value)))
    return Column(plain, plain)


def _decimal(scale: int) -> Change:
    def change(value: bytes) -> Decimal:
        digits = int.from_bytes(value, "big", signed=True)
        sign = int(digits < 0)
        return Decimal((sign, tuple(map(int, str(abs(digits)))), -scale))

    return change


def _each(change: Change) -> Change:
    return lambda items: [None if item is None else change(item) for item in items]


def _pairs(change: Change | None) -> Change:
    if change is None:
        return lambda entries: list(entries.items())
    return lambda entries: [(k, None if v is None else change(v)) for k, v in entries.items()]


def _members(changes: Mapping[str, Change]) -> Change:
    def change(record: dict[str, Any]) -> dict[str, Any]:
        for name, of in changes.items():
            if record[name] is not None:
                record[name] = of(record[name])
        return record

    return change
