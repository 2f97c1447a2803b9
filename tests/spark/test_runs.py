"""Runs of a lake's file whose loads make tables of tables, in one Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.spark.session import Runtime

pytestmark = pytest.mark.usefixtures("runtime")

FILE = """
target: {destination: local, path: ./lake, file_type: delta}
loads:
  daily:
    from: {tables: [flights]}
    sql: SELECT carrier, count(*) AS flights FROM flights GROUP BY carrier
    mode: overwrite
  named:
    from: {files: flights.csv}
    sql: SELECT s.id, d.flights FROM source s JOIN daily d ON s.carrier = d.carrier
    python: ours:doubled
    mode: overwrite
  follow: {from: {tables: [flights], incremental: true}}
  flights:
    from: {files: "in/*.csv", new_only: true}
    expect: [{not_null: [carrier]}]
"""
OURS = """
def doubled(frame):
    return frame.selectExpr("id", "flights * 2 AS twice")
"""


def rows(folder: Path, table: str, *columns: str) -> list[tuple[object, ...]]:
    found = DeltaTable(folder / "lake" / table).to_pyarrow_table().select(list(columns))
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_tables_are_made_of_tables_in_their_order(tmp_path: Path, runtime: Runtime) -> None:
    text = "id,carrier\n1,AA\n2,AA\n3,UA\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text(text)
    (tmp_path / "flights.csv").write_text(text)
    (tmp_path / "ours.py").write_text(OURS)
    (tmp_path / "lake.yaml").write_text(FILE)
    report = lakeport.run(tmp_path / "lake.yaml", parallel=3)
    assert report.ok
    assert rows(tmp_path, "daily", "carrier", "flights") == [("AA", 2), ("UA", 1)]
    assert rows(tmp_path, "named", "id", "twice") == [(1, 4), (2, 4), (3, 2)]
    assert rows(tmp_path, "follow", "id") == [(1,), (2,), (3,)]
    (tmp_path / "in" / "2.csv").write_text("id,carrier\n4,UA\n")
    again = lakeport.run(tmp_path / "lake.yaml", parallel=3)
    assert again["flights"].rows == again["follow"].rows == 1
    assert rows(tmp_path, "follow", "id") == [(1,), (2,), (3,), (4,)]
    assert rows(tmp_path, "daily", "carrier", "flights") == [("AA", 2), ("UA", 2)]
    assert runtime.alive
    assert Runtime._current is runtime


def test_the_session_schedules_fairly(runtime: Runtime) -> None:
    conf = runtime.context.getConf()
    assert conf.get("spark.scheduler.mode") == "FAIR"
