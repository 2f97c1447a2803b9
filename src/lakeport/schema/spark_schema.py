"""Table schemas in the JSON form of Spark's `StructType`, which Delta's log has, too.

Metadata in that form mark which columns hold JSON (`lakeport.json`), and which places never had a
value (`lakeport.noValueYet`). A place without a value has the type of text. The second mark is in
the metadata of the column or struct member that the place is, or is in:
```
true                        the column or member itself
["{}"]                      it had objects without members alone
["element", "value.{}"]     parts of its lists and maps, which have no metadata
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from lakeport.errors import SchemaConflict
from lakeport.model import Batch
from lakeport.schema.casting import normalise_schema
from lakeport.schema.nested import (
    EMPTY_STRUCT,
    JSON_METADATA,
    change_child_types,
    change_field_type,
    is_json,
    is_untyped,
    list_parts,
    replace_untyped_columns,
)

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
JSON_KEY = "lakeport.json"
"""Metadata key of a field in Delta's log whose texts, or those of a part, are JSON."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Spark's folder name for a null partition value; a text that reads so is null, too."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_CHARS = re.compile(r"(?:var)?char\(\d+\)")


def quote_identifier(name: str) -> str:
    """Quote the name of a column, view or path for Spark SQL.

    >>> quote_identifier("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def to_spark_json(schema: pa.Schema) -> str:
    """Convert a table schema to JSON as Spark's `StructType.json()` writes it.

    SchemaConflict for types that `lakeport.schema.casting.normalise_schema` does not return.

    >>> to_spark_json(pa.schema([("id", pa.int64())]))
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    """
    return json.dumps(_struct_to_spark(schema, ""), ensure_ascii=False, separators=(",", ":"))


def from_spark_json(text: str) -> pa.Schema:
    """Parse a schema that Spark or Delta wrote as JSON; SchemaConflict for types such as `variant`.

    A `timestamp_ntz` column comes out as `timestamp('us')` without a zone, which only tables of
    other writers have. Metadata is left out, but for what marks JSON.

    >>> from_spark_json(to_spark_json(pa.schema([("id", pa.int64())]))).names
    ['id']
    """
    return pa.schema(list(_type_to_arrow(json.loads(text), "")))


def build_json_mark(part: pa.Field) -> dict[str, Any]:
    """Return metadata that marks a column, or its list or map values, as JSON; or {}.

    >>> items = pa.list_(pa.field("item", pa.string(), metadata=JSON_METADATA))
    >>> build_json_mark(pa.field("v", items)), build_json_mark(pa.field("v", pa.string()))
    ({'lakeport.json': 'element'}, {})
    """
    path: list[str] = []
    while pa.types.is_list(part.type) or pa.types.is_map(part.type):
        name, part = list_parts(part.type)[-1]
        path.append(name)
    return {JSON_KEY: ".".join(path) or True} if is_json(part) else {}


def _struct_to_spark(fields: Any, path: str) -> dict[str, Any]:
    """Convert Arrow fields to a struct in Spark's JSON; `path` is the struct's, for errors."""
    return {
        "type": "struct",
        "fields": [
            {
                "name": f.name,
                "type": _type_to_spark(f.type, f"{path}.{f.name}" if path else f.name),
                "nullable": True,
                "metadata": build_json_mark(f),
            }
            for f in fields
        ],
    }


def _type_to_spark(t: Any, path: str) -> Any:
    """Convert an Arrow type to Spark's JSON; raise SchemaConflict if tables lack it."""
    name = _NAMES.get(t)
    if name is not None:
        return name
    if pa.types.is_decimal128(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_struct(t):
        return _struct_to_spark([t.field(i) for i in range(t.num_fields)], path)
    parts = {key: _type_to_spark(part, f"{path}.{name}") for key, name, part in list_part_types(t)}
    if pa.types.is_list(t):
        return {"type": "array", **parts, "containsNull": True}
    if pa.types.is_map(t):
        return {"type": "map", **parts, "valueContainsNull": True}
    raise SchemaConflict(
        f"column {path!r} has type {t}, which tables don't have",
        "convert the column in the source, or leave it out.",
    )


def _type_to_arrow(spark: Any, path: str) -> Any:
    """Convert a type in Spark's JSON to Arrow; raise SchemaConflict for unknown ones."""
    if isinstance(spark, str):
        return _flat_type_to_arrow(spark, path)
    if isinstance(spark, Mapping):
        match spark.get("type"):
            case "struct":
                return pa.struct([_field_to_arrow(f, path) for f in spark["fields"]])
            case "array":
                return pa.list_(_type_to_arrow(spark["elementType"], f"{path}.element"))
            case "map":
                key = _type_to_arrow(spark["keyType"], f"{path}.key")
                return pa.map_(key, _type_to_arrow(spark["valueType"], f"{path}.value"))
    raise _unknown_type_error(path, json.dumps(spark))


def _field_to_arrow(spark: Mapping[str, Any], path: str) -> Any:
    """Convert a field in Spark's JSON to Arrow; keep metadata that marks JSON texts."""
    name = spark["name"]
    found = pa.field(name, _type_to_arrow(spark["type"], f"{path}.{name}" if path else name))
    mark = (spark.get("metadata") or {}).get(JSON_KEY)
    return _mark_json(found, mark.split(".") if isinstance(mark, str) else []) if mark else found


def _mark_json(part: Any, path: list[str]) -> Any:
    """Mark the strings at `path` in a field as JSON; return the field unchanged if not strings."""
    t = part.type
    if not path:
        return part.with_metadata(JSON_METADATA) if pa.types.is_string(t) else part
    if path[0] == "element" and pa.types.is_list(t):
        return part.with_type(pa.list_(_mark_json(t.value_field, path[1:])))
    if path[0] == "value" and pa.types.is_map(t):
        return part.with_type(pa.map_(t.key_type, _mark_json(t.item_field, path[1:])))
    return part


def _flat_type_to_arrow(name: str, path: str) -> Any:
    """Convert the name of a flat Spark type to Arrow; SchemaConflict for unknown ones."""
    if name in _TYPES:
        return _TYPES[name]
    if name == "decimal":
        return pa.decimal128(10, 0)
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if _CHARS.fullmatch(name):
        return pa.string()
    raise _unknown_type_error(path, name)


def _unknown_type_error(path: str, name: str) -> SchemaConflict:
    """Build the error for a type of the table that lakeport can't write."""
    return SchemaConflict(
        f"column {path!r} of the table has type {name}, which lakeport can't write",
        "land into another table, or change the column's type there.",
    )


UNTYPED_KEY = "lakeport.noValueYet"
"""Metadata key of a field with untyped places."""

_OBJECT = "{}"


def apply_untyped_marks(schema: Mapping[str, Any], columns: pa.Schema) -> pa.Schema:
    """Return the columns with null types and empty structs where the Delta schema marks them.

    `schema` is the JSON of the same columns.
    """
    pairs = zip(schema["fields"], columns, strict=True)
    return pa.schema(
        [
            change_field_type(f, _apply_marks(json_["type"], f.type, _read_marks(json_)))
            for json_, f in pairs
        ]
    )


def _apply_marks(spark: Any, type_: pa.DataType, marks: Collection[str]) -> pa.DataType:
    """Return a type with null or an empty struct at each path in `marks`; "" is the type."""
    if "" in marks:
        return pa.null()
    if _OBJECT in marks:
        return EMPTY_STRUCT
    if pa.types.is_struct(type_):
        return pa.struct(list(apply_untyped_marks(spark, type_)))
    parts = [
        _apply_marks(spark[key], part, _marks_below(marks, name))
        for key, name, part in list_part_types(type_)
    ]
    return change_child_types(type_, parts)


def _read_marks(field: Mapping[str, Any]) -> frozenset[str]:
    """Return a column's marked places as paths below it; the column itself is the empty path."""
    found = field["metadata"].get(UNTYPED_KEY, [])
    return frozenset({""} if found is True else found)


def _marks_below(marks: Collection[str], name: str) -> frozenset[str]:
    """Return the marked paths below the list or map part `name`, relative to that part.

    >>> sorted(_marks_below({"element", "element.{}", "value"}, "element"))
    ['', '{}']
    """
    paths = (mark.partition(".") for mark in marks)
    return frozenset(rest for first, _, rest in paths if first == name)


def list_part_types(type_: pa.DataType) -> list[tuple[str, str, pa.DataType]]:
    """List (key in Delta's JSON, name in paths, type) of a list's or map's parts; or none."""
    if pa.types.is_struct(type_):
        return []
    return [(f"{name}Type", name, part.type) for name, part in list_parts(type_)]


def write_untyped_marks(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    """Return Delta schema JSON that marks the null types and empty structs of `columns`.

    Both have the same columns, or members of a struct; `schema` has text in these places.
    """
    fields = []
    for field, column in zip(schema["fields"], columns, strict=True):
        metadata = {key: value for key, value in field["metadata"].items() if key != UNTYPED_KEY}
        if marks := _list_untyped(column.type):
            metadata[UNTYPED_KEY] = True if marks == [""] else marks
        type_ = _write_marks(field["type"], column.type)
        fields.append({**field, "type": type_, "metadata": metadata})
    return {**schema, "fields": fields}


def _write_marks(spark: Any, type_: pa.DataType) -> Any:
    """Return a type's Delta JSON, with marks for null types and empty structs in its structs."""
    if is_untyped(type_):
        return spark
    if pa.types.is_struct(type_):
        return write_untyped_marks(spark, type_)
    parts = {key: _write_marks(spark[key], part) for key, _, part in list_part_types(type_)}
    return {**spark, **parts} if parts else spark


def _list_untyped(type_: pa.DataType) -> list[str]:
    """List the paths of null types and empty structs in a type, as the metadata has them.

    [""] is the column itself, ["{}"] a column that had objects without members alone.
    """
    if is_untyped(type_):
        return [_OBJECT if type_ == EMPTY_STRUCT else ""]
    return [
        f"{name}.{mark}" if mark else name
        for _, name, part in list_part_types(type_)
        for mark in _list_untyped(part)
    ]


def fill_marked_types(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    """Return Delta schema JSON with the types of `columns` in place of marked null types.

    Columns, and members of structs, that `columns` lacks stay as they are.
    """
    types = {column.name: column.type for column in columns}
    fields = [
        {**f, "type": _fill_marked(f["type"], types.get(f["name"]), _read_marks(f))}
        for f in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _fill_marked(spark: Any, type_: pa.DataType | None, marks: frozenset[str]) -> Any:
    """Return a type's Delta JSON with `type_`'s types at marked paths; unchanged if None."""
    if type_ is None:
        return spark
    if marks & {"", _OBJECT}:
        wanted = json.loads(to_spark_json(replace_untyped_columns(pa.schema([("place", type_)]))))
        return wanted["fields"][0]["type"]
    if isinstance(spark, str):
        return spark
    if pa.types.is_struct(type_) and spark["type"] == "struct":
        return fill_marked_types(spark, type_)
    parts = [one for one in list_part_types(type_) if one[0] in spark]
    return {
        **spark,
        **{k: _fill_marked(spark[k], part, _marks_below(marks, n)) for k, n, part in parts},
    }


def columns_of(batch: Batch) -> pa.Schema:
    """Return a batch's columns, from its reader or Spark frame; TypeError if it has neither."""
    if batch.reader is not None:
        return batch.reader.schema
    if batch.frame is None:
        raise TypeError("a batch has a reader or a frame")
    return normalise_schema(from_spark_json(batch.frame.schema.json()))
