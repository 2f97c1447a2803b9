"""How a table and its schema are planned: properties, features, partitions, mapped names."""

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
from lakeport.model import Mode
from lakeport.writers.delta.plain import feature_notes, lacking_readers, leaves_plain
from lakeport.writers.delta.plan import DEFAULT_PROPERTIES, TableRequest, plan_table
from tests.unit.writers.delta.support import SCHEMA, contents

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


def test_clustering_and_properties_are_checked_before_anything_is_written() -> None:
    asked = {"delta.checkpointInterval": "50"}
    plan = plan_table(None, SCHEMA, TableRequest(cluster_by=("ID",), properties=asked))
    assert plan.cluster_by == ("id",)
    assert plan.properties == {
        **DEFAULT_PROPERTIES,
        "delta.checkpointInterval": "50",
        "delta.feature.clustering": "supported",
    }
    with pytest.raises(ConfigError, match=r"no column 'x' to cluster by\n"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("x",)))
    with pytest.raises(ConfigError, match=r"no column 'idd' to cluster by; did you mean 'id'\?"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("idd",)))
    with pytest.raises(ConfigError, match="can't be clustered"):
        plan_table(None, SCHEMA, TableRequest(cluster_by=("id",), partition_keys=("p",)))
    with pytest.raises(ConfigError, match="by which no table can be clustered"):
        plan_table(None, pa.schema([("a", pa.list_(pa.int64()))]), TableRequest(cluster_by=("a",)))
    wide = pa.schema([(f"c{n}", pa.int64()) for n in range(40)])
    with pytest.raises(ConfigError, match="first 32"):
        plan_table(None, wide, TableRequest(cluster_by=("c35",)))

    known = contents([], keys=()).state
    with pytest.raises(SchemaConflict, match=r"not clustered, and `cluster_by` names \(id\)"):
        plan_table(known, SCHEMA, TableRequest(cluster_by=("id",)))
    assert not plan_table(known, SCHEMA).metadata_changes
    changed = plan_table(known, SCHEMA, TableRequest(properties={"delta.appendOnly": "true"}))
    assert changed.metadata_changes
    assert changed.properties == {"delta.appendOnly": "true"}
    clustered = TableState(
        3,
        {**known.metadata, "configuration": {}},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering"]},
        ("id",),
    )
    properties = {"delta.feature.clustering": "supported", "delta.minWriterVersion": "7"}
    same = plan_table(clustered, SCHEMA, TableRequest(cluster_by=("id",), properties=properties))
    assert (same.metadata_changes, same.cluster_by) == (False, ())
    with pytest.raises(SchemaConflict, match="lacks 'id', by which the table is clustered"):
        plan_table(clustered, SCHEMA.remove(0), TableRequest(mode=Mode.OVERWRITE))
    with pytest.raises(ConfigError, match="columnMapping"):
        plan_table(known, SCHEMA, TableRequest(properties={"delta.columnMapping.mode": "name"}))


def test_features_are_told_when_they_are_new() -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors", "someday"],
        "writerFeatures": ["deletionVectors", "clustering", "someday"],
    }
    assert lacking_readers(protocol)["someday"] == ("most others",)
    assert len(feature_notes((), protocol)) == 3
    assert feature_notes(["deletionVectors", "clustering", "someday"], protocol) == ()
    assert feature_notes((), {}) == ()
