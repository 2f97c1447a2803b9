"""Every kind of source into every destination."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, orc

from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession
from tests.contract.conftest import Land
from tests.contract.targets import Target

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": ""}]
TABLE = pa.Table.from_pylist(ROWS, pa.schema([("id", pa.int64()), ("name", pa.string())]))


class Stream:
    """Anything that speaks the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "frame",
    [TABLE, TABLE.to_reader(), pl.from_arrow(TABLE), pd.DataFrame(ROWS), Stream()],
    ids=["arrow table", "arrow reader", "polars", "pandas", "c stream"],
)
def test_frames(target: Target, land: Land, frame: Any) -> None:
    if isinstance(frame, pa.RecordBatchReader):
        frame = TABLE.to_reader()
    report = land(frame, table="people")
    rows = sorted(target.rows("people"), key=lambda row: int(row["id"]))
    assert [row["name"] for row in rows] == ["a", None, ""]
    assert report.rows == 3


def test_files(target: Target, land: Land, tmp_path: Path) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    (folder / "1.csv").write_text('id,name,\n1,a,\n2,,\n3,"",\n')
    (folder / "2.csv.gz").write_bytes(gzip.compress(b"id,name\n4,NA\n5,x\n"))
    report = land(str(folder), table="people")
    rows = sorted(target.rows("people"), key=lambda row: int(row["id"]))
    assert [row["name"] for row in rows] == ["a", None, "", None, "x"]
    assert [
        text for text in report.streams[0].warnings if "column 3 has no name and no value" in text
    ]


@pytest.mark.before_the_store
def test_json_lines_and_parquet(target: Target, land: Land, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "a.jsonl").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": null}\n')
    pq.write_table(TABLE, tmp_path / "b.parquet")
    land(str(tmp_path / "a.jsonl"))
    land(str(tmp_path / "b.parquet"))
    assert target.ids("a") == [1, 2]
    assert target.ids("b") == [1, 2, 3]


def _write(path: Path) -> None:
    """The rows of `TABLE` as a file of the format that the suffix tells."""
    if path.suffix == ".orc":
        orc.write_table(TABLE, path)
    elif path.suffix == ".feather":
        feather.write_feather(TABLE, path)
    elif path.suffix == ".avro":
        fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, ROWS)
    elif path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in (["id", "name"], *(list(row.values()) for row in ROWS)):
            book.active.append(row)
        book.save(path)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in/a.csv", "id,name\n1,a\n2,\n")
            archive.writestr("in/b.csv", 'id,name\n3,""\n')


@pytest.mark.before_the_store
@pytest.mark.parametrize("suffix", ["orc", "feather", "avro", "xlsx", "zip"])
def test_other_files(target: Target, land: Land, tmp_path: Path, suffix: str) -> None:
    _write(tmp_path / f"people.{suffix}")
    report = land(str(tmp_path / f"people.{suffix}"))
    rows = sorted(target.rows("people"), key=lambda row: int(row["id"]))
    empty = None if suffix == "xlsx" else ""  # a cell without text is none
    assert [row["name"] for row in rows] == ["a", None, empty]
    assert report.rows == 3


@pytest.mark.spark
def test_a_spark_frame(target: Target, land: Land) -> None:
    frame = DriverSession.acquire(SessionRequest()).spark.createDataFrame(
        [(1, "a"), (2, None), (3, "")], "id long, name string"
    )
    land(frame, table="people")
    rows = sorted(target.rows("people"), key=lambda row: int(row["id"]))
    assert [row["name"] for row in rows] == ["a", None, ""]
