"""Records that were set aside land with the types of their table, JSON among them."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lakeport

PROPERTIES = {
    "id": {"type": "integer"},
    "v": {},
    "tags": {"type": ["null", "array"], "items": {}},
    "o": {"type": ["null", "object"], "properties": {"j": {}}},
}
GOOD = {"id": 1, "v": {"a": 1}, "tags": [{"x": 1}, "s"], "o": {"j": [1]}}
MENDED = {"id": 2, "v": {"a": 2}, "tags": ["s", 7], "o": {"j": "text"}}


def singer(record: dict[str, Any]) -> BytesIO:
    schema = {"type": "SCHEMA", "stream": "t", "key_properties": [], "schema": {}}
    schema["schema"] = {"type": "object", "properties": PROPERTIES}
    messages = (schema, {"type": "RECORD", "stream": "t", "record": record})
    return BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in messages))


def test_corrected_records_land_in_columns_of_json(tmp_path: Path) -> None:
    lake, corrected = tmp_path / "lake", tmp_path / "corrected.jsonl"
    keys: Any = {"engine": "threads", "on_bad_record": "quarantine"}
    lakeport.land(singer(GOOD), lake, **keys)
    lakeport.land(singer({**MENDED, "id": "2"}), lake, **keys)
    corrected.write_text(json.dumps(MENDED), "utf-8")
    (done,) = lakeport.replay(lake, "t", records_from=corrected, engine="threads")
    assert (done.rows, done.rejected) == (1, 0)
    rows = [
        row for file in (lake / "t").glob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]
    (found,) = [row for row in rows if row["id"] == 2]
    assert json.loads(found["v"]) == {"a": 2}
    assert [json.loads(tag) for tag in found["tags"]] == ["s", 7]
    assert json.loads(found["o"]["j"]) == "text"
