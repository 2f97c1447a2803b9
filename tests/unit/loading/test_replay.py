"""Records that were set aside land with the types of their table, JSON among them."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakeport

PROPERTIES = {
    "id": {"type": "integer"},
    "v": {},
    "tags": {"type": ["null", "array"], "items": {}},
    "o": {"type": ["null", "object"], "properties": {"j": {}}},
}
GOOD = {"id": 1, "v": {"a": 1}, "tags": [{"x": 1}, "s"], "o": {"j": [1]}}
MENDED = {"id": 2, "v": {"a": 2}, "tags": ["s", 7], "o": {"j": "text"}}


KEYS: list[dict[str, Any]] = [
    {},
    {"column_header_format": "upper"},
    {"column_header_format": "snake", "rename": {"name": "The Title"}},
    {"rename": {"name": "title"}},
    {"drop": ["price"]},
    {"columns": {"price": "decimal(10, 2)", "name": "json"}},
    {"columns": {"price": "string"}},
    {"add_record_metadata": True},
]
PLAIN = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "price": {"type": "number"},
}


def singer(record: dict[str, Any], properties: dict[str, Any]) -> BytesIO:
    schema = {"type": "SCHEMA", "stream": "t", "key_properties": [], "schema": {}}
    schema["schema"] = {"type": "object", "properties": properties}
    messages = (schema, {"type": "RECORD", "stream": "t", "record": record})
    return BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in messages))


def replayed(
    folder: Path, good: dict[str, Any], mended: dict[str, Any], types: dict[str, Any], **keys: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a good record, and of a bad one that a file has mended."""
    to = {"destination": "local", "path": str(folder / "lake"), "engine": "threads", **keys}
    bad = {**mended, "id": str(mended["id"])}
    for record in (good, bad):
        lakeport.land(singer(record, types), to, on_bad_record="quarantine")
    corrected = folder / "corrected.jsonl"
    corrected.write_text(json.dumps(mended), "utf-8")
    (done,) = lakeport.replay(to, "t", records_from=corrected)
    assert (done.rows, done.rejected) == (1, 0)
    found = sorted(
        (
            {name: row[name] for name in row if not name.lower().startswith("_")}
            for file in (folder / "lake" / "t").glob("*.parquet")
            for row in pq.read_table(file).to_pylist()
        ),
        key=lambda row: next(iter(row.values())),
    )
    return found[:1], found[1:]


def test_corrected_records_land_in_columns_of_json(tmp_path: Path) -> None:
    _, (found,) = replayed(tmp_path, GOOD, MENDED, PROPERTIES)
    assert json.loads(found["v"]) == {"a": 2}
    assert found["tags"] == ["s", "7"]
    assert json.loads(found["o"]["j"]) == "text"


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_corrected_records_land_as_the_load_landed_them(
    keys: dict[str, Any], tmp_path: Path
) -> None:
    good = {"id": 1, "name": "a", "price": 2.5}
    (first,), (second,) = replayed(tmp_path, good, {**good, "id": 2}, PLAIN, **keys)
    identity = next(iter(first))
    assert second == {**first, identity: 2}


@pytest.mark.parametrize("policy", ["drop", "fail"])
def test_a_field_whose_column_had_no_value_is_known(policy: str, tmp_path: Path) -> None:
    to = {"destination": "local", "path": str(tmp_path / "lake"), "engine": "threads"}
    lakeport.land([{"id": 1, "late": None}], to, table="t")
    bad = singer({"id": "x"}, {"id": {"type": "integer"}})
    lakeport.land(bad, to, on_bad_record="quarantine")
    corrected = tmp_path / "corrected.jsonl"
    fields = {"late": 7} | ({"other": 1} if policy == "drop" else {})
    corrected.write_text(json.dumps({"id": 2, **fields}))
    (done,) = lakeport.replay(to, "t", records_from=corrected, unknown_fields=policy)
    assert done.rows == 1
    rows = lakeport.Table(tmp_path / "lake" / "t").preview(5).to_pylist()
    found = [{name: row[name] for name in row if not name.startswith("_")} for row in rows]
    assert {"id": 2, "late": 7} in found


def test_rows_that_missed_an_expectation_keep_their_json(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    expect = [{"between": {"id": [0, 1]}, "otherwise": "quarantine"}]
    report = lakeport.land(singer(MENDED, PROPERTIES), lake, expect=expect, engine="threads")
    assert (report.rows, report.rejected) == (0, 1)
    (done,) = lakeport.replay(lake, "t", expect=[], engine="threads")
    assert done.rows == 1
    files = (pq.read_table(file) for file in (lake / "t").glob("*.parquet"))
    (found,) = [row for file in files for row in file.to_pylist()]
    assert json.loads(found["v"]) == MENDED["v"]
    assert found["tags"] == ["s", "7"]
    assert json.loads(found["o"]["j"]) == MENDED["o"]["j"]
