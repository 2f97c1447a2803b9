"""Schema text: what was there stays, new columns get ids where names are mapped; planned tables."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from lakeport.delta_log.state import (
    TableState,
    file_schema,
    grow_schema,
    needs_mapping,
    physical_names,
)
from lakeport.errors import ConfigError, SchemaConflict
from lakeport.writers.delta.plain import leaves_plain
from lakeport.writers.delta.plan import TableRequest, plan_table

NESTED = pa.schema(
    [
        ("a b", pa.int64()),
        ("s", pa.struct([("x", pa.string()), ("l", pa.list_(pa.struct([("y;z", pa.int64())])))])),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int64())]))),
    ]
)


def state(schema: pa.Schema, *, protocol: dict[str, Any] | None = None, **more: Any) -> TableState:
    text = json.dumps(more.pop("schema_json", None) or grow_schema(None, schema))
    return TableState(
        3,
        {"schemaString": text, "partitionColumns": [], "configuration": {}, **more},
        protocol or {"minReaderVersion": 1, "minWriterVersion": 2},
    )


def test_names_that_need_mapping_are_found_at_every_depth() -> None:
    assert needs_mapping(NESTED) == ("a b", "s.l.y;z")
    assert needs_mapping(pa.schema([("a.b`\"'é🦀/\\", pa.int64())])) == ()


def test_mapped_columns_keep_ids_and_new_ones_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count(1)
    monkeypatch.setattr("uuid.uuid4", lambda: next(numbers))
    first = grow_schema(None, NESTED, mapped=True)
    wider = NESTED.append(pa.field("n", pa.int64()))
    grown = grow_schema(first, wider, mapped=True, highest_id=40)
    assert grown["fields"][:3] == first["fields"]
    assert grown["fields"][3]["metadata"] == {
        "delta.columnMapping.id": 41,
        "delta.columnMapping.physicalName": "col-8",
    }
    files = file_schema(grown, wider, without=["a b"])
    assert files.names == ["col-2", "col-6", "col-8"]
    assert files.field("col-2").metadata == {b"PARQUET:field_id": b"2"}
    assert files.field("col-2").type.field(1).type.value_type.field(0).name == "col-5"
    assert physical_names(grown, ["a b"]) == {"a b": "col-1"}


def test_what_a_table_says_about_its_columns_stays() -> None:
    known = grow_schema(None, pa.schema([("id", pa.int64())]))
    known["fields"][0]["metadata"] = {"comment": "key"}
    known["fields"][0]["nullable"] = False
    grown = grow_schema(known, pa.schema([("id", pa.int64()), ("n", pa.int8())]))
    assert grown["fields"][0] == known["fields"][0]
    assert grow_schema(known, pa.schema([("id", pa.string())]))["fields"][0]["metadata"] == {}


def test_new_tables_get_defaults_that_can_be_overridden() -> None:
    plan = plan_table(None, NESTED.remove(0), TableRequest(properties={"delta.appendOnly": "true"}))
    assert plan.properties["delta.enableDeletionVectors"] == "false"
    assert plan.properties["delta.appendOnly"] == "true"
    assert plan.properties["delta.columnMapping.mode"] == "name"
    assert "column mapping" in plan.warnings[0]


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("delta.enableDeletionVectors", "true", False),
        ("delta.checkpointPolicy", "v2", False),
        ("delta.checkpointInterval", "7", True),
        ("delta.appendOnly", "true", True),
    ],
)
def test_new_tables_that_take_a_feature_are_not_plain(name: str, value: str, left: bool) -> None:
    request = TableRequest(properties={name: value})
    assert leaves_plain(plan_table(None, pa.schema([("id", pa.int64())]), request)) is left


def test_partition_columns_are_checked() -> None:
    schema = pa.schema([("a", pa.string()), ("f", pa.float64())])
    twice = TableRequest(partition_keys=("A", "a"))
    assert plan_table(None, schema, twice).partition_columns == ("a",)
    for keys, match in ((["x"], "'x'"), (["f"], "'f'"), (["a", "f"], "'f'")):
        with pytest.raises(ConfigError, match=match):
            plan_table(None, schema, TableRequest(partition_keys=tuple(keys)))
    with pytest.raises(ConfigError, match="every column"):
        plan_table(None, pa.schema([("a", pa.string())]), TableRequest(partition_keys=("a",)))
    with pytest.raises(SchemaConflict, match="nothing, the batch by"):
        plan_table(state(schema), schema, TableRequest(partition_keys=("a",)))


def test_existing_tables_without_mapping_refuse_such_names() -> None:
    base = state(pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaConflict, match="'a b'"):
        plan_table(base, pa.schema([("a b", pa.int64())]))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"configuration": {"delta.constraints.c": "id > 0"}}, "delta.constraints.c"),
        ({"configuration": {"delta.columnMapping.mode": "id"}}, "column mapping by id"),
        ({"configuration": {"delta.enableIcebergCompatV2": "true"}}, "Iceberg compatibility"),
        ({"configuration": {"delta.enableRowTracking": "true"}}, "row tracking"),
        (
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["newThing"],
                    "writerFeatures": ["newThing", "appendOnly"],
                }
            },
            "newThing",
        ),
    ],
)
def test_tables_that_only_spark_can_write(more: dict[str, Any], reason: str) -> None:
    assert state(pa.schema([("id", pa.int64())]), **more).needs_spark == (reason,)


def test_rules_of_columns_need_spark() -> None:
    plain = grow_schema(None, pa.schema([("id", pa.int64())]))
    assert state(pa.schema([]), schema_json=plain).needs_spark == ()
    plain["fields"][0]["nullable"] = False
    plain["fields"][0]["metadata"] = {"delta.generationExpression": "1"}
    assert len(state(pa.schema([]), schema_json=plain).needs_spark) == 2
