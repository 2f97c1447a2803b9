"""Merges into tables that only Spark can honour, and beside other writers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_support import driver, session
from deltalake import DeltaTable

import lakeport
from lakeport.errors import CommitConflict, InputError, SchemaConflict
from lakeport.writers.delta.commit import TableTransaction

MERGE = {"table": "t", "mode": "merge", "merge_keys": "id"}


def rows(path: Path) -> list[tuple[Any, ...]]:
    """id, name and mark of every row, read by Spark."""
    found = session().read.format("delta").load(str(path)).sort("id").collect()
    return [(row["id"], row["name"], row["gone"]) for row in found]


def people(**names: str | None) -> pa.Table:
    ids = [int(key[1:]) for key in names]
    return pa.table(
        {"id": ids, "name": list(names.values()), "gone": pa.nulls(len(ids), pa.bool_())}
    )


def marked(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "name": ["-"] * len(ids), "gone": [True] * len(ids)})


def test_tables_with_rules_are_merged_by_spark(tmp_path: Path) -> None:
    driver()
    path = tmp_path / "t"
    lakeport.land(people(_1="a", _2="b", _3="c"), tmp_path, table="t")
    sql = session().sql
    sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT short CHECK (length(name) < 5)")
    sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    before = DeltaTable(str(path)).version()
    changes = pa.concat_tables([people(_1="x", _4="d"), marked(2, 9), people(_1="y")])
    keys = {**MERGE, "hard_delete": True, "delete_column": "gone", "run_id": "r"}
    report = lakeport.land(changes, tmp_path, **keys)
    assert "Spark wrote this batch itself" in " ".join(report.streams[0].warnings)
    assert rows(path) == [(1, "y", None), (3, "c", None), (4, "d", None)]
    created = session().read.format("delta").load(str(path)).where("id = 1").first()
    assert created["_mage_created_at"] < created["_mage_updated_at"]
    assert lakeport.land(changes, tmp_path, **keys).rows == 0
    feed = (
        session()
        .read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", before + 1)
        .load(str(path))
    )
    kinds = sorted((row["id"], row["_change_type"]) for row in feed.collect())
    assert kinds == [
        (1, "update_postimage"),
        (1, "update_preimage"),
        (2, "delete"),
        (4, "insert"),
    ]
    with pytest.raises(InputError, match="short"):
        lakeport.land(people(_3="far too long"), tmp_path, **MERGE)
    assert rows(path) == [(1, "y", None), (3, "c", None), (4, "d", None)]
    lakeport.land(marked(77), tmp_path, **{**keys, "run_id": None})  # nothing to do
    assert len(rows(path)) == 3


def test_a_merge_that_meets_another_writer_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = TableTransaction
    path = tmp_path / "t"
    lakeport.land(people(_1="a", _2="b"), tmp_path, table="t")
    commit, met = kind.commit, list[str]()

    def late(txn: Any, *arguments: Any) -> int:
        if not met:
            met.append("one")
            lakeport.land(people(_2="other", _3="other"), tmp_path, **MERGE)
        return commit(txn, *arguments)

    monkeypatch.setattr(kind, "commit", late)
    lakeport.land(people(_3="mine", _4="mine"), tmp_path, **MERGE)
    assert rows(path) == [(1, "a", None), (2, "other", None), (3, "mine", None), (4, "mine", None)]
    assert [len(DeltaTable(str(path)).file_uris()), met] == [len(list_files(path)), ["one"]]

    def never(txn: Any, *arguments: Any) -> int:
        raise CommitConflict("another writer was faster")

    monkeypatch.setattr(kind, "commit", never)
    monkeypatch.setattr("lakeport.writers.delta.writer.pause", lambda seconds: None)
    left = sorted(path.rglob("*.parquet"))
    with pytest.raises(CommitConflict):
        lakeport.land(people(_3="late"), tmp_path, **MERGE)
    assert sorted(path.rglob("*.parquet")) == left
    assert list((tmp_path / "_lakeport" / "staging").glob("*")) == []


def list_files(path: Path) -> set[str]:
    """Data files of the last version that are there."""
    named = {Path(uri.removeprefix("file://")) for uri in DeltaTable(str(path)).file_uris()}
    return {str(file) for file in named if file.is_file()}


def test_mapped_columns_old_files_and_checkpoints(tmp_path: Path) -> None:
    first = pa.table({"the id": [1, 2], "tree": [{"a b": 1}, None]})
    at_once = {"delta.checkpointInterval": "1"}
    lakeport.land(first, tmp_path, table="t", table_properties=at_once)
    second = pa.table({"the id": [2, 3], "tree": [{"a b": 5, "c d": "x"}] * 2, "new one": [7, 8]})
    lakeport.land(second, tmp_path, table="t", mode="merge", merge_keys="the id")
    found = session().read.format("delta").load(str(tmp_path / "t")).sort("the id").collect()
    assert [(row["the id"], row["tree"], row["new one"]) for row in found] == [
        (1, (1, None), None),
        (2, (5, "x"), 7),
        (3, (5, "x"), 8),
    ]
    third = pa.table({"the id": [3, 4], "new one": [9, 9]})
    lakeport.land(third, tmp_path, table="t", mode="merge", merge_keys="the id")
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    found = session().read.format("delta").load(str(tmp_path / "t")).sort("the id").collect()
    assert [(row["the id"], row["new one"]) for row in found] == [(1, None), (2, 7), (3, 9), (4, 9)]


@pytest.mark.soak
def test_files_of_other_writers_are_merged_into(tmp_path: Path) -> None:
    path = tmp_path / "t"
    session().sql(
        "SELECT id, CAST(id AS string) name, CAST(NULL AS boolean) gone, "
        "timestamp_seconds(id) at, CAST(id AS decimal(9,2)) d, array(named_struct('x', id)) tree, "
        "map('k', id) m, CAST(id % 3 AS string) part FROM range(100)"
    ).repartition(12).write.format("delta").partitionBy("part").save(str(path))
    before = len(DeltaTable(str(path)).file_uris())
    names = {f"_{i}": f"n{i}" for i in (*range(0, 100, 2), 200)}
    lakeport.land(people(**names), tmp_path, **MERGE)
    frame = session().read.format("delta").load(str(path))
    assert before > 4 * driver().cores
    assert frame.select("id").distinct().count() == frame.count() == 101
    assert frame.where("name = concat('n', id)").count() == 51
    assert frame.where("m['k'] = id AND tree[0].x = id AND d = id").count() == 100


def users(*lines: dict[str, Any], active: int = 2, **declared: Any) -> io.BytesIO:
    schema = {"properties": {"id": {"type": "integer"}, **declared}}
    head = {"type": "SCHEMA", "stream": "users", "schema": schema, "key_properties": ["id"]}
    tail = {"type": "ACTIVATE_VERSION", "stream": "users", "version": active}
    whole = [head, *({"type": "RECORD", "stream": "users", **line} for line in lines), tail]
    return io.BytesIO("".join(json.dumps(message) + "\n" for message in whole).encode())


@pytest.mark.parametrize(
    ("version", "deleted", "marked"),
    [
        ("integer", {"type": ["null", "string"], "format": "date"}, True),
        ("string", {"type": ["null", "string"]}, False),
    ],
)
def test_rows_are_retired_by_columns_that_the_source_declares(
    tmp_path: Path, version: str, deleted: dict[str, Any], marked: bool
) -> None:
    driver()
    declared = {"_sdc_table_version": {"type": ["null", version]}, "_sdc_deleted_at": deleted}
    old = {"id": 1, "_sdc_table_version": 1 if version == "integer" else "1"}
    lakeport.land(users({"record": old}, active=1, **declared), tmp_path)
    report = lakeport.land(users(**declared), tmp_path)
    (found,) = DeltaTable(str(tmp_path / "users")).to_pyarrow_table().to_pylist()
    assert str(found["_sdc_deleted_at"]).startswith("20") == marked
    assert ("rows of earlier versions stay" in " ".join(report.warnings)) != marked


def test_a_mark_that_can_hold_no_time_is_refused(tmp_path: Path) -> None:
    driver()
    declared = {
        "_sdc_table_version": {"type": "integer"},
        "_sdc_deleted_at": {"type": ["null", "boolean"]},
    }
    old = {"record": {"id": 1, "_sdc_table_version": 2}}
    with pytest.raises(SchemaConflict, match="'_sdc_deleted_at' is bool"):
        lakeport.land(users(old, **declared), tmp_path)


def test_a_state_rides_with_the_last_commit_before_it(tmp_path: Path) -> None:
    driver()

    def lines(column: str, number: int) -> list[dict[str, Any]]:
        schema = {"properties": {"id": {"type": "integer"}, column: {"type": "integer"}}}
        head = {"type": "SCHEMA", "stream": "users", "schema": schema, "key_properties": ["id"]}
        return [head, {"type": "RECORD", "stream": "users", "record": {"id": number}}]

    messages = [*lines("a", 1), *lines("b", 2), {"type": "STATE", "value": {"seen": 2}}]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    lakeport.land(io.BytesIO(text.encode()), tmp_path)
    table = lakeport.Table(str(tmp_path / "users"))
    assert len(table.history()) == 2
    assert table.state().state == b'{"seen": 2}'
    table.restore(0)
    assert table.state() is None


@pytest.mark.soak
@pytest.mark.parametrize("hard", [True, False])
def test_rows_without_a_version_stay_where_spark_retires(tmp_path: Path, hard: bool) -> None:
    driver()
    path, keys = tmp_path / "users", {"mode": "merge", "hard_delete": hard}
    versions = {"_sdc_table_version": {"type": ["null", "integer"]}}
    lakeport.land(users({"record": {"id": 1}}, **versions), tmp_path, **keys)
    session().sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT natural CHECK (id > 0)")
    for number in (1, 2):
        record = {"record": {"id": number + 1, "_sdc_table_version": number}}
        lines = users(record, active=number, **versions)
        report = lakeport.land(lines, tmp_path, **keys)
        assert any("1 row has no version" in text for text in report.streams[0].warnings)
    left = users({"record": {"id": 4}}, active=3, **versions)
    report = lakeport.land(left, tmp_path, **keys)
    assert any("version 3 was not activated" in text for text in report.streams[0].warnings)
    found = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    live = sorted(row["id"] for row in found if row.get("_sdc_deleted_at") is None)
    assert live == [1, 3, 4]
    assert len(found) == (3 if hard else 4)


@pytest.mark.soak
def test_conditions_and_marks_where_spark_merges(tmp_path: Path) -> None:
    driver()
    path, keys = tmp_path / "users", {"mode": "merge"}
    text = {"type": ["null", "string"]}
    declared = {"op": text, "v": text, "_sdc_deleted_at": {**text, "format": "date-time"}}
    first = [{"record": {"id": i, "op": "I", "v": f"v{i}"}} for i in (1, 2, 3)]
    lakeport.land(users(*first, active=0, **declared), tmp_path, **keys)
    session().sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT natural CHECK (id > 0)")
    marked = {"record": {"id": 1, "_sdc_deleted_at": "2024-01-01T00:00:00Z"}}
    lakeport.land(users(marked, active=0, **declared), tmp_path, **keys)
    (row,) = DeltaTable(str(path)).to_pyarrow_table(filters=[("id", "=", 1)]).to_pylist()
    assert (row["op"], row["v"], row["_sdc_deleted_at"] is None) == ("I", "v1", False)
    lines = [{"record": {"id": i, "op": op, "v": "w"}} for i, op in ((2, "U"), (3, "D"), (4, "D"))]
    keys |= {"hard_delete": True, "delete_when": "op = 'D'"}
    lakeport.land(users(*lines, active=0, **declared), tmp_path, **keys)
    found = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [(1, "v1"), (2, "w")]
