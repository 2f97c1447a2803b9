"""State of a Delta table at one version, and its schema's JSON. Pure functions.

A schema's JSON is kept as it is, and grown by new columns. Names with spaces, line breaks, tabs or
`,;{}()=` need column mapping: data files have physical names then, which the schema's metadata
lists.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.schema.spark_schema import (
    JSON_KEY,
    apply_untyped_marks,
    from_spark_json,
    to_spark_json,
)
from lakeport.schema.types import to_table_field

MAPPING_MODE = "delta.columnMapping.mode"
_ID = "delta.columnMapping.id"
_PHYSICAL = "delta.columnMapping.physicalName"
_TYPE_CHANGES = "delta.typeChanges"
_UNMAPPABLE = frozenset(" ,;{}()\n\t=")
_HONOURED = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "allowColumnDefaults",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_FILLED = ("delta.generationExpression", "delta.identity.", "CURRENT_DEFAULT")
_RULES = (*_FILLED, "delta.invariants")
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's metadata, protocol and clustering columns (dotted paths) at one version."""

    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    clustering: tuple[str, ...] = ()

    def allows_same_plan(self, other: TableState) -> bool:
        """Whether both states have the same schema, partitioning, properties and features.

        Absent values may differ: a checkpoint has null where a commit leaves them out.
        """
        mine, theirs = (
            (one.schema_json, one.partition_columns, one.properties, one.features)
            for one in (self, other)
        )
        return mine == theirs

    @property
    def schema_json(self) -> Mapping[str, Any]:
        """Schema as Delta's JSON."""
        return dict(json.loads(self.metadata["schemaString"]))

    @property
    def schema(self) -> pa.Schema:
        """Columns, partition columns included."""
        return from_spark_json(self.metadata["schemaString"])

    @property
    def open_schema(self) -> pa.Schema:
        """Columns, with the types of `lakeport.schema.nested` where no value came yet."""
        return apply_untyped_marks(self.schema_json, self.schema)

    @property
    def partition_schema(self) -> pa.Schema:
        """Partition columns with their types; other columns may have unknown types."""
        fields = [f for f in self.schema_json["fields"] if f["name"] in self.partition_columns]
        return from_spark_json(json.dumps({"type": "struct", "fields": fields}))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns."""
        return tuple(self.metadata["partitionColumns"])

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties."""
        return dict(self.metadata.get("configuration") or {})

    @property
    def features(self) -> frozenset[str]:
        """Names of the table features that the protocol lists."""
        listed = (self.protocol.get(f"{kind}Features") or () for kind in ("reader", "writer"))
        return frozenset(name for names in listed for name in names)

    @property
    def mapped(self) -> bool:
        """Whether the table has column mapping, so that data files have other column names."""
        return self.properties.get(MAPPING_MODE, "none") != "none"

    @property
    def generated_columns(self) -> frozenset[str]:
        """Names of columns with generated, identity or default values, which a batch may omit."""
        return frozenset(
            field["name"]
            for field in self.schema_json["fields"]
            if any(key.startswith(_FILLED) for key in field["metadata"])
        )

    @property
    def needs_spark(self) -> tuple[str, ...]:
        """Reasons why only Spark may write rows, such as constraints; empty if there are none."""
        found = sorted(self.features - _HONOURED)
        found += [name for name in self.properties if name.startswith("delta.constraints.")]
        if self.properties.get(MAPPING_MODE) == "id":
            found.append("column mapping by id")
        if any(self.properties.get(f"delta.enableIcebergCompatV{n}") == "true" for n in (1, 2, 3)):
            found.append("Iceberg compatibility")
        if self.properties.get("delta.enableRowTracking") == "true":
            found.append("row tracking")
        for field in self.schema_json["fields"]:
            text = json.dumps(field)
            if '"nullable": false' in text:
                found.append(f"NOT NULL in column {field['name']!r}")
            if _LENGTH in text:
                found.append(f"a length of texts in column {field['name']!r}")
            if any(key.startswith(_RULES) for key in field["metadata"]):
                found.append(f"a rule of column {field['name']!r}")
        return tuple(found)


def needs_mapping(schema: pa.Schema) -> tuple[str, ...]:
    """Return dotted paths of columns whose names need column mapping, such as those with spaces.

    >>> needs_mapping(pa.schema([("a.b", pa.int64()), ("unit price", pa.int64())]))
    ('unit price',)
    """
    found: list[str] = []
    for name, path, _ in _list_fields(json.loads(to_spark_json(schema)), ""):
        if _UNMAPPABLE & set(name):
            found.append(path)
    return tuple(found)


def grow_schema(
    table_schema: Mapping[str, Any] | None,
    columns: pa.Schema,
    *,
    mapped: bool = False,
    widened: bool = False,
    highest_id: int = 0,
) -> dict[str, Any]:
    """Return a table's new schema as Delta's JSON; columns that it had keep their metadata.

    Args:
        table_schema: the table's schema as Delta's JSON; None when there is no table.
        columns: the table's columns after the change.
        mapped: whether new columns get an id and a physical name.
        widened: whether columns widen, which the schema notes for readers of old data files.
        highest_id: the highest column id that the table has used.
    """
    new: dict[str, Any] = json.loads(to_spark_json(columns))
    merged: dict[str, Any] = _merge_type(table_schema, new)
    if widened and table_schema is not None:
        _note_widened(table_schema, merged)
    if mapped:
        fields = [field for _, _, field in _list_fields(merged, "")]
        last = max([highest_id, *(field["metadata"].get(_ID, 0) for field in fields)])
        for field in fields:
            if _ID not in field["metadata"]:
                last += 1
                field["metadata"] = {
                    **field["metadata"],
                    _ID: last,
                    _PHYSICAL: f"col-{uuid.uuid4()}",
                }
    return merged


def replace_type(schema: Mapping[str, Any], name: str, type_: pa.DataType) -> dict[str, Any]:
    """Return a schema with the type of column `name` replaced, and its type history dropped."""
    new = json.loads(to_spark_json(pa.schema([to_table_field(name, type_)])))["fields"][0]
    fields = []
    for field in schema["fields"]:
        if field["name"] == name:
            dropped = (_TYPE_CHANGES, JSON_KEY)
            kept = {key: value for key, value in field["metadata"].items() if key not in dropped}
            field = {**field, "type": new["type"], "metadata": {**kept, **new["metadata"]}}
        fields.append(field)
    return {**schema, "fields": fields}


def physical_names(schema: Mapping[str, Any], columns: Sequence[str]) -> dict[str, str]:
    """Return top-level column -> its name in data files and in partition values."""
    fields = {field["name"]: field for field in schema["fields"]}
    return {name: _physical_name(fields[name]) for name in columns}


def logical_paths(schema: Mapping[str, Any], physical: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Convert physical column paths to dotted logical names; unknown names stay as they are.

    >>> plain = {"fields": [{"name": "a", "type": "long", "metadata": {_PHYSICAL: "col-1"}}]}
    >>> logical_paths(plain, [["col-1"]])
    ('a',)
    """
    found = []
    for parts in physical:
        names, inner = [], schema
        for part in parts:
            field = next((f for f in inner.get("fields", ()) if _physical_name(f) == part), None)
            names.append(part if field is None else str(field["name"]))
            below = {} if field is None else field["type"]
            inner = below if isinstance(below, Mapping) else {}
        found.append(".".join(names))
    return tuple(found)


def file_schema(
    schema: Mapping[str, Any], columns: pa.Schema, *, without: Sequence[str] = ()
) -> pa.Schema:
    """Return the Arrow schema of data files, with physical names and field ids.

    `schema` is Delta's JSON; `without` has the names of columns to leave out, such as partitions.
    """
    fields = {field["name"]: field for field in schema["fields"]}
    return pa.schema(
        [_file_field(fields[item.name], item) for item in columns if item.name not in without]
    )


def _file_field(field: Mapping[str, Any], item: pa.Field) -> pa.Field:
    """Return the field of a column in data files; `field` is Delta's JSON of column `item`."""
    column_id = field["metadata"].get(_ID)
    metadata = None if column_id is None else {"PARQUET:field_id": str(column_id)}
    type_ = _file_type(field["type"], item.type)
    return pa.field(_physical_name(field), type_, metadata=metadata)


def _file_type(type_json: Any, type_: pa.DataType) -> pa.DataType:
    """Return a column's type in data files, with physical names of struct members."""
    if pa.types.is_struct(type_) and type_.num_fields:
        fields = {field["name"]: field for field in type_json["fields"]}
        return pa.struct([_file_field(fields[child.name], child) for child in type_])
    if pa.types.is_list(type_):
        item = type_.value_field
        return pa.list_(item.with_type(_file_type(type_json["elementType"], item.type)))
    if pa.types.is_map(type_):
        key = type_.key_field.with_type(_file_type(type_json["keyType"], type_.key_type))
        value = type_.item_field.with_type(_file_type(type_json["valueType"], type_.item_type))
        return pa.map_(key, value)
    return type_


def _physical_name(field: Mapping[str, Any]) -> str:
    """Return a field's name in data files."""
    return str(field["metadata"].get(_PHYSICAL, field["name"]))


def _merge_type(old: Any, new: Any) -> Any:
    """Return the new type's JSON, with the old metadata of fields that both types have."""
    if not isinstance(new, dict) or not isinstance(old, Mapping):
        return new
    if new.get("type") != old.get("type"):
        return new
    if new["type"] == "struct":
        fields = {field["name"]: field for field in old["fields"]}
        grown = [_merge_field(fields.get(field["name"]), field) for field in new["fields"]]
        return {**new, "fields": grown}
    inner = ("elementType",) if new["type"] == "array" else ("keyType", "valueType")
    return {**old, **{part: _merge_type(old[part], new[part]) for part in inner}}


def _note_widened(old: Any, merged: Any) -> None:
    """Add `delta.typeChanges` to fields of `merged` whose types differ from `old`, at any depth."""
    if not isinstance(old, Mapping):
        return
    for part in ("elementType", "keyType", "valueType"):
        _note_widened(old.get(part), merged.get(part))
    fields = {field["name"]: field for field in old.get("fields", ())}
    for field in merged.get("fields", ()):
        before = fields.get(field["name"])
        if before is None:
            continue
        _note_widened(before["type"], field["type"])
        changes = _type_changes(before["type"], field["type"], "")
        if changes:
            earlier = before["metadata"].get(_TYPE_CHANGES, [])
            field["metadata"] = {**before["metadata"], _TYPE_CHANGES: [*earlier, *changes]}


def _type_changes(old: Any, merged: Any, path: str) -> list[dict[str, str]]:
    """List the entries of `delta.typeChanges` for a field, also for its elements and keys."""
    if isinstance(old, str):
        change = {"fromType": old, "toType": merged}
        if old == merged:
            return []
        return [{**change, "fieldPath": path} if path else change]
    found: list[dict[str, str]] = []
    for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if part in old:
            below = f"{path}.{name}" if path else name
            found += _type_changes(old[part], merged[part], below)
    return found


def _merge_field(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the new field's JSON, with the old metadata unless a simple type has changed."""
    if old is None:
        return new
    merged = _merge_type(old["type"], new["type"])
    if isinstance(merged, str) and merged != old["type"]:
        return new
    kept = {key: value for key, value in old["metadata"].items() if key != JSON_KEY}
    mark = {key: value for key, value in new["metadata"].items() if key == JSON_KEY}
    return {**old, "type": merged, "metadata": {**kept, **mark}}


def _list_fields(type_json: Any, path_prefix: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return all fields below a type as (name, dotted path, JSON), parents first."""
    if not isinstance(type_json, Mapping):
        return []
    found: list[tuple[str, str, dict[str, Any]]] = []
    for field in type_json.get("fields", ()):
        path = f"{path_prefix}{field['name']}"
        found += [(field["name"], path, field), *_list_fields(field["type"], f"{path}.")]
    for part in ("elementType", "keyType", "valueType"):
        found += _list_fields(type_json.get(part), path_prefix)
    return found
