"""JSON Schema -> columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import InputError
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.types import FieldType, Kind, to_arrow_type

TIMESTAMP = pa.timestamp("us", "UTC")
DEFINITIONS: dict[str, Any] = {
    "day": {"type": "string", "format": "date"},
    "tree": {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/definitions/tree"}},
        },
    },
    "loop": {"$ref": "#/definitions/loop"},
    "a/b c": {"type": "boolean"},
}


def column(schema: Any) -> Any:
    fields = parse_schema("s", {"properties": {"c": schema}, "definitions": DEFINITIONS})
    return fields[0].type


@pytest.mark.parametrize(
    ("schema", "stored"),
    [
        ({"type": "string"}, pa.string()),
        ({"type": ["null", "string"]}, pa.string()),
        ({"type": ["string", "null"], "format": "date-time"}, TIMESTAMP),
        ({"type": "string", "format": "date"}, pa.date32()),
        ({"type": "string", "format": "time"}, pa.string()),
        ({"type": "string", "format": "uuid"}, pa.string()),
        ({"type": "string", "contentEncoding": "base64"}, pa.binary()),
        ({"type": "integer", "multipleOf": 5}, pa.int64()),
        ({"type": "boolean"}, pa.bool_()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"anyOf": [{"type": "integer"}, {"type": ["null", "number"]}]}, pa.float64()),
        ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}, TIMESTAMP),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, pa.bool_()),
        ({"allOf": [{"type": "string"}, {"format": "date"}]}, pa.date32()),
        ({"anyOf": [{"format": "date-time"}, {}], "type": "string"}, pa.string()),
        ({"anyOf": [{"$ref": "#/definitions/day"}, {"type": "null"}]}, pa.date32()),
        ({"$ref": "#/definitions/a~1b%20c", "description": "x"}, pa.bool_()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"enum": [1, 2.5]}, pa.float64()),
        ({"const": 1}, pa.int64()),
        ({"type": ["null", "array"], "items": {"type": "integer"}}, pa.list_(pa.int64())),
        ({"items": {"type": "boolean"}}, pa.list_(pa.bool_())),
        (
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
            pa.list_(pa.int64()),
        ),
        (
            {"type": "array", "items": [{"type": "integer"}, {"type": "number"}]},
            pa.list_(pa.float64()),
        ),
        ({"properties": {"x": {"type": "integer"}}}, pa.struct([("x", pa.int64())])),
        (
            {"oneOf": [{"properties": {"x": {"const": 1}}}, {"properties": {"y": {"const": ""}}}]},
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
        ),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"x": {"type": "number"}}},
                    {"properties": {"x": {"type": "integer"}, "y": {"type": "string"}}},
                ]
            },
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
        ),
        (
            {"$ref": "#/definitions/tree"},
            pa.struct([("value", pa.int64()), ("children", pa.list_(pa.string()))]),
        ),
        ({"type": "number"}, pa.float64()),
        ({"type": "number", "multipleOf": 0.01}, pa.decimal128(38, 2)),
        ({"type": "number", "multipleOf": 1e-07}, pa.decimal128(38, 7)),
        ({"type": "number", "multipleOf": 10}, pa.decimal128(38, 0)),
        ({"type": "number", "multipleOf": 1e-30}, pa.decimal128(38, 18)),
        (
            {"type": "number", "multipleOf": 1e-30, "minimum": -99, "maximum": 99},
            pa.decimal128(38, 30),
        ),
        ({"type": "number", "x-precision": 9, "x-scale": 2}, pa.decimal128(9, 2)),
        ({"type": "string", "format": "singer.decimal"}, pa.decimal128(38, 18)),
        (
            {"type": "string", "format": "singer.decimal", "precision": 20, "scale": 4},
            pa.decimal128(20, 4),
        ),
        (
            {"type": ["null", "integer", "number"], "multipleOf": 0.01},
            pa.decimal128(38, 2),
        ),
    ],
)
def test_column_types(schema: Any, stored: pa.DataType) -> None:
    assert column(schema).kind is not Kind.JSON
    assert to_arrow_type(column(schema)) == stored


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "null"},
        {"type": "anything"},
        {"type": ["string", "integer"]},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}, "A": {}}},
        {"enum": ["a", 1]},
        {"$ref": "#"},
        {"$ref": "#/definitions/loop"},
        {"format": "date-time"},
        {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"x": {}}}]},
    ],
)
def test_what_becomes_json_text(schema: Any) -> None:
    assert column(schema).kind is Kind.JSON


@pytest.mark.parametrize(
    ("schema", "opening"),
    [
        ({"type": ["object", "null"]}, "{"),
        ({"properties": {"Additional_Properties": {}}, "additionalProperties": True}, "{"),
        ({"type": ["object", "array"]}, "[{"),
        ({"anyOf": [{"type": "object"}, {"properties": {"x": {}}}]}, "{"),
        ({"anyOf": [{"type": "array", "items": {}}, {"properties": {"x": {}}}]}, "[{"),
        ({"type": ["object", "string"]}, ""),
        ({"type": ["object", "array", "integer"]}, ""),
        ({}, ""),
    ],
)
def test_which_json_may_stand_in_a_string(schema: Any, opening: str) -> None:
    (field,) = parse_schema("s", {"properties": {"c": schema}})
    assert (field.type.kind, field.type.opening) == (Kind.JSON, frozenset(opening))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": ["null", "array"], "items": True},
        {"type": "array", "items": []},
        {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array", "items": {"type": "string"}, "prefixItems": [{}]},
        {"type": "array", "items": {"type": ["string", "integer", "null"]}},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
        {
            "oneOf": [
                {"type": "array", "items": {"type": t}} for t in ("string", "boolean", "integer")
            ]
        },
    ],
)
def test_items_without_one_type_are_mixed(schema: Any) -> None:
    assert column(schema).item.kind is Kind.MIXED
    assert column({"type": "array", "items": schema}).item.item.kind is Kind.MIXED
    inside = column({"type": "object", "properties": {"m": schema}})
    assert inside.fields[0].type.item.kind is Kind.MIXED


def test_items_of_objects_alone_stay_json() -> None:
    assert column({"type": "array", "items": {"type": "object"}}).item.kind is Kind.JSON


@pytest.mark.parametrize(
    ("keywords", "scale"),
    [
        ({"multipleOf": "1e999999999"}, 0),
        ({"multipleOf": "1e-999999999"}, 18),
        ({"multipleOf": "1e-20", "minimum": "-1e9999999", "maximum": 10**5000}, 18),
        ({"multipleOf": 0.05, "minimum": 10**5000}, 2),
    ],
)
def test_steps_and_bounds_of_any_size(keywords: dict[str, Any], scale: int) -> None:
    schema = {"properties": {"c": {"type": "number", **keywords}}}
    assert parse_schema("s", schema)[0].type == FieldType(Kind.DECIMAL, 38, scale)


def test_a_decimal_that_comes_as_text() -> None:
    assert column({"type": "string", "format": "singer.decimal"}).text
    assert not column({"type": "number", "multipleOf": 1}).text


def test_required_fields() -> None:
    fields = parse_schema(
        "s",
        {
            "properties": {
                "key": {"type": ["null", "integer"]},
                "must": {"type": "string"},
                "may": {"type": ["null", "string"]},
                "free": {"type": "string"},
            },
            "required": ["must", "may"],
        },
        ["key"],
    )
    assert [f.name for f in fields if f.required] == ["key", "must"]


def test_records_behind_references_and_branches() -> None:
    record = {"type": "object", "properties": {"a": {"type": "string"}}}
    behind = {"$ref": "#/definitions/r", "definitions": {"r": record}}
    both = {"allOf": [record, {"properties": {"b": {"type": "integer"}}}]}
    assert [f.name for f in parse_schema("s", behind)] == ["a"]
    assert [f.name for f in parse_schema("s", both)] == ["a", "b"]
    assert parse_schema("s", {"type": "object"}) == ()


def test_many_columns_with_any_names() -> None:
    names = [f"c.{i} `;{{}}()='\"é\n" for i in range(10_000)]
    fields = parse_schema("s", {"properties": {n: {"type": "integer"} for n in names}})
    assert [f.name for f in fields] == names


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"": {}}}, "empty name"),
        ({"properties": {"c": {"type": 5}}}, "column 'c' of stream 's'"),
        ({"properties": {"c": 5}}, "column 'c' of stream 's' is not an object"),
        ({"properties": {"c": {"properties": {"d": {"type": 5}}}}}, r"column 'c\.d'"),
        ({"properties": {"c": {"anyOf": {}}}}, "`anyOf` that is not a list"),
        ({"properties": {"c": {"$ref": "#/no"}}}, "does not exist"),
        ({"properties": {"c": {"$ref": "other.json#/x"}}}, "not a part of it"),
        ({"properties": {"c": {"type": "number", "x-precision": 39}}}, "39 digits"),
        ({"properties": {"c": {"type": "number", "x-precision": 3, "x-scale": 4}}}, "scale 4"),
        ({"properties": {"c": {"type": "number", "multipleOf": 0}}}, "above zero"),
        ({"properties": 5}, "stream 's' has `properties`"),
        ({"properties": {1: {}}}, "stream 's' has a property whose name is no Unicode text"),
        ({"properties": {"\ud800": {}}}, "stream 's' has a property whose name"),
        ({"properties": {"c": {"properties": {"\udc00": {}}}}}, "column 'c' .* whose name is no"),
        ([], "is not an object"),
    ],
)
def test_schemas_that_are_refused(schema: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_schema("s", schema)
    assert caught.value.hint


def test_references_that_multiply_are_cut() -> None:
    definitions: dict[str, Any] = {
        f"d{i}": {"anyOf": [{"$ref": f"#/definitions/d{i + 1}"}] * 10} for i in range(20)
    }
    definitions["d20"] = {"type": "string"}
    with pytest.raises(InputError, match="parts"):
        parse_schema(
            "s", {"properties": {"c": {"$ref": "#/definitions/d0"}}, "definitions": definitions}
        )


def test_deep_schemas_end_in_json_text() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(150):
        schema = {"type": "object", "properties": {"x": schema}}
    found = column(schema)
    while found.kind is Kind.STRUCT:
        found = found.fields[0].type
    assert found.kind is Kind.JSON


@pytest.mark.parametrize(
    ("others", "opened"),
    [
        ({}, False),
        ({"additionalProperties": False}, False),
        ({"additionalProperties": None}, False),
        ({"additionalProperties": True}, True),
        ({"additionalProperties": {}}, True),
        ({"additionalProperties": {"type": "string"}}, True),
        ({"patternProperties": {"^x": {}}}, True),
        ({"anyOf": [{"additionalProperties": True, "properties": {"b": {}}}, {}]}, True),
    ],
)
def test_objects_that_allow_other_members(others: Any, opened: bool) -> None:
    found = column({"type": "object", "properties": {"a": {"type": "integer"}}, **others})
    assert (found.fields[0].name, found.rest) == ("a", "additional_properties" if opened else "")
    assert (found.fields[-1].name == found.rest) == opened
