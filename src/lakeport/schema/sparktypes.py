"""Table schemas in the JSON form of Spark's `StructType`, which is also the one in Delta's log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakeport.errors import SchemaConflict
from lakeport.schema.nested import JSON_TEXT, is_json

_NAMES: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.binary(): "binary",
}
_TYPES: dict[str, pa.DataType] = {name: type_ for type_, name in _NAMES.items()}
MARK = "lakeport.json"
"""Key of a field's metadata in Delta's log: its texts are JSON, or those at a path below it."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""What Spark calls a partition's folder whose value is null; a text of the same reads as null."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_CHARS = re.compile(r"(?:var)?char\(\d+\)")


def quoted(name: str) -> str:
    """Return a name, of a column, view or path, as Spark SQL takes it whatever is in it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def spark_json(schema: pa.Schema) -> str:
    """Write a table schema as Spark's `StructType.json()` does.

    Args:
        schema: columns of table types (see `lakeport.schema.types.normalise`).

    Raises:
        SchemaConflict: a column has a type that tables don't have.

    Example:
        >>> spark_json(pa.schema([("id", pa.int64())]))
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    """
    return json.dumps(_struct(schema, ""), ensure_ascii=False, separators=(",", ":"))


def from_spark_json(text: str) -> pa.Schema:
    """Read a schema that Spark or Delta wrote.

    A `timestamp_ntz` column comes out as `timestamp('us')` without a zone, which only tables of
    other writers have. Metadata is left out, but for what marks JSON.

    Raises:
        SchemaConflict: a column has a type that can't be written, such as `variant`.

    Example:
        >>> from_spark_json(spark_json(pa.schema([("id", pa.int64())]))).names
        ['id']
    """
    return pa.schema(list(_arrow(json.loads(text), "")))


def json_mark(part: pa.Field) -> dict[str, Any]:
    """Return the metadata that mark a column, or a part of its lists and maps, as JSON.

    >>> items = pa.list_(pa.field("item", pa.string(), metadata=JSON_TEXT))
    >>> json_mark(pa.field("v", items)), json_mark(pa.field("v", pa.string()))
    ({'lakeport.json': 'element'}, {})
    """
    at: list[str] = []
    while pa.types.is_list(part.type) or pa.types.is_map(part.type):
        at.append("element" if pa.types.is_list(part.type) else "value")
        part = part.type.value_field if at[-1] == "element" else part.type.item_field
    return {MARK: ".".join(at) or True} if is_json(part) else {}


def _struct(fields: Any, path: str) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": f.name,
                "type": _spark(f.type, f"{path}.{f.name}" if path else f.name),
                "nullable": True,
                "metadata": json_mark(f),
            }
            for f in fields
        ],
    }


def _spark(t: Any, path: str) -> Any:
    name = _NAMES.get(t)
    if name is not None:
        return name
    if pa.types.is_decimal128(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_struct(t):
        return _struct([t.field(i) for i in range(t.num_fields)], path)
    if pa.types.is_list(t):
        element = _spark(t.value_type, f"{path}.element")
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(t):
        return {
            "type": "map",
            "keyType": _spark(t.key_type, f"{path}.key"),
            "valueType": _spark(t.item_type, f"{path}.value"),
            "valueContainsNull": True,
        }
    raise SchemaConflict(
        f"column {path!r} has type {t}, which tables don't have",
        "convert the column in the source, or leave it out.",
    )


def _arrow(spark: Any, path: str) -> Any:
    if isinstance(spark, str):
        return _plain(spark, path)
    if isinstance(spark, Mapping):
        match spark.get("type"):
            case "struct":
                return pa.struct([_field(f, path) for f in spark["fields"]])
            case "array":
                return pa.list_(_arrow(spark["elementType"], f"{path}.element"))
            case "map":
                key = _arrow(spark["keyType"], f"{path}.key")
                return pa.map_(key, _arrow(spark["valueType"], f"{path}.value"))
    raise _foreign(path, json.dumps(spark))


def _field(spark: Mapping[str, Any], path: str) -> Any:
    name = spark["name"]
    found = pa.field(name, _arrow(spark["type"], f"{path}.{name}" if path else name))
    mark = (spark.get("metadata") or {}).get(MARK)
    return _marked(found, mark.split(".") if isinstance(mark, str) else []) if mark else found


def _marked(part: Any, at: list[str]) -> Any:
    """A column whose part there is marked as JSON; as it is where that is no text any more."""
    t = part.type
    if not at:
        return part.with_metadata(JSON_TEXT) if pa.types.is_string(t) else part
    if at[0] == "element" and pa.types.is_list(t):
        return part.with_type(pa.list_(_marked(t.value_field, at[1:])))
    if at[0] == "value" and pa.types.is_map(t):
        return part.with_type(pa.map_(t.key_type, _marked(t.item_field, at[1:])))
    return part


def _plain(name: str, path: str) -> Any:
    if name in _TYPES:
        return _TYPES[name]
    if name == "decimal":
        return pa.decimal128(10, 0)
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if _CHARS.fullmatch(name):
        return pa.string()
    raise _foreign(path, name)


def _foreign(path: str, name: str) -> SchemaConflict:
    return SchemaConflict(
        f"column {path!r} of the table has type {name}, which lakeport can't write",
        "land into another table, or change the column's type there.",
    )
