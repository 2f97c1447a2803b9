"""What a Delta table is at one version, by its metadata and protocol; and its schema's text. Pure.

A schema's text is kept where it stands, and grown where columns are new. Names that Delta's plain
schemas can't hold (with spaces, line breaks, tabs, `,;{}()=`) need column mapping: the data files
then have other names, and the schema's metadata says which is which.
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
_UNHOLDABLE = frozenset(" ,;{}()\n\t=")
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
    """A table at one version.

    Attributes:
        version: the version.
        metadata: the `metaData` action.
        protocol: the `protocol` action.
        clustering: the columns by which it is clustered, nested ones as dotted paths.
    """

    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    clustering: tuple[str, ...] = ()

    def allows_same_plan(self, other: TableState) -> bool:
        """Whether a plan on another state holds on this one: same schema, properties, features.

        Absent values may differ: a checkpoint has null where a commit leaves them out.
        """
        mine, theirs = (
            (one.schema_json, one.partition_columns, one.properties, one.features)
            for one in (self, other)
        )
        return mine == theirs

    @property
    def schema_json(self) -> Mapping[str, Any]:
        """The schema as Delta's JSON."""
        return dict(json.loads(self.metadata["schemaString"]))

    @property
    def schema(self) -> pa.Schema:
        """The columns, partition columns included."""
        return from_spark_json(self.metadata["schemaString"])

    @property
    def open_schema(self) -> pa.Schema:
        """The columns, with the types of `lakeport.schema.nested` where there was no value yet."""
        return apply_untyped_marks(self.schema_json, self.schema)

    @property
    def partition_schema(self) -> pa.Schema:
        """The partition columns, whatever types the others have."""
        fields = [f for f in self.schema_json["fields"] if f["name"] in self.partition_columns]
        return from_spark_json(json.dumps({"type": "struct", "fields": fields}))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns."""
        return tuple(self.metadata["partitionColumns"])

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return dict(self.metadata.get("configuration") or {})

    @property
    def features(self) -> frozenset[str]:
        """Names of the table features that the protocol lists."""
        listed = (self.protocol.get(f"{kind}Features") or () for kind in ("reader", "writer"))
        return frozenset(name for names in listed for name in names)

    @property
    def mapped(self) -> bool:
        """Whether data files have other column names than the table."""
        return self.properties.get(MAPPING_MODE, "none") != "none"

    @property
    def generated_columns(self) -> frozenset[str]:
        """Columns with generated, identity or default values, which a batch may lack."""
        return frozenset(
            field["name"]
            for field in self.schema_json["fields"]
            if any(key.startswith(_FILLED) for key in field["metadata"])
        )

    @property
    def needs_spark(self) -> tuple[str, ...]:
        """What only Spark's own writer can honour: rules about rows, and features unknown here."""
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
    """Dotted paths of the columns whose names a table without column mapping can't hold.

    >>> needs_mapping(pa.schema([("a.b", pa.int64()), ("unit price", pa.int64())]))
    ('unit price',)
    """
    found: list[str] = []
    for name, path, _ in _named(json.loads(to_spark_json(schema)), ""):
        if _UNHOLDABLE & set(name):
            found.append(path)
    return tuple(found)


def grow_schema(
    known: Mapping[str, Any] | None,
    schema: pa.Schema,
    *,
    mapped: bool = False,
    widened: bool = False,
    highest_id: int = 0,
) -> dict[str, Any]:
    """Write a table's schema, leaving what it has already untouched.

    Args:
        known: the table's schema as Delta's JSON; None when there is no table.
        schema: the columns it is to have.
        mapped: give new columns an id and a physical name.
        widened: a column of another type than before was widened: note it, as readers have to
            know of old data files.
        highest_id: the highest column id that the table has used.

    Returns:
        Delta's schema JSON, as a mapping.
    """
    wanted: dict[str, Any] = json.loads(to_spark_json(schema))
    merged: dict[str, Any] = _merge(known, wanted)
    if widened and known is not None:
        _note_widened(known, merged)
    if mapped:
        fields = [field for _, _, field in _named(merged, "")]
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
    """Return a table's schema with another type of one column, whose old files are removed."""
    wanted = json.loads(to_spark_json(pa.schema([to_table_field(name, type_)])))["fields"][0]
    fields = []
    for field in schema["fields"]:
        if field["name"] == name:
            gone = (_TYPE_CHANGES, JSON_KEY)
            kept = {key: value for key, value in field["metadata"].items() if key not in gone}
            field = {**field, "type": wanted["type"], "metadata": {**kept, **wanted["metadata"]}}
        fields.append(field)
    return {**schema, "fields": fields}


def physical_names(schema: Mapping[str, Any], columns: Sequence[str]) -> dict[str, str]:
    """Top-level column -> its name in data files and in partition values."""
    fields = {field["name"]: field for field in schema["fields"]}
    return {name: _physical(fields[name]) for name in columns}


def logical_paths(schema: Mapping[str, Any], physical: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Dotted paths of columns that are named by their parts in the data files.

    >>> plain = {"fields": [{"name": "a", "type": "long", "metadata": {_PHYSICAL: "col-1"}}]}
    >>> logical_paths(plain, [["col-1"]])
    ('a',)
    """
    found = []
    for parts in physical:
        names, inner = [], schema
        for part in parts:
            field = next((f for f in inner.get("fields", ()) if _physical(f) == part), None)
            names.append(part if field is None else str(field["name"]))
            below = {} if field is None else field["type"]
            inner = below if isinstance(below, Mapping) else {}
        found.append(".".join(names))
    return tuple(found)


def file_schema(
    schema: Mapping[str, Any], columns: pa.Schema, *, without: Sequence[str] = ()
) -> pa.Schema:
    """The Arrow schema of the data files: physical names, field ids, no partition columns.

    Args:
        schema: the table's schema as Delta's JSON.
        columns: the columns that are written, by their logical names.
        without: partition columns.
    """
    fields = {field["name"]: field for field in schema["fields"]}
    return pa.schema(
        [_arrow(fields[item.name], item) for item in columns if item.name not in without]
    )


def _arrow(field: Mapping[str, Any], item: pa.Field) -> pa.Field:
    ident = field["metadata"].get(_ID)
    metadata = None if ident is None else {"PARQUET:field_id": str(ident)}
    return pa.field(_physical(field), _arrow_type(field["type"], item.type), metadata=metadata)


def _arrow_type(spark: Any, type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_) and type_.num_fields:
        fields = {field["name"]: field for field in spark["fields"]}
        return pa.struct([_arrow(fields[child.name], child) for child in type_])
    if pa.types.is_list(type_):
        item = type_.value_field
        return pa.list_(item.with_type(_arrow_type(spark["elementType"], item.type)))
    if pa.types.is_map(type_):
        key = type_.key_field.with_type(_arrow_type(spark["keyType"], type_.key_type))
        value = type_.item_field.with_type(_arrow_type(spark["valueType"], type_.item_type))
        return pa.map_(key, value)
    return type_


def _physical(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get(_PHYSICAL, field["name"]))


def _merge(known: Any, wanted: Any) -> Any:
    """What is wanted, with the known text wherever the two mean the same."""
    if not isinstance(wanted, dict) or not isinstance(known, Mapping):
        return wanted
    if wanted.get("type") != known.get("type"):
        return wanted
    if wanted["type"] == "struct":
        fields = {field["name"]: field for field in known["fields"]}
        grown = [_merge_field(fields.get(field["name"]), field) for field in wanted["fields"]]
        return {**wanted, "fields": grown}
    inner = ("elementType",) if wanted["type"] == "array" else ("keyType", "valueType")
    return {**known, **{part: _merge(known[part], wanted[part]) for part in inner}}


def _note_widened(known: Any, merged: Any) -> None:
    """Put the changes of type below two structs, arrays or maps into their fields' metadata."""
    if not isinstance(known, Mapping):
        return
    for part in ("elementType", "keyType", "valueType"):
        _note_widened(known.get(part), merged.get(part))
    fields = {field["name"]: field for field in known.get("fields", ())}
    for field in merged.get("fields", ()):
        before = fields.get(field["name"])
        if before is None:
            continue
        _note_widened(before["type"], field["type"])
        changes = _type_changes(before["type"], field["type"], "")
        if changes:
            earlier = before["metadata"].get(_TYPE_CHANGES, [])
            field["metadata"] = {**before["metadata"], _TYPE_CHANGES: [*earlier, *changes]}


def _type_changes(known: Any, merged: Any, path: str) -> list[dict[str, str]]:
    if isinstance(known, str):
        change = {"fromType": known, "toType": merged}
        if known == merged:
            return []
        return [{**change, "fieldPath": path} if path else change]
    found: list[dict[str, str]] = []
    for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if part in known:
            below = f"{path}.{name}" if path else name
            found += _type_changes(known[part], merged[part], below)
    return found


def _merge_field(known: Mapping[str, Any] | None, wanted: dict[str, Any]) -> dict[str, Any]:
    if known is None:
        return wanted
    merged = _merge(known["type"], wanted["type"])
    if isinstance(merged, str) and merged != known["type"]:
        return wanted
    kept = {key: value for key, value in known["metadata"].items() if key != JSON_KEY}
    mark = {key: value for key, value in wanted["metadata"].items() if key == JSON_KEY}
    return {**known, "type": merged, "metadata": {**kept, **mark}}


def _named(spark: Any, above: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Every named field below a type, as (name, dotted path, field), parents first."""
    if not isinstance(spark, Mapping):
        return []
    found: list[tuple[str, str, dict[str, Any]]] = []
    for field in spark.get("fields", ()):
        path = f"{above}{field['name']}"
        found += [(field["name"], path, field), *_named(field["type"], f"{path}.")]
    for part in ("elementType", "keyType", "valueType"):
        found += _named(spark.get(part), above)
    return found
