"""Logs that name files outside of their tables: no road of Spark's reads them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import LakeportError, SourceError


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the lake that a load may read, and nobody meant it to."""
    path = tmp_path / "private" / "secret.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": [666]}), path)
    return path


@pytest.fixture
def table(tmp_path: Path, driver: DriverSession) -> Path:
    lakeport.land([{"id": 1}], tmp_path / "lake", table="t", internal_columns=False)
    return tmp_path / "lake" / "t"


PATHS: dict[str, Callable[[Path], str]] = {
    "a URI": lambda path: path.as_uri(),
    "a URI without slashes": lambda path: f"file:{path}",
    "an absolute path": str,
    "up": lambda path: "../../private/secret.parquet",
    "up from a folder": lambda path: "x/../../../private/secret.parquet",
    "up, encoded": lambda path: "..%2F..%2Fprivate%2Fsecret.parquet",
    "dots encoded": lambda path: "%2E%2E/%2e%2e/private/secret.parquet",
    "an absolute path, encoded": lambda path: quote(str(path), safe=""),
    "capitals": lambda path: f"FILE://{path}",
}
SHARE = ("a URI without slashes", "an absolute path", "up, encoded")


def attack(table: Path, path: str, kind: str = "add", **more: Any) -> None:
    entry = {
        "path": path,
        "partitionValues": {},
        "size": 500,
        "modificationTime": 1,
        "dataChange": True,
        **more,
    }
    version = len(list((table / "_delta_log").glob("*.json")))
    log = table / "_delta_log" / f"{version:020d}.json"
    log.write_text(json.dumps({kind: entry}) + "\n")


ROADS: dict[str, Callable[[Path, Path], Any]] = {
    "land": lambda table, lake: lakeport.land(
        lakeport.TablesSource(tables=str(table)), lake, table="copy"
    ),
    "query": lambda table, lake: lakeport.Table(table).query("SELECT * FROM t"),
    "version": lambda table, lake: lakeport.Table(table).query("SELECT * FROM t", version=1),
    "optimize": lambda table, lake: lakeport.Table(table).optimize(),
    "vacuum": lambda table, lake: lakeport.Table(table).vacuum(),
    "keys": lambda table, lake: compared(table),
}
PLAIN = {"internal_columns": False}


def compared(table: Path) -> Any:
    """Land what SQLite has in a table whose keys are compared with it."""
    path = table.parent / "shop.db"
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY)")
    source = lakeport.DatabaseSource(database=f"sqlite:///{path}", table="t", deletes="compare")
    return lakeport.land(source, table.parent, table=table.name, mode="merge", **PLAIN)


@pytest.mark.parametrize(
    "kind",
    [name if name in SHARE else pytest.param(name, marks=pytest.mark.soak) for name in PATHS],
)
def test_no_road_leads_out(kind: str, table: Path, secret: Path, tmp_path: Path) -> None:
    attack(table, PATHS[kind](secret))
    for name, road in ROADS.items():
        with pytest.raises(LakeportError) as failure:
            road(table, tmp_path / "copies")
        assert isinstance(failure.value, SourceError), name
        assert "not in the table's folder" in failure.value.message, name


def test_small_files_are_not_merged_with_others(
    table: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `auto_optimize` does after a run has landed beside such a file."""
    monkeypatch.setattr("lakeport.writers.delta.optimize.MANY_SMALL_FILES", 2)
    attack(table, secret.as_uri())
    report = lakeport.land([{"id": 2}], table.parent, table="t", auto_optimize=True, **PLAIN)
    assert any("not in the table's folder" in text for text in report.warnings)
    assert DeltaTable(str(table)).history()[0]["operation"] == "WRITE"


def test_spark_changes_no_rows_of_other_files(table: Path, secret: Path) -> None:
    DeltaTable(str(table)).alter.add_constraint({"c": "id > 0"})  # Spark alone commits to it
    attack(table, secret.as_uri())
    with pytest.raises(SourceError, match="not in the table's folder"):
        lakeport.land([{"id": 1}], table.parent, table="t", mode="merge", merge_keys="id", **PLAIN)


def test_earlier_versions_are_read(table: Path, secret: Path) -> None:
    attack(table, secret.as_uri())
    assert lakeport.Table(table).query("SELECT id FROM t", version=0)["id"].to_pylist() == [1]


def test_a_checkpoint_hides_nothing(table: Path, secret: Path) -> None:
    attack(table, secret.as_uri())
    DeltaTable(str(table)).create_checkpoint()
    for number in (0, 1):
        (table / "_delta_log" / f"{number:020d}.json").write_text('{"commitInfo":{}}\n')
    with pytest.raises(SourceError, match="not in the table's folder"):
        lakeport.Table(table).query("SELECT * FROM t")


def test_a_vector_of_deleted_rows_lies_in_the_table(table: Path) -> None:
    found = next(table.glob("*.parquet"))
    vector = {"storageType": "p", "pathOrInlineDv": "file:///etc/passwd", "offset": 1}
    more = {"deletionVector": {**vector, "sizeInBytes": 40, "cardinality": 1}}
    attack(table, found.name, **more)
    with pytest.raises(SourceError, match="not in the table's folder"):
        lakeport.Table(table).query("SELECT * FROM t")


def test_a_sidecar_lies_in_the_log(table: Path, secret: Path) -> None:
    name = f"{0:020d}.checkpoint.3a0d65cd-4a56-49a8-937b-95f9e3ee90e5.json"
    sidecar = {"path": secret.as_uri(), "sizeInBytes": 1, "modificationTime": 1}
    (table / "_delta_log" / name).write_text(json.dumps({"sidecar": sidecar}) + "\n")
    with pytest.raises(SourceError, match="not in the table's folder"):
        lakeport.Table(table).query("SELECT * FROM t")


def test_a_shallow_clone_is_read_where_its_files_are_allowed(
    table: Path, secret: Path, tmp_path: Path
) -> None:
    attack(table, secret.as_uri())
    source = lakeport.TablesSource(tables=str(table))
    lakeport.land(source, tmp_path / "copies", table="copy", table_roots=str(secret.parent))
    rows = DeltaTable(str(tmp_path / "copies" / "copy")).to_pyarrow_table()["id"].to_pylist()
    assert sorted(rows) == [1, 666]
    other = tmp_path / "private2"
    shutil.copytree(secret.parent, other)
    attack(table, (other / secret.name).as_uri())
    with pytest.raises(SourceError):
        lakeport.land(source, tmp_path / "copies", table="more", table_roots=str(secret.parent))


def test_odd_names_of_partitions_are_inside(tmp_path: Path, driver: DriverSession) -> None:
    values = ["../x", "..", "a/../b", "/etc", "file:///etc", "a:b", "%2e%2e", "x"]
    rows = [{"id": n, "p": value} for n, value in enumerate(values)]
    lakeport.land(rows, tmp_path / "lake", table="t", partition_keys="p", columns={"p": "string"})
    found = lakeport.Table(tmp_path / "lake" / "t").query("SELECT id, p FROM t ORDER BY id")
    assert found["p"].to_pylist() == values
