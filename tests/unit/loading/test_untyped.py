"""Columns that never had a value take the type of the first one, whoever reads the table."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport.errors import SchemaConflict


def land(lake: Path, text: str, **keys: Any) -> lakeport.LandingReport:
    file = lake.parent / "t.csv"
    file.write_text(text)
    return lakeport.land(str(file), lake, **{"internal_columns": False, **keys})


def actions(table: Path, version: int) -> list[dict[str, Any]]:
    text = (table / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def types(table: Path) -> dict[str, str]:
    schema = json.loads(DeltaTable(str(table)).schema().to_json())
    return {field["name"]: field["type"] for field in schema["fields"]}


def read(table: Path) -> list[dict[str, Any]]:
    """The rows, once delta-rs with pyarrow, DuckDB and `preview` agree on them."""
    delta = DeltaTable(str(table))
    found = sorted(delta.to_pyarrow_table().to_pylist(), key=str)
    assert sorted(lakeport.Table(table).preview(100).to_pylist(), key=str) == found
    dataset = delta.to_pyarrow_dataset()
    assert dataset.schema.names  # DuckDB finds it by its name
    assert sorted(duckdb.sql("FROM dataset").arrow().read_all().to_pylist(), key=str) == found
    return found


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("1.5", "double", 1.5),
        ("7", "long", 7),
        ("2024-01-02", "date", date(2024, 1, 2)),
        ("true", "boolean", True),
        ("x", "string", "x"),
    ],
)
def test_a_header_without_rows_leaves_types_open(
    text: str, type_: str, value: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    report = land(lake, "id,c\n")
    assert dict(report.streams[0].columns) == {"id": "no value yet", "c": "no value yet"}
    assert read(lake / "t") == []
    land(lake, "id,c\n1,\n")
    assert types(lake / "t") == {"id": "long", "c": "string"}
    assert read(lake / "t") == [{"id": 1, "c": None}]
    land(lake, f"id,c\n2,{text}\n")
    land(lake, "id,c\n3,\n")
    assert types(lake / "t") == {"id": "long", "c": type_}
    rows = [{"id": 1, "c": None}, {"id": 2, "c": value}, {"id": 3, "c": None}]
    assert read(lake / "t") == sorted(rows, key=str)
    first = [pq.read_schema(uri).names for uri in DeltaTable(lake / "t", version=1).file_uris()]
    assert first == [["id"]]


def test_no_file_is_written_anew_for_a_type(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, "id,c\n1,\n")
    before = DeltaTable(lake / "t").file_uris()
    report = land(lake, "id,c\n2,2.5\n")
    assert report.streams[0].removed_files == 0
    assert set(before) < set(DeltaTable(lake / "t").file_uris())
    assert DeltaTable(lake / "t", version=0).to_pyarrow_table().to_pylist() == [
        {"id": 1, "c": None}
    ]


@pytest.mark.parametrize(
    "empty",
    [
        pa.table({"id": [1], "c": pa.nulls(1)}),
        pa.table({"id": [1], "c": pa.nulls(1)}).to_pandas(),
    ],
    ids=["arrow", "pandas"],
)
def test_frames_of_nulls(empty: Any, tmp_path: Path) -> None:
    lakeport.land(empty, tmp_path, table="t", internal_columns=False)
    full = pa.table({"id": [2], "c": pa.array([{"x": [1]}])})
    lakeport.land(full, tmp_path, table="t", internal_columns=False)
    assert read(tmp_path / "t") == [{"id": 1, "c": None}, {"id": 2, "c": {"x": [1]}}]


def test_json_and_parquet_of_nulls(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (tmp_path / "j.jsonl").write_text('{"id": 1, "c": null}\n')
    lakeport.land(str(tmp_path / "j.jsonl"), lake, table="t", internal_columns=False)
    folder = tmp_path / "many"
    folder.mkdir()
    pq.write_table(pa.table({"id": [2], "c": pa.nulls(1)}), folder / "a.parquet")
    lakeport.land(str(folder), lake, table="t", internal_columns=False)
    assert types(lake / "t")["c"] == "string"
    pq.write_table(pa.table({"id": [3], "c": [Decimal("1.5")]}), folder / "b.parquet")
    lakeport.land(str(folder), lake, table="t", internal_columns=False)
    assert types(lake / "t")["c"] == "decimal(2,1)"
    assert [row["c"] for row in read(lake / "t")] == [None, None, None, Decimal("1.5")]


def test_text_that_was_asked_for_stays_text(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, "id,c\n1,\n", columns={"c": "string"})
    land(lake, "id,c\n2,2.50\n")
    land(lake, "id,c\n3,2.5\n", columns={"c": "string"})
    assert [row["c"] for row in read(lake / "t")] == [None, "2.50", "2.5"]


def test_partition_columns_and_keys(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    keys = {"mode": "merge", "merge_keys": "id", "partition_keys": "p"}
    land(lake, "id,p,c\n", **keys)
    land(lake, "id,p,c\n1,5,\n2,6,\n", **keys)
    land(lake, "id,p,c\n2,6,2.5\n", **keys)
    assert types(lake / "t") == {"id": "long", "p": "long", "c": "double"}
    wanted = [{"id": 1, "p": 5, "c": None}, {"id": 2, "p": 6, "c": 2.5}]
    assert read(lake / "t") == wanted


def test_a_null_partition_is_typed_by_the_first_value(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, "id,p\n1,\n", partition_keys="p")
    land(lake, "id,p\n2,7\n", partition_keys="p")
    assert read(lake / "t") == [{"id": 1, "p": None}, {"id": 2, "p": 7}]


def test_rows_without_any_value_are_kept(tmp_path: Path) -> None:
    lakeport.land(pa.table({"c": pa.nulls(3)}), tmp_path, table="t", internal_columns=False)
    assert read(tmp_path / "t") == [{"c": None}] * 3


def test_values_that_others_wrote_are_never_lost(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    table = str(lake / "t")
    land(lake, "id,c\n1,\n")
    write_deltalake(table, pa.table({"id": [2], "c": ["x"]}), mode="append")
    for text, keys in (("id,c\n3,2.5\n", {}), ("id\n2\n", {"mode": "merge", "merge_keys": "id"})):
        with pytest.raises(SchemaConflict, match="others wrote has one as text") as failure:
            land(lake, text, **keys)
        assert f"table alter {table} --column c" in failure.value.hint
    with pytest.raises(SchemaConflict, match="'x'"):
        lakeport.Table(table).alter("c", "double")
    assert lakeport.Table(table).alter("c", "string").files == 0
    land(lake, "id,c\n2,\n4,y\n", mode="merge", merge_keys="id")
    wanted = [{"id": 1, "c": None}, {"id": 2, "c": None}, {"id": 4, "c": "y"}]
    assert read(lake / "t") == sorted(wanted, key=str)


def test_nulls_that_others_wrote_as_text_are_written_anew(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, "id,c\n1,\n")
    nulls = pa.table({"id": [2], "c": pa.array([None], pa.string())})
    write_deltalake(str(lake / "t"), nulls, mode="append")
    land(lake, "id,c\n3,2.5\n")
    assert [row["c"] for row in read(lake / "t")] == [None, None, 2.5]
    removed = [a for a in actions(lake / "t", 2) if "remove" in a]
    assert [a["remove"]["dataChange"] for a in removed] == [False]
    assert DeltaTable(lake / "t", version=1).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_files_have_their_own_types(file_type: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for text in ("id,c\n", "id,c\n1,\n", "id,c\n2,2.5\n"):
        report = land(lake, text, file_type=file_type)
    assert dict(report.streams[0].columns) == {"id": "integer", "c": "double"}
    values = [
        duckdb.sql(f"SELECT c FROM '{uri}'").fetchall()
        for uri in sorted(lake.rglob(f"*.{file_type}"))
        if "c" in duckdb.sql(f"FROM '{uri}'").columns  # one without a value has none
    ]
    assert [(2.5,)] in values
