"""JSON schemas: refused in lakeport's words, or columns that records can be read into."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakeport.errors import InputError
from lakeport.model import UnknownPolicy
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.spark_schema import from_spark_json, to_spark_json
from lakeport.schema.types import Field, Kind
from lakeport.sources.json.reader import JsonReader
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.records import check_reader

_KINDS = {
    ("string", None): Kind.STRING,
    ("integer", None): Kind.INTEGER,
    ("boolean", None): Kind.BOOLEAN,
    ("number", None): Kind.NUMBER,
    ("string", "date-time"): Kind.TIMESTAMP,
    ("string", "date"): Kind.DATE,
}


def check(case: Case) -> None:
    try:
        schema = json.loads(case.data)
    except ValueError:
        return
    if not isinstance(schema, dict):
        return
    given = case.options
    try:
        fields = parse_schema("s", schema, given["keys"])
    except InputError as error:
        if not error.message or not error.hint:
            raise Changed("an error without words", repr(error)) from None
        return
    _check_fields(schema, fields)
    reader = JsonReader("s", fields, envelope=False, unknown=UnknownPolicy(given["unknown"]))
    _check_types(reader.schema)
    check_reader(reader, given["lines"].encode("utf-8", "surrogateescape"))


def _check_fields(schema: dict[str, Any], fields: tuple[Field, ...]) -> None:
    """Columns that are declared in the plainest way have the plainest type."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or {"allOf", "anyOf", "oneOf", "$ref"} & schema.keys():
        return
    found = {field.name: field.type.kind for field in fields}
    if properties and set(found) != set(properties):
        raise Changed("columns are not the properties", sorted(found), sorted(properties))
    for name, declared in properties.items():
        if isinstance(declared, dict) and set(declared) <= {"type", "format"}:
            types = declared.get("type")
            names = [t for t in ([types] if isinstance(types, str) else types or []) if t != "null"]
            wanted = _KINDS.get((names[0], declared.get("format"))) if len(names) == 1 else None
            if wanted is not None and found[name] is not wanted:
                raise Changed("a plain column has another kind", name, declared, found[name])


def _check_types(schema: pa.Schema) -> None:
    if schema.names and from_spark_json(to_spark_json(schema)) != schema:
        raise Changed("a table's schema does not come back from its JSON", schema)
