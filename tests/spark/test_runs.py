"""Runs of a lake's file whose loads make tables of tables, in one Spark session."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport.engine.spark.session import DriverSession
from lakeport.pipeline.report import LoadReport, PipelineObserver
from tests.emulators import Minio

pytestmark = pytest.mark.usefixtures("driver")

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


def test_tables_are_made_of_tables_in_their_order(tmp_path: Path, driver: DriverSession) -> None:
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
    assert driver.is_alive
    assert DriverSession._current is driver


def test_the_session_schedules_fairly(driver: DriverSession) -> None:
    conf = driver.context.getConf()
    assert conf.get("spark.scheduler.mode") == "FAIR"


class Crossings(PipelineObserver):
    """Which loads of another folder ran when one began; a load's name begins with its folder's."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.met: list[tuple[str, str]] = []

    def on_begun(self, load: str) -> None:
        self.met += [(load, other) for other in self.running if other[:6] != load[:6]]
        self.running.add(load)

    def on_ended(self, report: LoadReport) -> None:
        self.running.discard(report.load)


def test_loads_with_two_keys_for_one_bucket_each_use_their_own(
    tmp_path: Path, driver: DriverSession, minio: Minio
) -> None:
    """Spark's file system of a bucket knows one key: while a load uses it, no other is set."""
    bucket, options = minio.create_bucket("keys-by-folder"), minio.delta_options
    made = {}
    for folder in ("bronze", "silver"):
        source = f"s3://{bucket}/{folder}/source"
        write_deltalake(source, pa.table({"id": [1, 1, 2]}), storage_options=options)
        keys = minio.of_folder(bucket, folder)
        made[folder] = {
            "object_key_path": folder,
            "aws_access_key_id": keys.access_key,
            "aws_secret_access_key": keys.secret_key,
            "aws_session_token": keys.token,
            "table_properties": {"delta.logRetentionDuration": "interval 30 days"},  # Spark commits
            "from": {"tables": [source]},
            "sql": "SELECT id, count(*) AS n FROM source GROUP BY id",
            "mode": "overwrite",
        }
    loads = {f"{folder}{number}": made[folder] for number in range(2) for folder in made}
    shared = {"destination": "delta_lake_s3", "bucket": bucket, "aws_endpoint": minio.endpoint}
    file = tmp_path / "lake.yaml"
    file.write_text(json.dumps({"target": shared, "loads": loads}))
    file.chmod(0o600)
    crossings = Crossings()
    assert lakeport.run(file, parallel=2, observer=crossings).ok
    assert crossings.met == []
    for name in loads:
        table = DeltaTable(f"s3://{bucket}/{name[:6]}/{name}", storage_options=options)
        assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == [1, 2]
