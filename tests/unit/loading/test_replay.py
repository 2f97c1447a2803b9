"""Records that were set aside land with the types of their table, JSON among them."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.cli.app import main
from lakeport.errors import InputError, SourceError
from lakeport.loading.replay import export_quarantined

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


def read(lake: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table as delta-rs reads them, without lakeport's columns."""
    rows = DeltaTable(str(lake / "t")).to_pyarrow_table().to_pylist()
    plain = [{n: row[n] for n in row if not n.startswith("_")} for row in rows]
    return sorted(plain, key=lambda row: int(row["id"]))


def corrected(file: Path, *edits: tuple[str, str], encoding: str = "utf-8-sig") -> None:
    """Edit an exported file, and save it as another program would."""
    text = file.read_text("utf-8-sig")
    for old, new in edits:
        assert old in text, (old, text)
        text = text.replace(old, new, 1)
    file.write_bytes(text.encode(encoding))


def test_records_of_a_csv_file_are_corrected_in_a_csv_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "t.csv"
    source.write_text("id;name;price;at\n1;Zoé;1,5;x\nx;=b;2,25;2024-01-03\n3;c;no\n4;d;4;NA;9\n")
    columns = {"id": "integer", "price": "decimal(8,2)", "at": "date"}
    lake, file = tmp_path / "lake", tmp_path / "rejected.csv"
    keys: dict[str, Any] = {"columns": columns, "on_bad_record": "quarantine"}
    lakeport.land(
        source, lake, run_id="monday", csv=lakeport.CsvOptions(null_values=("NA",)), **keys
    )
    assert main(["quarantine", "export", str(lake), "t", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"`lakeport quarantine replay {lake} t --from {file}`" in said
    assert file.stat().st_mode & 0o777 == 0o600
    header, first, *_ = file.read_text("utf-8-sig").splitlines()
    assert header == "_run,_record,_column,_reason,id,name,price,at,column_5"
    assert first.startswith("monday,1,at,the text is not a value")
    assert main(["quarantine", "export", str(lake), "t", str(file)]) == 2
    assert "may have corrections" in capsys.readouterr().err
    edits = ((",x,\n", ",2024-01-02,\n"), (",x,", ",2,"), (",no,", ",+03.10,"), (",9\n", ",\n"))
    corrected(file, *edits)
    assert main(["quarantine", "replay", str(lake), "t", "--from", str(file)]) == 0
    days = (date(2024, 1, 2), date(2024, 1, 3), None, None)
    values = (("Zoé", "1.50"), ("=b", "2.25"), ("c", "3.10"), ("d", "4.00"))
    assert read(lake) == [
        {"id": n + 1, "name": name, "price": Decimal(price), "at": days[n]}
        for n, (name, price) in enumerate(values)
    ]
    (again,) = lakeport.replay(lake, "t", records_from=file)
    assert again.before
    assert len(read(lake)) == 4


def test_cells_that_nobody_touched_keep_their_json(tmp_path: Path) -> None:
    properties = {**PLAIN, "o": {"type": ["null", "object"], "properties": {"p": {}}}}
    properties["price"] = {"type": ["null", "number"]}
    good = {"id": 1, "name": "a", "price": 1.5, "o": {"p": 1}}
    lake, file = tmp_path / "lake", tmp_path / "a.csv"
    lakeport.land(singer(good, properties), lake, on_bad_record="quarantine")
    for n, name in ((2, "007"), (3, ""), (4, "x")):
        record = {**good, "id": f"{n}?", "name": name, "o": {"p": [n]}}
        lakeport.land(singer(record, properties), lake, run_id=f"r{n}", on_bad_record="quarantine")
    export_quarantined(lake, "t", file)
    # Saved by a spreadsheet, in its own encoding; one record is left out.
    lines = [line for line in file.read_text("utf-8-sig").splitlines() if ",x," not in line]
    text = "\n".join(lines).replace("2?", "2").replace("3?", "3").replace("007", "007é")
    rows = [*csv.reader(io.StringIO(text))]
    out = io.StringIO()
    csv.writer(out, delimiter=";").writerows(rows)
    file.write_bytes(out.getvalue().encode("cp1252"))
    done = lakeport.replay(lake, "t", records_from=file)
    assert [(one.run_id, one.rows, one.rejected) for one in done] == [("r2", 1, 0), ("r3", 1, 0)]
    found = read(lake)
    assert [row["name"] for row in found] == ["a", "007é", ""]
    assert [json.loads(row["o"]["p"]) for row in found] == [1, [2], [3]]
    (left,) = lakeport.replay(lake, "t", run="r4")
    assert left.rejected == 1  # still in quarantine, and still wrong


def test_lines_that_are_no_json_have_to_be_corrected(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"id": 1}\n{"id": \n')
    lakeport.land(tmp_path / "t.jsonl", tmp_path / "lake", on_bad_record="quarantine")
    with pytest.raises(InputError, match="are no JSON records"):
        lakeport.replay(tmp_path / "lake", "t")


def test_what_was_replayed_is_marked_and_not_exported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, file = tmp_path / "lake", tmp_path / "a.csv"
    bad = {"id": "x", "name": "a", "price": 1}
    lakeport.land(singer(bad, PLAIN), lake, run_id="r", on_bad_record="quarantine")
    assert [one.replayed for one in lakeport.quarantined(lake)] == [False]
    assert main(["quarantine", "replay", str(lake), "t"]) == 0
    assert "0 rows landed, 1 set aside again, as of run replay:r" in capsys.readouterr().out
    assert [(one.run_id, one.replayed) for one in lakeport.quarantined(lake)] == [
        ("r", True),
        ("replay:r", False),
    ]
    assert main(["quarantine", "show", str(lake)]) == 0
    assert "1 record of run r, replayed" in capsys.readouterr().out
    assert export_quarantined(lake, "t", file) == 1  # those that are still wrong
    corrected(file, (",x,", ",2,"))
    (done,) = lakeport.replay(lake, "t", records_from=file)
    assert (done.run_id, done.rows) == ("replay:r", 1)
    with pytest.raises(SourceError, match=r"all records .* of table 't' were replayed"):
        export_quarantined(lake, "t", tmp_path / "b.csv")
    assert export_quarantined(lake, "t", tmp_path / "b.csv", run="r") == 1
    lakeport.Table(lake / "t").undo()
    assert [one.replayed for one in lakeport.quarantined(lake)] == [True, False]
    assert export_quarantined(lake, "t", tmp_path / "c.csv") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id,name\n1,a\n", "does not begin with the columns _run and _record"),
        ("_run,_record,id\nr,9,1\n", "no record 9"),
        ("_run,_record,id\nother,1,1\n", "run 'other' has set aside no record 1"),
        ("_run,_record,id\nr,1,1\nr,1,2\n", "line 3 of .* a second time"),
        ("_run,_record,id\nr,one,1\n", "line 2 of .* names no record"),
        ("_run,_record,id\nr,1,2,50\n", "line 2 of .* has 4 cells, and the header 3"),
    ],
)
def test_a_csv_file_that_is_no_export_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    lake, file = tmp_path / "lake", tmp_path / "a.csv"
    bad = {"id": "x", "name": "a", "price": 1}
    lakeport.land(singer(bad, PLAIN), lake, run_id="r", on_bad_record="quarantine")
    file.write_text(text)
    with pytest.raises(InputError, match=problem):
        lakeport.replay(lake, "t", records_from=file)
