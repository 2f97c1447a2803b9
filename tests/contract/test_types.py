"""One table of types for every destination, value by value."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.conftest import Land
from tests.contract.targets import INTEGER, Target, records, schema, singer

TS = pa.timestamp("us", "UTC")

# JSON schema of the column, Arrow type, values as they come, values as they land
TYPES: dict[str, tuple[Any, pa.DataType, list[Any], list[Any]]] = {
    "string": (
        {"type": ["null", "string"]},
        pa.string(),
        ["", "a", 'q"uo,te\n', "Zürich ☃", None],
        ["", "a", 'q"uo,te\n', "Zürich ☃", None],
    ),
    "integer": (
        {"type": ["integer", "null"]},
        pa.int64(),
        [9007199254740993, None, -9223372036854775808, 9223372036854775807, 0],
        [9007199254740993, None, -9223372036854775808, 9223372036854775807, 0],
    ),
    "number": (
        {"type": "number"},
        pa.float64(),
        [0.1, -1e300, 5, None, 2.5e-308],
        [0.1, -1e300, 5.0, None, 2.5e-308],
    ),
    "boolean": (
        {"type": ["null", "boolean"]},
        pa.bool_(),
        [True, False, None],
        [True, False, None],
    ),
    "datetime": (
        {"type": ["null", "string"], "format": "date-time"},
        TS,
        [
            "2024-03-04T15:30:45.123456+02:00",
            "2024-03-04T15:30:45Z",
            "2024-03-04T15:30:45",
            "1900-01-01T00:00:00-11:30",
            None,
        ],
        [
            datetime(2024, 3, 4, 13, 30, 45, 123456, tzinfo=UTC),
            datetime(2024, 3, 4, 15, 30, 45, tzinfo=UTC),
            datetime(2024, 3, 4, 15, 30, 45, tzinfo=UTC),
            datetime(1900, 1, 1, 11, 30, tzinfo=UTC),
            None,
        ],
    ),
    "datetime in anyOf": (
        {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        TS,
        ["2024-03-04T15:30:45Z", None],
        [datetime(2024, 3, 4, 15, 30, 45, tzinfo=UTC), None],
    ),
    "date": (
        {"type": ["null", "string"], "format": "date"},
        pa.date32(),
        ["2024-02-29", "0001-01-01", "9999-12-31", None],
        [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), None],
    ),
    "time and uuid": (
        {"type": "string", "format": "time"},
        pa.string(),
        ["15:30:45+02:00", None],
        ["15:30:45+02:00", None],
    ),
    "decimal": (
        {"type": ["null", "number"], "multipleOf": 0.01},
        pa.decimal128(38, 2),
        [0.1, 12345678901234567.89, -5, None],
        [Decimal("0.10"), Decimal("12345678901234567.89"), Decimal("-5.00"), None],
    ),
    "decimal text": (
        {"type": ["null", "string"], "format": "singer.decimal", "precision": 38, "scale": 10},
        pa.decimal128(38, 10),
        ["1234567890123456789012345678.0123456789", None],
        [Decimal("1234567890123456789012345678.0123456789"), None],
    ),
    "no value at all": ({"type": ["null", "integer"]}, pa.int64(), [None, None], [None, None]),
}


def lines(column: Any, values: list[Any]) -> bytes:
    rows = [{"id": i, "value": value} for i, value in enumerate(values)]
    return singer(schema("t", {"id": INTEGER, "value": column}), *records("t", rows))


def exact(text: bytes) -> bytes:
    """A float's digits beyond a double's reach the product as text, not through json.dumps."""
    return text.replace(b"1.2345678901234568e+16", b"12345678901234567.89")


def test_declared_types_and_each_of_their_values(target: Target, land: Land) -> None:
    columns = {name.replace(" ", "_"): case for name, case in TYPES.items()}
    rows: list[dict[str, Any]] = [
        {"id": i, **{name: case[2][i] for name, case in columns.items() if i < len(case[2])}}
        for i in range(max(len(case[2]) for case in columns.values()))
    ]
    properties = {"id": INTEGER, **{name: case[0] for name, case in columns.items()}}
    land(exact(singer(schema("t", properties), *records("t", rows))))
    found = sorted(target.rows("t"), key=lambda row: int(row["id"]))
    for name, (_, arrow, given, landed) in columns.items():
        values = [row[name] for row in found][: len(given)]
        if target.format != "csv":
            assert target.arrow("t").schema.field(name).type == arrow, name
            assert values == landed, name
        elif arrow == pa.float64():
            assert [None if v is None else float(v) for v in values] == landed, name
        else:
            assert values == [target.expected(value) for value in landed], name


@pytest.mark.before_the_store
def test_nested_values(target: Target, land: Land) -> None:
    properties = {
        "id": INTEGER,
        "tags": {"type": ["null", "array"], "items": {"type": "string"}},
        "place": {
            "type": ["null", "object"],
            "properties": {
                "city": {"type": ["null", "string"]},
                "geo": {"type": "object", "properties": {"lat": {"type": "number"}}},
            },
        },
        "any": {"type": "array"},
        "free": {"properties": {'a"b': {"type": "object"}, "x": {}}},
    }
    rows: list[dict[str, Any]] = [
        {"id": 1, "tags": ["a", "b"], "place": {"city": "Rome", "geo": {"lat": 41.5}}},
        {"id": 2, "tags": [], "place": {"city": None, "geo": None}},
        {"id": 3, "tags": None, "place": None},
        {"id": 4, "any": [1, "x", None, {}], "free": {'a"b': {"a": "1"}, "x": "{}"}},
    ]
    land(singer(schema("t", properties), *records("t", rows)))
    found = sorted(target.rows("t"), key=lambda row: int(row["id"]))
    for row, wanted in zip(found, rows, strict=True):
        for name in ("tags", "place", "any", "free"):
            value = row[name]
            if target.format == "csv":
                value = None if value is None else json.loads(value)
            elif value is not None and name == "any":
                value = [item if item in ("x", None) else json.loads(item) for item in value]
            elif value is not None and name == "free":
                value = {member: json.loads(text) for member, text in value.items()}
            assert value == wanted.get(name)


@pytest.mark.before_the_store
def test_an_object_in_a_string_is_that_object(target: Target, land: Land) -> None:
    properties = {
        "id": INTEGER,
        "free": {"type": ["null", "object"]},
        "place": {"properties": {"city": {"type": "string"}}},
    }
    as_text = {"free": json.dumps({"a": [1]}), "place": json.dumps({"city": "Rome"})}
    rows = [{"id": 1, "free": {"a": [1]}, "place": {"city": "Rome"}}, {"id": 2, **as_text}]
    land(singer(schema("t", properties), *records("t", rows)))
    one, other = sorted(target.rows("t"), key=lambda row: int(row["id"]))
    assert (one["free"], one["place"]) == (other["free"], other["place"])


@pytest.mark.before_the_store
def test_values_of_unknown_type_are_json_text(target: Target, land: Land) -> None:
    anything = [{"b": [1, 2.50, None, "x"]}, "text", 12, True, None]
    columns: dict[str, tuple[Any, list[Any]]] = {
        "no_properties": ({"type": "object"}, [anything[0], {}, None]),
        "mixed": (
            {"type": ["string", "object"], "properties": {"a": {"type": "integer"}}},
            anything,
        ),
        "nothing_said": ({}, anything),
        "unlike": ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, ["text", 12, None]),
    }
    properties = {"id": INTEGER, **{name: column for name, (column, _) in columns.items()}}
    rows: list[dict[str, Any]] = [
        {"id": i, **{name: v[i] for name, (_, v) in columns.items() if i < len(v)}}
        for i in range(len(anything))
    ]
    land(singer(schema("t", properties), *records("t", rows)))
    found = sorted(target.rows("t"), key=lambda row: int(row["id"]))
    for name, (_, values) in columns.items():
        texts = [row[name] for row in found][: len(values)]
        assert [None if text is None else json.loads(text) for text in texts] == values, name


@pytest.mark.before_the_store
def test_binary_comes_from_base64(target: Target, land: Land) -> None:
    column = {"type": ["null", "string"], "contentEncoding": "base64"}
    land(lines(column, ["AAECAw==", "", None]))
    found = [r["value"] for r in sorted(target.rows("t"), key=lambda r: int(r["id"]))]
    expected = (
        ["AAECAw==", "", None] if target.format == "csv" else [b"\x00\x01\x02\x03", b"", None]
    )
    assert found == expected


@pytest.mark.before_the_store
def test_references_and_enums(target: Target, land: Land) -> None:
    message = schema("t", {"id": {"$ref": "#/definitions/whole"}, "kind": {"enum": ["a", "b"]}})
    message["schema"]["definitions"] = {"whole": {"type": "integer"}}
    land(singer(message, *records("t", [{"id": 1, "kind": "a"}])))
    (row,) = target.rows("t")
    assert (row["id"], row["kind"]) == (target.expected(1), "a")
    if target.format != "csv":
        assert target.arrow("t").schema.field("id").type == pa.int64()


@pytest.mark.before_the_store
def test_the_internal_columns(target: Target, land: Land) -> None:
    before = datetime.now(UTC)
    land(singer(schema("t", {"id": INTEGER}), *records("t", [{"id": 1}])))
    (row,) = target.rows("t")
    assert list(row) == ["id", "_mage_created_at", "_mage_updated_at"]
    for name in list(row)[1:]:
        value = row[name]
        if target.format == "csv":
            assert value.endswith("+00:00")
            assert len(value) == len("2024-03-04T15:30:45.123456+00:00")
            value = datetime.fromisoformat(value)
        assert before <= value <= datetime.now(UTC)


@pytest.mark.before_the_store
def test_internal_columns_can_be_left_out_or_named_otherwise(target: Target, land: Land) -> None:
    text = singer(schema("t", {"id": INTEGER}), *records("t", [{"id": 1}]))
    land(text, table="bare", internal_columns=False)
    land(text, table="named", internal_columns_prefix="_lp_")
    assert list(target.rows("bare")[0]) == ["id"]
    assert list(target.rows("named")[0]) == ["id", "_lp_created_at", "_lp_updated_at"]


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("case", "name", "header"),
    [("lower", "userId", "userid"), ("upper", "userId", "USERID"), ("snake", "User Id", "user_id")],
)
def test_header_case(target: Target, land: Land, case: str, name: str, header: str) -> None:
    text = singer(schema("t", {name: INTEGER}), *records("t", [{name: 1}]))
    land(text, column_header_format=case)
    names = [header, "_mage_created_at", "_mage_updated_at"]
    assert list(target.rows("t")[0]) == [n.upper() if case == "upper" else n for n in names]


@pytest.mark.spark
@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "names",
    [["a.b", 'q"uote', "back`tick", "Ünïcode", "ключ", "hy-phen"], ["sp ace", "semi;colon"]],
    ids=["that Delta takes", "that Delta maps"],
)
def test_awkward_column_names(target: Target, land: Land, names: list[str]) -> None:
    columns = {name: {"type": "integer"} for name in names}
    row = {"id": 1, **{name: 7 + i for i, name in enumerate(names)}}
    land(singer(schema("t", {"id": INTEGER, **columns}), *records("t", [row])))
    for i, name in enumerate(names):
        if target.format == "delta" and "sp ace" in names:
            found = _mapped_values(target, name)
        else:
            found = [row[name] for row in target.rows("t")]
        assert [int(value) for value in found] == [7 + i], name


def _mapped_values(target: Target, name: str) -> list[Any]:
    """Delta keeps such a name in the schema and another one in the files (column mapping)."""
    fields = json.loads(target.delta("t").schema().to_json())["fields"]
    (physical,) = [
        f["metadata"]["delta.columnMapping.physicalName"] for f in fields if f["name"] == name
    ]
    (key,) = [k for k in target.files.keys() if k.endswith(".parquet")]  # noqa: SIM118
    return list(pq.read_table(io.BytesIO(target.files.read(key))).column(physical).to_pylist())
