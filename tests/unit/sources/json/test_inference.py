"""Types from values."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from lakeport.schema.types import (
    TIMESTAMP,
    FieldType,
    Kind,
    kind_to_arrow_type,
    merge_fields,
    merge_kinds,
    to_arrow_type,
)
from lakeport.sources.json.inference import infer_fields
from lakeport.sources.json.record import JsonDecoder, classify_value

pytestmark = pytest.mark.usefixtures("fast_path")

KINDS = ["null", "boolean", "integer", "number", "string", "json"]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"null", "null"),
        (b"false", "boolean"),
        (b"-9223372036854775808", "integer"),
        (b"9223372036854775808", "string"),
        (b"9" * 5000, "string"),
        (b"1.0", "number"),
        (b"1e400", "string"),
        (b' "a"', "string"),
        (b"{}", "json"),
        (b"[1]", "json"),
    ],
)
def test_kinds_of_values(raw: bytes, kind: str) -> None:
    assert classify_value(JsonDecoder().decode(raw)) == kind


def test_kinds_merge_in_any_order() -> None:
    for a, b, c in itertools.product(KINDS, repeat=3):
        assert merge_kinds(a, b) == merge_kinds(b, a)
        assert merge_kinds(merge_kinds(a, b), c) == merge_kinds(a, merge_kinds(b, c))
        assert merge_kinds(a, a) == a
    assert merge_kinds("boolean", "integer") == "string"
    assert merge_kinds("string", "json") == "json"


def test_types_of_kinds() -> None:
    assert [kind_to_arrow_type(k) for k in KINDS] == [
        pa.string(),
        pa.bool_(),
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.string(),
    ]


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ([1, None, 3], pa.int64()),
        ([1, 2.5], pa.float64()),
        ([2**53 + 1], pa.int64()),
        ([True, False], pa.bool_()),
        (["2024-01-01", None, "2024-02-29"], pa.date32()),
        (["2024-01-01", "2024-01-01T00:00:00Z"], TIMESTAMP),
        (["2024-01-01T00:00:00Z", "2024-01-01"], TIMESTAMP),
        (["2024-01-01T10:00:00.1234567+02:00"], pa.string()),
        (["2024-01-01", "2024-02-30"], pa.string()),
        (["2024-01-01T10:00", "2024"], pa.string()),
        (["2024-01-01", ""], pa.string()),
        ([["2024-01-01"], ["x"]], pa.list_(pa.string())),
        ([{"x": "2024-01-01T10:00Z"}, {"x": None}], pa.struct([("x", TIMESTAMP)])),
        ([None], pa.string()),
        ([[1], [], [2.5]], pa.list_(pa.float64())),
        ([[]], pa.list_(pa.string())),
        ([[None, 1]], pa.list_(pa.int64())),
        ([{"x": 1}, {"y": "a"}], pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ([{"x": {"y": [1]}}], pa.struct([("x", pa.struct([("y", pa.list_(pa.int64()))]))])),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_types_of_columns(values: list[Any], stored: pa.DataType, together: bool) -> None:
    lines = [json.dumps({"c": v}).encode() for v in values]
    fields = infer_fields([b"\n".join(lines)] if together else lines)
    assert [(f.name, to_arrow_type(f.type)) for f in fields] == [("c", stored)]
    assert all(f.type.kind is not Kind.JSON for f in fields)


@pytest.mark.parametrize(
    "values",
    [
        [1, "a"],
        [True, 1],
        [[1], {"a": 1}],
        [2**64],
        [2**53 + 1, 0.5],
        [{"A": 1, "a": 2}],
        [{"A": 1}, {"a": 2}],
        [{"": 1}],
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_columns_that_become_json_text(values: list[Any], together: bool) -> None:
    lines = [json.dumps({"c": v}).encode() for v in values]
    fields = infer_fields([b"\n".join(lines)] if together else lines)
    assert [f.type for f in fields] == [FieldType(Kind.JSON)]


def test_parts_of_a_source_merge() -> None:
    one = infer_fields([b'{"a": null, "b": 1}'])
    other = infer_fields([b'{"c": true, "a": "x"}'])
    merged = merge_fields(one, other)
    assert [(f.name, f.type.kind) for f in merged] == [
        ("a", Kind.STRING),
        ("b", Kind.INTEGER),
        ("c", Kind.BOOLEAN),
    ]
    assert merge_fields((), one) == one == infer_fields([b'{"a": null, "b": 1}', b""])


def test_broken_lines_are_left_to_the_reader() -> None:
    block = b'{"a": 1}\nnot json\n[1]\nnull\n{"a": 2, "": 3}\n{"b": ' + b"[" * 10_000
    assert [f.name for f in infer_fields([block, b"", b"null", b"\n"])] == ["a"]


def test_deep_values_end_in_json_text() -> None:
    fields = infer_fields([b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}"])
    found: FieldType | None = fields[0].type
    while found is not None and found.kind is Kind.LIST:
        found = found.item
    assert found == FieldType(Kind.JSON)
