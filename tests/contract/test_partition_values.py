"""Partition values that look like others: each is read back as it came, and every load ends."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import DestinationError
from lakeport.storage.local import LocalStorage

pytestmark = pytest.mark.usefixtures("engine_of_checks")
NULL = "__HIVE_DEFAULT_PARTITION__"
VALUES = [
    NULL,
    None,
    "%5F_HIVE_DEFAULT_PARTITION__",
    f"{NULL}x",
    "null",
    "a/b",
    "a%2Fb",
    "a%252Fb",
    "A/B",
    "X",
    "x",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "v" * 300,
    "v" * 299 + "w",
    "..",
    ".",
    "Inc.",
    "Inc%2E",
    " lead",
    "trail ",
    "=",
    "p=1",
    "2024-01-01",
    "2024-01-01 00:00:00",
    "1",
    "1.0",
    "01",
]


@pytest.mark.parametrize("split", [False, True])
def test_values_stay_apart(split: bool, tmp_path: Path) -> None:
    rows = [{"id": number, "p": value} for number, value in enumerate(VALUES)]
    lake = tmp_path / "lake"
    for batch in [[row] for row in rows] if split else [rows]:
        lakeport.land(batch, lake, table="t", partition_keys=("p",), columns={"p": "string"})
    found = DeltaTable(str(lake / "t")).to_pyarrow_table().select(["id", "p"]).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == rows
    paths = [
        json.loads(line)["add"]["path"]
        for log in sorted((lake / "t" / "_delta_log").glob("*.json"))
        for line in log.read_text().splitlines()
        if '"add"' in line
    ]
    assert len({path.rpartition("/")[0].casefold() for path in paths}) >= len(VALUES) - 3
    assert len({path.rpartition("/")[2] for path in paths}) == len(VALUES)


class Taken(LocalStorage):
    """A store that says of each name that it is taken."""

    def publish(self, staged: Any, key: str) -> None:
        from lakeport.errors import ObjectExists

        raise ObjectExists(f"{key} exists")


def test_names_that_are_all_taken_end_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.writers.files.journal._MOST_TAKEN", 20)
    monkeypatch.setattr("lakeport.loading.stream._MOST_CLASHES", 3)
    monkeypatch.setattr(LocalStorage, "publish", Taken.publish)
    for file_type in ("parquet", "delta"):
        with pytest.raises(DestinationError):
            lakeport.land([{"id": 1}], tmp_path / file_type, table="t", file_type=file_type)


ODD = [
    "year=2024",
    "2024-03",
    "%",
    "..",
    ".",
    "_lakeport",
    "_delta_log",
    "_hidden",
    ".hidden",
    "Inc.",
    "trail ",
    "a/b",
    "a%2Fb",
    "=",
    "name\n",
    "p=__HIVE_DEFAULT_PARTITION__",
    "users",
]


@pytest.mark.parametrize("file_type", ["parquet", "delta", "csv"])
def test_names_of_streams_hide_nothing(file_type: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    messages: list[dict[str, Any]] = []
    for stream in ODD:
        schema = {"properties": {"id": {"type": "integer"}}}
        messages.append(
            {"type": "SCHEMA", "stream": stream, "key_properties": [], "schema": schema}
        )
        messages.append({"type": "RECORD", "stream": stream, "record": {"id": 1}})
    source = tmp_path / "singer.jsonl"
    source.write_text("\n".join(map(json.dumps, messages)))
    report = lakeport.land(str(source), lake, file_type=file_type, source_format="singer")
    assert len({stream.table for stream in report.streams}) == len(ODD)
    found = lakeport.tables(lake)
    assert {table.uri for table in found} == {stream.table for stream in report.streams}
    assert {table.format for table in found} == {file_type}


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
@pytest.mark.parametrize("above", ["", "raw/"])
def test_a_table_with_a_partitions_name_hides_nothing(
    file_type: str, above: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    for name in ("users", "year=2024", "2024-03"):
        lakeport.land([{"id": 1}], lake, table=f"{above}{name}", file_type=file_type)
    found = [table.name for table in lakeport.tables(lake)]
    assert found == sorted(f"{above}{name}" for name in ("users", "year=2024", "2024-03"))
