"""The spans and the pace of loads whose tasks are Spark's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.engine.spark.session import DriverSession
from tests.spans import check, check_landed, singer, write_people


@pytest.fixture(autouse=True)
def spark(driver: DriverSession) -> Any:
    """A session that is there: tasks are its own from the start."""
    return driver.spark


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.csv")


@pytest.mark.parametrize("file_type", ["delta", "parquet"])
@pytest.mark.parametrize("singer_lines", [True, False])
def test_tasks_of_spark_tell_what_they_did_and_when(
    people: Path, tmp_path: Path, file_type: Any, singer_lines: bool
) -> None:
    source: Any = singer("a", "b", records=500) if singer_lines else people
    report = lakeport.land(source, tmp_path / "lake", file_type=file_type)
    check_landed(report)
    assert report.rows == (1_000 if singer_lines else 2_000)
    assert "starting Spark" not in {span.stage for span in report.spans}
    if file_type == "delta":
        tables = [DeltaTable(stream.table) for stream in report.streams]
        assert sum(table.to_pyarrow_dataset().count_rows() for table in tables) == report.rows


def test_of_a_spark_frame_its_rows_are_read(spark: Any, tmp_path: Path) -> None:
    report = lakeport.land(spark.range(0, 900, 1, 3), tmp_path / "lake", table="numbers")
    check_landed(report, source="reading")
    (reading,) = check(report)["numbers", "reading"]
    assert reading.tasks == 3


def test_a_merge_tells_its_stages(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    rows = pa.table({"id": [1, 2], "v": ["x", "y"]})
    for _ in range(2):
        report = lakeport.land(rows, lake, table="t", mode="merge", merge_keys="id")
        found = check(report)
        assert {("t", "planning"), ("t", "writing"), ("t", "committing")} <= found.keys()


def test_a_failed_run_tells_how_far_it_came(people: Path, tmp_path: Path) -> None:
    people.write_text(people.read_text() + "x,Ada\n")
    with pytest.raises(lakeport.BadRecords):
        lakeport.land(people, tmp_path / "lake", schema={"id": "int64", "name": "string"})
    (run,) = lakeport.runs(tmp_path / "lake")
    spans = run.report["spans"]
    assert [span["stage"] for span in spans][:3] == ["opening", "reading", "planning"]
    assert spans[-1]["stage"] == "writing"
    assert all(0 <= span["start"] <= span["end"] <= run.seconds for span in spans)


def test_the_first_run_tells_how_long_spark_took(tmp_path: Path) -> None:
    script = """if True:
        import sys, lakeport
        asked_for = {"spark.sql.shuffle.partitions": "2"}
        print(lakeport.land([{"id": 1}], sys.argv[1], table="t", spark=asked_for).to_json())
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    report = json.loads(done.stdout)
    (start,) = [span for span in report["spans"] if span["stage"] == "starting Spark"]
    assert start["stream"] == "" and 0 <= start["start"] < start["end"] <= report["seconds"]
