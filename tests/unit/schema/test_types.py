"""Types: how they are stored, cast, and written for Spark."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lakeport.errors import InputError, SchemaConflict, SourceError
from lakeport.schema.casting import cast_batch, normalise_schema
from lakeport.schema.spark_schema import from_spark_json, to_spark_json
from lakeport.schema.types import (
    TIMESTAMP,
    Field,
    FieldType,
    Kind,
    check_column_names,
    to_arrow_type,
)

EVERY_TYPE = pa.schema(
    [
        ("a b.c`é", pa.string()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", TIMESTAMP),
        ("money", pa.decimal128(38, 18)),
        ("bytes", pa.binary()),
        ("list", pa.list_(pa.list_(pa.string()))),
        ("object", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", TIMESTAMP)]))])),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)


def cast(array: Any, target: Any = None) -> Any:
    batch = pa.RecordBatch.from_arrays([array], names=["c"])
    schema = normalise_schema(batch.schema) if target is None else pa.schema([("c", target)])
    result = cast_batch(batch, schema)
    result.validate(full=True)
    assert result.schema == schema
    return result.column(0)


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        (FieldType(Kind.STRING), pa.string()),
        (FieldType(Kind.INTEGER), pa.int64()),
        (FieldType(Kind.NUMBER), pa.float64()),
        (FieldType(Kind.BOOLEAN), pa.bool_()),
        (FieldType(Kind.TIMESTAMP), pa.timestamp("us", "UTC")),
        (FieldType(Kind.DATE), pa.date32()),
        (FieldType(Kind.DECIMAL, 20, 4), pa.decimal128(20, 4)),
        (FieldType(Kind.BINARY), pa.binary()),
        (FieldType(Kind.JSON), pa.string()),
        (FieldType(Kind.NULL), pa.string()),
        (FieldType(Kind.LIST), pa.list_(pa.string())),
        (FieldType(Kind.STRUCT), pa.string()),
        (
            FieldType(Kind.STRUCT, fields=(Field("x", FieldType(Kind.INTEGER)),)),
            pa.struct([("x", pa.int64())]),
        ),
    ],
)
def test_storage_types(declared: FieldType, stored: pa.DataType) -> None:
    assert to_arrow_type(declared) == stored
    assert pickle.loads(pickle.dumps(declared)) == declared


def test_spark_json_is_what_spark_writes() -> None:
    text = to_spark_json(EVERY_TYPE)
    assert json.loads(StructType.fromJson(json.loads(text)).json()) == json.loads(text)
    assert from_spark_json(text) == EVERY_TYPE
    assert text.startswith('{"type":"struct","fields":[{"name":"a b.c`é","type":"string",')


def test_spark_json_of_other_writers() -> None:
    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": False, "metadata": {"comment": "x"}}

    text = json.dumps(
        {"type": "struct", "fields": [field("n", "timestamp_ntz"), field("v", "varchar(9)")]}
    )
    assert from_spark_json(text) == pa.schema([("n", pa.timestamp("us")), ("v", pa.string())])
    with pytest.raises(SchemaConflict, match=r"'o\.v' of the table has type variant"):
        inner = {"type": "struct", "fields": [field("v", "variant")]}
        from_spark_json(json.dumps({"type": "struct", "fields": [field("o", inner)]}))
    with pytest.raises(SchemaConflict, match="'t' has type"):
        to_spark_json(pa.schema([("t", pa.time32("s"))]))


@pytest.mark.parametrize(
    ("array", "stored", "values"),
    [
        (pa.array([255], pa.uint8()), pa.int16(), [255]),
        (pa.array([65535], pa.uint16()), pa.int32(), [65535]),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([1.5, None], pa.float16()), pa.float32(), [1.5, None]),
        (pa.array([dt.date(2024, 2, 29)], pa.date64()), pa.date32(), [dt.date(2024, 2, 29)]),
        (pa.array(["a", None]).dictionary_encode(), pa.string(), ["a", None]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.array(["a"], pa.string_view()), pa.string(), ["a"]),
        (pa.array([b"a"], pa.large_binary()), pa.binary(), [b"a"]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
        (pa.array([dt.time(1, 2, 3)], pa.time32("s")), pa.string(), ["01:02:03"]),
        (pa.nulls(2), pa.string(), [None, None]),
        (pa.array([[1], None, [], [2]], pa.list_view(pa.uint8())), None, [[1], None, [], [2]]),
        (pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)), None, [[1, 2], None]),
        (pa.array([[1], None, [2]], pa.large_list(pa.uint8())).slice(1), None, [None, [2]]),
        (pa.array([[("k", 1)], None], pa.map_("string", "uint8")), None, [[("k", 1)], None]),
        (pa.array([{"x": 1}, None], pa.struct([("x", pa.uint8())])), None, [{"x": 1}, None]),
        (pa.array([uuid.UUID(int=7).bytes, None], pa.uuid()), None, [str(uuid.UUID(int=7)), None]),
        (pa.array([Decimal("1.5")], pa.decimal256(38, 2)), pa.decimal128(38, 2), [Decimal("1.5")]),
    ],
)
def test_normalised_casts(array: Any, stored: Any, values: list[Any]) -> None:
    result = cast(array)
    assert result.to_pylist() == values
    assert stored is None or result.type == stored


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "+05:30"])
def test_timestamps_keep_their_instant(unit: str, zone: str | None) -> None:
    result = cast(pa.array([0, None, 864_000], pa.timestamp(unit, zone)))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert result.type == TIMESTAMP
    assert result.cast(pa.int64()).to_pylist() == [0, None, 864_000 * 10**6 // per_second]


@pytest.mark.parametrize(
    ("array", "target", "words"),
    [
        (pa.array([1], pa.timestamp("ns")), None, "without losing digits"),
        (pa.array([2**40], pa.timestamp("s")), None, "years 1 to 9999"),
        (pa.array([[2**40]], pa.list_(pa.timestamp("s"))), None, "years 1 to 9999"),
        (pa.array([3_000_000], pa.date32()), None, "years 1 to 9999"),
        (pa.array([300]), pa.int8(), "without losing digits"),
        (pa.array([2**53 + 1]), pa.float64(), "without losing digits"),
        (pa.array([0.1]), pa.float32(), "without losing digits"),
        (pa.array([1.5]), pa.int64(), "without losing digits"),
        (pa.array([12345]), pa.decimal128(5, 2), "without losing digits"),
        (pa.array([Decimal("1.25")]), pa.decimal128(5, 1), "without losing digits"),
        (pa.array(["1"]), pa.int64(), "can't become"),
        (pa.array([1]), pa.string(), "can't become"),
        (pa.array([{"x": 1}]), pa.struct([("y", pa.int64())]), "member 'x'"),
        (pa.array([1], pa.duration("s")), None, "tables don't have"),
    ],
)
def test_nothing_is_lost_silently(array: Any, target: Any, words: str) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        cast(array, target)
    assert "column 'c" in caught.value.message


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([5], pa.int8()), pa.int64()),
        (pa.array([5], pa.int64()), pa.decimal128(5, 2)),
        (pa.array([2**53]), pa.float64()),
        (pa.array([0.5, float("inf"), None]), pa.float32()),
        (pa.array([dt.date(2024, 1, 1)]), TIMESTAMP),
        (pa.array([Decimal("1.5")]), pa.decimal128(38, 5)),
    ],
)
def test_wider_types(array: Any, target: Any) -> None:
    assert cast(array, target).type == target


def test_missing_members_become_null() -> None:
    target = pa.struct([("y", pa.string()), ("x", pa.int64())])
    assert cast(pa.array([{"x": 1}, None]), target).to_pylist() == [{"y": None, "x": 1}, None]


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""]])
def test_clashing_names(names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check_column_names("users", names)
    assert "users" in caught.value.message
    assert all(repr(n) in caught.value.message for n in names if "" not in names)
