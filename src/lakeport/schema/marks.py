"""Marks in a schema of the Delta log: places without a value yet, and names of Singer columns.

Such a place has the type of text, and the metadata of the column or member that it is, or is in,
have `lakeport.noValueYet`:
```
true                        the column or member itself
["{}"]                      it had objects without members alone
["element", "value.{}"]     parts of its lists and maps, which have no metadata
```
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from lakeport.schema.nested import OBJECT, is_untyped, reopened, with_parts, with_text
from lakeport.schema.sparktypes import spark_json

UNTYPED = "lakeport.noValueYet"
"""Key of the metadata."""

_OBJECT = "{}"

DELETED_AT = "_sdc_deleted_at"
SEQUENCE = "_sdc_sequence"
TABLE_VERSION = "_sdc_table_version"


def opened(schema: Mapping[str, Any], columns: pa.Schema) -> pa.Schema:
    """A table's columns, with the types of `lakeport.schema.nested` in places without a value.

    Args:
        schema: the table's schema as Delta's JSON.
        columns: the same as Arrow has it, or the type of an object.
    """
    pairs = zip(schema["fields"], columns, strict=True)
    return pa.schema(
        [reopened(f, _opened(json_["type"], f.type, _marks(json_))) for json_, f in pairs]
    )


def _opened(spark: Any, type_: pa.DataType, marks: Collection[str]) -> pa.DataType:
    if "" in marks:
        return pa.null()
    if _OBJECT in marks:
        return OBJECT
    if pa.types.is_struct(type_):
        return pa.struct(list(opened(spark, type_)))
    parts = [_opened(spark[key], part, _below(marks, name)) for key, name, part in parts_of(type_)]
    return with_parts(type_, parts)


def _marks(field: Mapping[str, Any]) -> frozenset[str]:
    """The places without a value in a column or member, as paths below it; empty for itself."""
    found = field["metadata"].get(UNTYPED, [])
    return frozenset({""} if found is True else found)


def _below(marks: Collection[str], name: str) -> frozenset[str]:
    """The marks within a part of a list or map.

    >>> sorted(_below({"element", "element.{}", "value"}, "element"))
    ['', '{}']
    """
    paths = (mark.partition(".") for mark in marks)
    return frozenset(rest for first, _, rest in paths if first == name)


def parts_of(type_: pa.DataType) -> list[tuple[str, str, pa.DataType]]:
    """The parts of a list or map: their keys in Delta's JSON, their names in paths, their types."""
    if pa.types.is_list(type_):
        return [("elementType", "element", type_.value_type)]
    if pa.types.is_map(type_):
        return [("keyType", "key", type_.key_type), ("valueType", "value", type_.item_type)]
    return []


def marked(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    """A schema, as Delta's JSON, that says which of its places never had a value, and of no others.

    Args:
        schema: the schema, with text in these places.
        columns: the same columns, or type of an object, with the types of
            `lakeport.schema.nested` there.
    """
    fields = []
    for field, column in zip(schema["fields"], columns, strict=True):
        metadata = {key: value for key, value in field["metadata"].items() if key != UNTYPED}
        if marks := _marks_of(column.type):
            metadata[UNTYPED] = True if marks == [""] else marks
        type_ = _marked(field["type"], column.type)
        fields.append({**field, "type": type_, "metadata": metadata})
    return {**schema, "fields": fields}


def _marked(spark: Any, type_: pa.DataType) -> Any:
    if is_untyped(type_):
        return spark
    if pa.types.is_struct(type_):
        return marked(spark, type_)
    parts = {key: _marked(spark[key], part) for key, _, part in parts_of(type_)}
    return {**spark, **parts} if parts else spark


def _marks_of(type_: pa.DataType) -> list[str]:
    """List the places below a column that never had a value, as its metadata has them.

    [""] is the column itself, ["{}"] a column that had objects without members alone.
    """
    if is_untyped(type_):
        return [_OBJECT if type_ == OBJECT else ""]
    return [
        f"{name}.{mark}" if mark else name
        for _, name, part in parts_of(type_)
        for mark in _marks_of(part)
    ]


def typed(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    """A table's schema, as Delta's JSON, whose places without a value have the types of columns.

    Args:
        schema: the table's.
        columns: what the columns, or the members of an object, are to be; others are left alone.
    """
    types = {column.name: column.type for column in columns}
    fields = [
        {**f, "type": _typed(f["type"], types.get(f["name"]), _marks(f))} for f in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _typed(spark: Any, type_: pa.DataType | None, marks: frozenset[str]) -> Any:
    if type_ is None:
        return spark
    if marks & {"", _OBJECT}:
        wanted = json.loads(spark_json(with_text(pa.schema([("place", type_)]))))
        return wanted["fields"][0]["type"]
    if isinstance(spark, str):
        return spark
    if pa.types.is_struct(type_) and spark["type"] == "struct":
        return typed(spark, type_)
    parts = [one for one in parts_of(type_) if one[0] in spark]
    return {**spark, **{k: _typed(spark[k], part, _below(marks, n)) for k, n, part in parts}}


def lowest_version(rows: pa.RecordBatch) -> int | None:
    """Return the lowest `_sdc_table_version` of rows; None where a row has no version.

    Example:
        >>> import pyarrow as pa
        >>> lowest_version(pa.record_batch({"id": [1, 2], "_SDC_table_version": [8, 9]}))
        8
        >>> lowest_version(pa.record_batch({"_sdc_table_version": [8, None]})) is None
        True
    """
    import pyarrow.compute as pc

    names = [name.lower() for name in rows.schema.names]
    column = rows.column(names.index(TABLE_VERSION)) if TABLE_VERSION in names else None
    if column is None or column.null_count:
        return None
    try:
        lowest: int = math.floor(pc.min(column).as_py())
    except (TypeError, ValueError, OverflowError):  # text, or a number that is none
        return None
    return lowest


def lowest_of(versions: Collection[int | None]) -> int | None:
    """Return the lowest of several versions; None where one of them is None, or there is none."""
    known = [version for version in versions if version is not None]
    return min(known) if known and len(known) == len(versions) else None
