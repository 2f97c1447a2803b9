"""Keys that are data: told before they take memory, and kept where the user says how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import InputError

pytestmark = pytest.mark.usefixtures("engine_of_checks")
LINES = 6_000
SINGER = {
    "type": "SCHEMA",
    "stream": "t",
    "key_properties": [],
    "schema": {"properties": {"id": {"type": "integer"}}},
}


def written(folder: Path, name: str, records: list[Any]) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def by_data(number: int) -> list[dict[str, int]]:
    return [{f"k{n}": n} for n in range(number)]


def source(kind: str, folder: Path, number: int = LINES) -> Any:
    records = by_data(number)
    if kind == "jsonl":
        return written(folder, "t.jsonl", records)
    if kind == "singer":
        messages = ({"type": "RECORD", "stream": "t", "record": r} for r in records)
        return written(folder, "t.singer", [SINGER, *messages])
    if kind == "csv":
        path = folder / "t.csv"
        path.write_text("\n".join(",".join(f"{c}{n}" for n in range(number)) for c in "k1"))
        return str(path)
    if kind == "arrow":
        return pa.table({f"k{n}": [n] for n in range(number)})
    return records


def land(given: Any, folder: Path, **how: Any) -> lakeport.LandingReport:
    return lakeport.land(given, str(folder / "lake"), table="t", internal_columns=False, **how)


@pytest.mark.parametrize("kind", ["jsonl", "singer", "csv", "arrow", "records"])
def test_a_key_for_each_record_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match=r"stream 't' has .* own keys .* is 5,000") as failure:
        land(source(kind, tmp_path), tmp_path)
    assert "`--set max_columns=" in failure.value.hint
    if kind != "singer":  # a plan does not look for undeclared fields
        with pytest.raises(InputError, match=r"stream 't' has .* own keys .* is 5,000"):
            lakeport.plan(source(kind, tmp_path), str(tmp_path / "lake"), table="t")
    land(source(kind, tmp_path, 60), tmp_path, max_columns=61)
    table = DeltaTable(tmp_path / "lake" / "t").to_pyarrow_table()
    cells = [value for row in table.to_pylist() for value in row.values() if value is not None]
    assert len(cells) == 60


@pytest.mark.parametrize("kind", ["jsonl", "records", "arrow"])
def test_keys_of_an_object_are_kept_as_json(tmp_path: Path, kind: str) -> None:
    records: Any = [{"id": 1, "attrs": record} for record in by_data(LINES)]
    if kind == "arrow":
        members = pa.struct([(f"k{n}", pa.int64()) for n in range(LINES)])
        records = pa.table({"attrs": pa.array([{"k1": 1}], members)})
    given = written(tmp_path, "t.jsonl", records) if kind == "jsonl" else records
    with pytest.raises(InputError, match="object 'attrs' has") as failure:
        land(given, tmp_path)
    assert "`--column attrs=json`" in failure.value.hint
    land(given, tmp_path, columns={"attrs": "json"})
    table = DeltaTable(tmp_path / "lake" / "t").to_pyarrow_table()
    texts = table.column("attrs").to_pylist()
    assert json.loads(texts[0])["k1" if kind == "arrow" else "k0"] == (1 if kind == "arrow" else 0)
    assert len(texts) == (1 if kind == "arrow" else LINES)


def test_a_table_that_grows_is_refused(tmp_path: Path) -> None:
    for number in range(3):
        land([{f"k{number}-{n}": n for n in range(3)}], tmp_path, max_columns=9)
    with pytest.raises(InputError, match=r"stream 't' has 10 columns"):
        land([{"more": 1}], tmp_path, max_columns=9)
    land([{"k0-0": 1}], tmp_path, max_columns=9)
