"""Values with holes at every depth land in either order, whoever reads the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport


def land(lake: Path, *values: Any, start: int = 0, **keys: Any) -> lakeport.LandingReport:
    file = lake.parent / f"{start}.jsonl"
    rows = [{"id": start + i, "v": value} for i, value in enumerate(values)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return lakeport.land(str(file), lake, **{"table": "t", "internal_columns": False, **keys})


def without_nulls(value: Any) -> Any:
    """A value whose members that are null are left out, as is one that a record lacks."""
    if isinstance(value, dict):
        return {name: without_nulls(v) for name, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def read(table: Path) -> list[Any]:
    """The values in order of their rows, once delta-rs with pyarrow and DuckDB agree on them."""
    delta = DeltaTable(str(table))
    found = sorted(delta.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    dataset = delta.to_pyarrow_dataset()
    assert dataset.schema.names  # DuckDB finds it by its name
    rows = duckdb.sql("FROM dataset ORDER BY id").arrow().read_all().to_pylist()
    assert [without_nulls(row) for row in rows] == [without_nulls(row) for row in found]
    return [without_nulls(row).get("v") for row in found]


FULL: dict[str, tuple[Any, list[Any]]] = {
    "list": ([1], [[], [None]]),
    "object": ({"k": 1.5}, [{}, {"k": None}]),
    "objects": ([{"x": 1}], [[], [{}], [{"x": None}], [None]]),
    "lists": ([["a"]], [[], [[]], [[None]]]),
    "deep": (
        {"a": {"b": [{"c": 2.5}]}},
        [{"a": {}}, {"a": {"b": []}}, {"a": {"b": [{"c": None}]}}],
    ),
    "beside": ({"a": 1, "b": [1]}, [{"a": 1, "b": None}, {"a": 1, "b": []}]),
}
CASES = [(full, empty) for full, empties in FULL.values() for empty in empties]


@pytest.mark.parametrize(
    ("mode", "full", "empty"),
    [
        *(("append", *case) for case in CASES),
        *(("merge", full, empties[-1]) for full, empties in FULL.values()),
    ],
)
def test_in_either_order(mode: str, full: Any, empty: Any, tmp_path: Path) -> None:
    keys = {"mode": mode, "merge_keys": "id"} if mode == "merge" else {}
    for number, values in enumerate(([empty, full, empty], [full, empty], [empty, empty, full])):
        lake = tmp_path / str(number) / "lake"
        lake.parent.mkdir()
        for start, value in enumerate(values):
            land(lake, value, start=start, **keys)
        assert read(lake / "t") == [without_nulls(value) for value in values]


def test_no_row_is_read_anew_for_a_type(tmp_path: Path) -> None:
    """Files with text in the place are written anew, in a commit that changes no row; no others."""
    lake = tmp_path / "lake"
    land(lake, [], start=0)
    land(lake, None, start=1)
    before = DeltaTable(lake / "t").file_uris()
    assert pq.read_schema(before[0]).names == ["id", "v"]
    land(lake, [1], start=2)
    log = [
        json.loads(line)
        for line in (lake / "t/_delta_log" / f"{2:020}.json").read_text().splitlines()
    ]
    moved = [
        action[kind]["dataChange"] for action in log for kind in action if kind in ("add", "remove")
    ]
    assert moved and not any(moved)
    assert read(lake / "t") == [[], None, [1]]
    old = DeltaTable(lake / "t", version=1).to_pyarrow_table().to_pylist()
    assert sorted(old, key=lambda row: row["id"]) == [{"id": 0, "v": []}, {"id": 1, "v": None}]


def test_a_member_beside_others_takes_its_type_by_metadata_alone(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, {"a": 1, "b": None}, start=0)
    files = set(DeltaTable(lake / "t").file_uris())
    report = land(lake, {"a": 1, "b": 2.5}, start=2)
    assert report.streams[0].removed_files == 0 and DeltaTable(lake / "t").version() == 1
    assert files < set(DeltaTable(lake / "t").file_uris())


@pytest.mark.parametrize(("full", "empty"), [([1], []), ({"k": 1}, {}), ({"k": 1}, {"k": None})])
def test_overwrites(full: Any, empty: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, full, start=0)
    land(lake, empty, start=1, mode="overwrite")
    land(lake, full, start=2)
    assert read(lake / "t") == [without_nulls(empty), full]
    lake = tmp_path / "other"
    for start, value in enumerate((empty, full, empty)):
        keys = {"mode": "overwrite", "partition_keys": "id"}
        land(lake, value, start=start, **keys)
    assert read(lake / "t") == [without_nulls(value) for value in (empty, full, empty)]
    land(lake, empty, start=1, mode="overwrite", partition_keys="id")
    assert read(lake / "t") == [without_nulls(empty)] * 3


def test_a_strict_table_takes_the_first_value_too(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, [], start=0)
    land(lake, [1], start=1, schema_evolution="strict")
    assert read(lake / "t") == [[], [1]]


def test_two_kinds_of_values_are_a_conflict_still(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    land(lake, [], start=0)
    land(lake, [1], start=1)
    with pytest.raises(lakeport.SchemaConflict, match=r"'v\.element' is integer in the table"):
        land(lake, ["a"], start=2)
    assert read(lake / "t") == [[], [1]]


def test_a_typed_batch_without_a_value_lands_as_the_table_has_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    keys: dict[str, Any] = {"table": "t", "internal_columns": False}
    lakeport.land(pa.table({"id": [1], "v": [[1]], "c": [1]}), lake, **keys)
    frame = pa.table({"id": [2], "c": pa.array([None], pa.bool_())})
    (report,) = lakeport.land(frame, lake, **keys).streams
    assert report.notes == (
        "'c' has no value in this batch: its type is the table's",
        "1 column absent, null in these rows: v",
    )
    empty = pa.table({"id": [3], "v": pa.array([[]], pa.list_(pa.string()))})
    lakeport.land(empty, lake, **keys)
    found = DeltaTable(lake / "t").to_pyarrow_table().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3], "v": [[1], None, []], "c": [1, None, None]}
    with pytest.raises(lakeport.SchemaConflict, match="'c' is integer in the table"):
        lakeport.land(pa.table({"id": [4], "c": ["x"]}), lake, **keys)


def test_an_inbox_is_not_stuck(tmp_path: Path) -> None:
    lake, inbox = tmp_path / "lake", tmp_path / "inbox"
    inbox.mkdir()
    for number, value in enumerate(([], [1], [None], [2])):
        (inbox / f"{number}.jsonl").write_text(json.dumps({"id": number, "v": value}))
        source = lakeport.FilesSource(files=str(inbox), new_only=True)
        lakeport.land(source, lake, table="t", internal_columns=False)
    assert read(lake / "t") == [[], [1], [None], [2]]


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_files_of_one_load_have_one_type(file_type: str, tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    for number, value in enumerate(([], [{}], [{"x": 1}], [{"x": None}])):
        (place / f"{number}.jsonl").write_text(json.dumps({"id": number, "v": value}))
    lake = tmp_path / "lake"
    lakeport.land(str(place), lake, table="t", internal_columns=False, file_type=file_type)
    found = [path for path in (lake / "t").iterdir() if path.suffix == f".{file_type}"]
    rows = duckdb.sql(f"SELECT id, v FROM '{found[0]}' ORDER BY id").fetchall()
    texts = ["[]", '[{"x":null}]', '[{"x":1}]', '[{"x":null}]']
    assert [json.loads(v) if isinstance(v, str) else v for _, v in rows] == [
        json.loads(text) for text in texts
    ]
