"""What was set aside: shown, landed once, and set aside again where it still is wrong."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.cli.app import main
from lakeport.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession


def singer(*records: Any) -> io.BytesIO:
    schema = {"properties": {"id": {"type": "integer"}, "p": {"type": ["null", "number"]}}}
    messages = [
        {"type": "SCHEMA", "stream": "s", "schema": schema, "key_properties": []},
        *({"type": "RECORD", "stream": "s", "record": record} for record in records),
    ]
    return io.BytesIO("".join(json.dumps(message) + "\n" for message in messages).encode())


def ids(path: Path) -> list[Any]:
    return sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist(), key=str)


@pytest.fixture
def lake(driver: DriverSession, tmp_path: Path) -> Path:
    """A table with one record landed and two set aside by the run `r`."""
    source = singer({"id": 1}, {"id": "2", "p": 0.5}, {"id": "x"})
    lakeport.land(source, tmp_path, on_bad_record="quarantine", run_id="r")
    return tmp_path


def test_what_was_set_aside_is_told_by_runs_and_reasons(lake: Path) -> None:
    (found,) = lakeport.quarantined(lake)
    assert (found.run_id, found.stream, found.table, found.records) == ("r", "s", "s", 2)
    (reason,) = found.reasons
    assert (reason.column, reason.count) == ("id", 2)
    assert [Path(file).name for file in found.files] == ["s.jsonl"]
    assert lakeport.quarantined(lake, "s", run="r") == (found,)
    assert lakeport.quarantined(lake, "t") == lakeport.quarantined(lake, run="q") == ()


def test_a_query_corrects_and_each_record_lands_once(lake: Path) -> None:
    sql = "SELECT CAST(id AS BIGINT) AS id, p FROM source WHERE id != 'x'"
    (done,) = lakeport.replay(lake, "s", sql=sql)
    assert (done.records, done.rows, done.rejected, done.before) == (2, 1, 0, False)
    for again in (sql, sql.replace("!=", "=")):
        (done,) = lakeport.replay(lake, "s", sql=again)
        assert (done.rows, done.before) == (0, True)
    assert ids(lake / "s") == [1, 2]


def test_what_fails_again_is_set_aside_again(lake: Path) -> None:
    (done,) = lakeport.replay(lake, "s", run="r")
    assert (done.rows, done.rejected) == (0, 2)
    again = next(one for one in lakeport.quarantined(lake) if one.run_id == "replay:r")
    assert again.records == 2
    sql = "SELECT 7 AS id, p FROM source"
    (done,) = lakeport.replay(lake, "s", run="replay:r", sql=sql)
    assert (done.rows, ids(lake / "s")) == (2, [1, 7, 7])


def test_rows_that_were_not_as_expected_come_back_with_the_tables_types(
    driver: DriverSession, tmp_path: Path
) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    rows = {
        "id": [1, 2],
        "price": [Decimal("1.10"), Decimal("-12345678901234567.89")],
        "day": [date(2024, 2, 29)] * 2,
        "at": [datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)] * 2,
        "text": ["1", "2"],
        "parts": [[{"a": 1}], [{"a": None}]],
    }
    table = pa.table(rows)
    one = {"check": "price > 0", "otherwise": "quarantine"}
    lakeport.land(table, tmp_path, table="t", expect=[one])
    assert ids(tmp_path / "t") == [1]
    (done,) = lakeport.replay(tmp_path, "t", expect=[])
    assert (done.rows, done.rejected) == (1, 0)
    found = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by("id")
    assert {name: found[name].to_pylist() for name in rows} == rows


def test_corrected_records_come_from_a_file(driver: DriverSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (tmp_path / "t.csv").write_text("id,name\n1,Ada\nx,Bob\n")
    keys: Any = {"on_bad_record": "quarantine", "columns": {"id": "integer"}}
    lakeport.land(tmp_path / "t.csv", lake, **keys)
    (first,) = lakeport.replay(lake, "t")
    assert (first.rows, first.rejected) == (0, 1)  # its text still is no integer
    edited, again = tmp_path / "edited.jsonl", f"replay:{first.run_id}"
    edited.write_text('{"id": 2, "name": "Bob"}\n')
    for rows in (1, 0):
        (done,) = lakeport.replay(lake, "t", run=again, records_from=edited)
        assert done.rows == rows
    assert ids(lake / "t") == [1, 2]


def test_several_runs_are_replayed_each_or_named(lake: Path) -> None:
    lakeport.land(singer({"id": "9"}), lake, on_bad_record="quarantine", run_id="q")
    with pytest.raises(SourceError, match="records of the runs 'q', 'r'"):
        lakeport.replay(lake, "s", records_from=lake / "edited.jsonl")
    done = lakeport.replay(lake, "s", sql="SELECT 3 AS id FROM source")
    assert [(one.run_id, one.rows) for one in done] == [("q", 1), ("r", 2)]
    with pytest.raises(SourceError, match="nothing was set aside of table 'absent'"):
        lakeport.replay(lake, "absent")


def test_samples_of_a_failed_load_are_shown_and_not_landed(
    driver: DriverSession, tmp_path: Path
) -> None:
    with pytest.raises(lakeport.ExpectationFailed):
        lakeport.land(pa.table({"id": [None, 1]}), tmp_path, table="t", expect=[{"not_null": "id"}])
    (found,) = lakeport.quarantined(tmp_path)
    assert (found.records, found.samples) == (0, 1)
    with pytest.raises(SourceError, match="nothing was set aside"):
        lakeport.replay(tmp_path, "t")


def test_the_command_line_shows_and_replays(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "show", str(lake), "s", "--records", "1"]) == 0
    told = capsys.readouterr().out
    assert "s: 2 records of run r" in told and '"id": "2"' in told
    sql = "SELECT 5 AS id FROM source"
    assert main(["quarantine", "replay", str(lake), "s", "--sql", sql]) == 0
    assert "2 rows landed, 0 set aside again" in capsys.readouterr().out
    assert main(["quarantine", "replay", str(lake), "s", "--sql", sql, "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)
    assert (done["before"], done["rows"]) == (True, 0)
    assert main(["quarantine", "show", str(lake / "empty")]) == 0


def test_what_a_query_gives_gets_the_types_of_the_table(
    driver: DriverSession, tmp_path: Path
) -> None:
    rows = pa.table(
        {
            "id": [1, 2],
            "at": pa.array([0, 60_000_000], pa.timestamp("us", "UTC")),
            "price": pa.array(["1.50", "-3.00"]).cast(pa.decimal128(10, 2)),
        }
    )
    expect = [{"check": "price > 0", "otherwise": "quarantine"}]
    lakeport.land(rows, tmp_path, table="t", file_type="delta", run_id="r", expect=expect)
    sql = "SELECT id, at, -price AS price FROM source"
    (done,) = lakeport.replay(tmp_path, "t", sql=sql, expect=expect)
    assert (done.rows, done.rejected) == (1, 0)
    landed = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by("id")
    assert landed.select(["id", "at", "price"]).to_pydict() == {
        "id": [1, 2],
        "at": rows["at"].to_pylist(),
        "price": [*map(Decimal, ("1.50", "3.00"))],
    }


@pytest.mark.usefixtures("driver")
def test_what_a_load_of_a_lakes_file_set_aside_lands_as_the_load_does(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,v\n1,5\n2,6\n1,-7\n")
    file = tmp_path / "lake.yaml"
    source = "from: {files: in.csv}, expect: [{check: v > 0, otherwise: quarantine}]"
    loads = f"  m: {{{source}, mode: merge, merge_keys: [id], table: a/t}}\n  o: {{{source}}}\n"
    file.write_text(f"target: ./lake\nloads:\n{loads}")
    lakeport.run(file)
    for table in ("a/t", "o"):
        (done,) = lakeport.replay(file, table, sql="SELECT id, -v AS v FROM source")
        assert done.rows == 1
    assert ids(tmp_path / "lake" / "a" / "t") == [1, 2]
    assert ids(tmp_path / "lake" / "o") == [1, 1, 2]


def test_rows_are_not_landed_where_nothing_says_what_is_expected_of_them(
    driver: DriverSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect = [{"not_null": "v", "otherwise": "quarantine"}, {"rows": {"at_least": 1}}]
    lakeport.land([{"id": 1, "v": 1}, {"id": 2, "v": None}], tmp_path, table="t", expect=expect)
    (found,) = lakeport.quarantined(tmp_path)
    assert found.expectations == ("not_null(v)",)
    with pytest.raises(ConfigError, match=r"that did not meet not_null\(v\), and nothing says"):
        lakeport.replay(tmp_path, "t")
    assert main(["quarantine", "replay", str(tmp_path), "t"]) == 2
    assert "--no-expect" in capsys.readouterr().err
    both = ["--no-expect", "--expect", "not_null: v"]
    assert main(["quarantine", "replay", str(tmp_path), "t", *both]) == 2
    (done,) = lakeport.replay(tmp_path, "t", expect=expect[:1])
    assert (done.rows, done.rejected) == (0, 1)
    run = ["--run", done.report.run_id if done.report else "", "--no-expect"]
    assert main(["quarantine", "replay", str(tmp_path), "t", *run]) == 0
    assert ids(tmp_path / "t") == [1, 2]


@pytest.mark.usefixtures("driver")
def test_a_lakes_file_says_what_is_expected_again(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,v\n1,5\n2,-6\n3,-7\n")
    file = tmp_path / "lake.yaml"

    def say(check: str) -> None:
        first = f"{{check: {check}, otherwise: quarantine}}"
        expect = f"[{first}, {{unique: id}}, {{rows: {{at_least: 1}}}}]"
        load = f"{{from: {{files: in.csv}}, expect: {expect}}}"
        file.write_text(f"target: ./lake\nloads:\n  t: {load}\n")

    say("v > 0")
    lakeport.run(file)
    with pytest.raises(lakeport.ExpectationFailed, match=r"unique\(id\) by 2 of 2 rows"):
        lakeport.replay(file, "t", sql="SELECT 9 AS id, -v AS v FROM source")
    sql = "SELECT id, CASE id WHEN 2 THEN 6 ELSE v END AS v FROM source"
    (done,) = lakeport.replay(file, "t", sql=sql)
    assert (done.rows, done.rejected) == (1, 1)
    say("v > -10")  # what it says now counts
    (done,) = lakeport.replay(file, "t", run=f"replay:{done.run_id}")
    assert (done.rows, done.rejected) == (1, 0)
    found = DeltaTable(tmp_path / "lake" / "t").to_pyarrow_table().sort_by("id")
    assert found.select(["id", "v"]).to_pydict() == {"id": [1, 2, 3], "v": [5, 6, -7]}


@pytest.mark.usefixtures("driver")
def test_a_lakes_file_makes_rows_of_records_as_its_load_does(tmp_path: Path) -> None:
    lines = [{"id": 1, "v": 5}, {"id": 2, "v": "six"}, {"id": 3, "v": -7}]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    file = tmp_path / "lake.yaml"
    file.write_text(
        "target: ./lake\n"
        "defaults: {on_bad_record: quarantine, max_bad_records: 2}\n"
        "loads:\n"
        "  t:\n"
        "    from: {files: in.jsonl, schema: {id: bigint, v: bigint}}\n"
        "    sql: SELECT id * 10 AS ten, v + 1 AS w FROM source\n"
        "    expect: [{check: w > 0, otherwise: quarantine}]\n"
    )
    lakeport.run(file)
    (found,) = lakeport.quarantined(tmp_path / "lake")
    assert (found.records, found.rows) == (2, 1)
    fixed = tmp_path / "fixed.jsonl"
    fixed.write_text('{"id": 2, "v": 6}\n')
    with pytest.raises(ConfigError, match="1 records as they came, and 1 rows"):
        lakeport.replay(file, "t", records_from=fixed)
    done = lakeport.replay(file, "t")  # the text is no number yet, the row as bad as before
    assert [(one.rows, one.rejected) for one in done] == [(0, 1), (0, 1)]
    again = {one.run_id: one for one in lakeport.quarantined(tmp_path / "lake", "t")}
    raw = next(run for run, one in again.items() if run.startswith("replay:") and not one.rows)
    (mended,) = lakeport.replay(file, "t", run=raw, records_from=fixed)
    assert (mended.rows, mended.rejected) == (1, 0)
    table = DeltaTable(tmp_path / "lake" / "t").to_pyarrow_table().sort_by("ten")
    assert table.select(["ten", "w"]).to_pydict() == {"ten": [10, 20], "w": [6, 7]}
