"""Section 7: modes and schema evolution."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import ConfigError, SchemaConflict
from tests.mage.conftest import Make, Place, record, schema

INTEGER = {"type": ["null", "integer"]}
STRING = {"type": ["null", "string"]}
TWO = schema({"id": INTEGER, "country": STRING})
THREE = schema({"id": INTEGER, "country": STRING, "city": STRING})


@pytest.mark.parametrize("destination", ["delta_lake_s3", "delta_lake_azure"])
def test_append_evolves_and_overwrite_is_one_for_a_run(make: Make, destination: str) -> None:
    place = make(destination)
    place.land(TWO, record(id=1, country="NL"), record(id=2))
    assert place.table().version() == 0
    place.land(THREE, record(id=3, city="Delft"))
    assert place.rows("id", "city") == [(1, None), (2, None), (3, "Delft")]
    with pytest.raises(SchemaConflict, match="'more'"):
        place.land(schema({"id": INTEGER, "more": STRING}), record(id=4), schema_evolution="strict")
    before = place.table().version()
    place.land(
        TWO, *[record(id=i, country="DE") for i in range(6)], mode="overwrite", maximum_batch_rows=2
    )
    assert place.table().version() == before + 1
    assert [row[0] for row in place.rows("id")] == [0, 1, 2, 3, 4, 5]
    old = place.table()
    old.load_as_version(before)
    assert len(old.to_pyarrow_table()) == 3


@pytest.mark.parametrize("destination", ["delta_lake_s3", "delta_lake_azure"])
def test_overwrite_with_partition_keys_replaces_those_partitions_alone(
    make: Make, destination: str
) -> None:
    place = make(destination)
    keys: dict[str, Any] = {"mode": "overwrite", "partition_keys": ["country"]}
    place.land(TWO, record(id=1, country="NL"), record(id=2, country="DE"), **keys)
    log = [key for key in place.files.keys() if "_delta_log/0" in key]  # noqa: SIM118
    written = {key: place.files.read(key) for key in log}
    place.land(TWO, record(id=3, country="NL"), **keys)
    assert place.rows("id", "country") == [(2, "DE"), (3, "NL")]
    assert {key: place.files.read(key) for key in log} == written
    with pytest.raises(SchemaConflict, match="partition"):
        place.land(THREE, record(id=4, city="x"), mode="append", partition_keys=["city"])
    place.land(TWO, record(id=5, country="NL"), mode="append")
    filtered = place.table().to_pyarrow_table(filters=[("country", "=", "NL")])
    assert sorted(filtered["id"].to_pylist()) == [3, 5]


def test_calls_of_one_run_overwrite_once(delta: Place) -> None:
    delta.land(TWO, record(id=9))
    made = delta.made(mode="overwrite")
    made.export_batch_data([{"id": 1}], "users")
    made.export_batch_data([{"id": 2}], "users")
    made.export_batch_data([{"id": 3}], "of the same table")
    assert delta.rows("id") == [(1,), (2,), (3,)]
    by_id = {"stream": "users", "schema": {"properties": {"id": {"type": "integer"}}}}
    for keys in (
        {"partition_keys": ["id"]},
        {"catalog": {"streams": [{**by_id, "partition_keys": ["id"]}]}},
    ):
        made = delta.made(mode="overwrite", **keys)
        made._overwritten.add("users")
        with pytest.raises(ConfigError, match="once a run"):
            made.export_batch_data([{"id": 2}], "users")


def test_a_table_leaves_its_neighbours_and_the_process_alone(delta: Place) -> None:
    """Neither `user_events` beside `user` nor the environment; times are in milliseconds."""
    _ = DriverSession.acquire(
        SessionRequest({"delta", "s3a", "azure"})
    ).context  # Spark sets its own
    environ = dict(os.environ)
    delta.land(TWO, record(id=1), table="users_events")
    neighbours = delta.files.keys()
    before = time.time() * 1000
    delta.land(TWO, record(id=2), mode="overwrite", aws_region="eu-west-1")
    assert set(neighbours) <= set(delta.files.keys())
    assert dict(os.environ) == environ
    log = delta.files.read("raw/users/_delta_log/00000000000000000000.json").splitlines()
    (added,) = [action["add"] for action in map(json.loads, log) if "add" in action]
    assert before - 60_000 < added["modificationTime"] < time.time() * 1000 + 60_000
    wrong = schema({"id": {"type": ["null", "object"], "properties": {"a": INTEGER}}})
    with pytest.raises(SchemaConflict) as caught:
        delta.land(wrong, record(id={"a": 1}))
    told = caught.value.message
    assert "'id'" in told and told.index("integer") != told.index("object")


@pytest.mark.parametrize(("mode", "named"), [("overwite", "`overwrite`"), ("ignore", "append")])
def test_other_modes_are_refused(delta: Place, mode: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        delta.land(TWO, record(id=1), mode=mode)
    assert named in caught.value.message
    assert delta.files.keys() == []
