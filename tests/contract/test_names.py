"""Names that differ only in case, or look alike: what a user says of columns is done first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import InputError

pytestmark = pytest.mark.usefixtures("engine_of_checks")
RECORDS = [{"userId": 1, "userid": "a"}, {"userId": 2, "userid": "b"}]
SCHEMA = {
    "type": "SCHEMA",
    "stream": "t",
    "key_properties": [],
    "schema": {"properties": {"userId": {"type": "integer"}, "userid": {"type": "string"}}},
}


def source(kind: str, folder: Path) -> Any:
    if kind in ("frame", "arrow"):
        return pd.DataFrame(RECORDS) if kind == "frame" else pa.Table.from_pylist(RECORDS)
    path = folder / f"in.{kind}"
    lines = [json.dumps(record) for record in RECORDS]
    if kind == "csv":
        lines = ["userId,userid", "1,a", "2,b"]
    elif kind in ("singer", "undeclared"):
        declared = SCHEMA if kind == "singer" else {**SCHEMA, "schema": {"properties": {}}}
        records = ({"type": "RECORD", "stream": "t", "record": record} for record in RECORDS)
        lines = [json.dumps(declared), *map(json.dumps, records)]
        path = folder / "in.singer"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(RECORDS), path)
    else:
        path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(
    "kind", ["csv", "jsonl", "parquet", "singer", "undeclared", "frame", "arrow"]
)
@pytest.mark.parametrize("file_type", ["delta", "parquet"])
def test_rules_come_before_the_clash(tmp_path: Path, kind: str, file_type: str) -> None:
    config = {"destination": "local", "path": str(tmp_path / "lake"), "file_type": file_type}
    given = source(kind, tmp_path)
    with pytest.raises(InputError, match="differ only in case") as failure:
        lakeport.land(given, config, table="t")
    assert "`--rename userid=userid_2`" in failure.value.hint
    how: dict[str, Any]
    for number, how in enumerate(({"rename": {"userid": "name"}}, {"drop": ["userid"]})):
        report = lakeport.land(given, config, table=f"t{number}", internal_columns=False, **how)
        assert report.rows == 2
    if file_type == "delta":
        tables = [DeltaTable(tmp_path / "lake" / f"t{n}").to_pyarrow_table() for n in (0, 1)]
        assert tables[0].sort_by("userId").to_pylist() == [
            {"userId": 1, "name": "a"},
            {"userId": 2, "name": "b"},
        ]
        assert tables[1].column_names == ["userId"]


def test_near_twins_are_told_once(tmp_path: Path) -> None:
    frame = pa.table({"caf\u00e9": [1], "cafe\u0301": [2]})
    told = [lakeport.land(frame, str(tmp_path), table="t").streams[0].warnings for _ in range(2)]
    assert ["look alike" in text for text in told[0]] == [True]
    assert told[1] == ()
