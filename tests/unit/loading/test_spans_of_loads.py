"""The spans and the pace of real loads, most of them done without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.cli import app
from lakeport.cli.app import main
from tests.spans import check, check_landed, singer, write_people


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.csv")


@pytest.mark.parametrize("file_type", ["parquet", "csv"])
def test_files_of_a_csv_file(people: Path, tmp_path: Path, file_type: Any) -> None:
    report = lakeport.land(people, tmp_path / "lake", file_type=file_type)
    check_landed(report)
    assert report.rows == 2_000 and report.reading_pace == () and report.command is None


def test_files_of_singer_streams(tmp_path: Path) -> None:
    report = lakeport.land(
        singer("a", "b"), tmp_path / "lake", file_type="parquet", maximum_batch_rows=500
    )
    check_landed(report)
    assert {span.stream for span in report.spans} == {"", "a", "b"}
    assert report.reading_pace[-1][1] == report.rows == 2_000
    assert sum(s.tasks for s in report.spans if s.stage == "parsing") >= 4


def test_checking_comes_before_writing(people: Path, tmp_path: Path) -> None:
    people.write_text(people.read_text() + "x,Ada\n")
    report = lakeport.land(
        people,
        tmp_path / "lake",
        schema={"id": "int64", "name": "string"},
        on_bad_record="quarantine",
        file_type="parquet",
    )
    check_landed(report)
    found = check(report)
    assert found["people", "checking"][0].end <= found["people", "writing"][0].start
    assert [(one.column, one.count) for one in report.reasons] == [("id", 1)]


def test_many_partitions_are_closed_at_once(people: Path, tmp_path: Path) -> None:
    report = lakeport.land(people, tmp_path / "lake", partition_keys="name")
    check_landed(report)
    assert report.files == 7


def test_a_failed_run_tells_how_far_it_came(people: Path, tmp_path: Path) -> None:
    people.write_text(people.read_text() + "x,Ada\n")
    lake = tmp_path / "lake"
    with pytest.raises(lakeport.BadRecords):
        lakeport.land(people, lake, schema={"id": "int64", "name": "string"}, file_type="parquet")
    with pytest.raises(lakeport.SourceError):
        lakeport.land(tmp_path / "none.csv", lake, file_type="parquet")
    second, first = lakeport.runs(lake)
    stages = {(span["stage"], span["stream"]) for span in first.report["spans"]}
    assert {("opening", ""), ("reading", ""), ("writing", "people")} <= stages
    assert ("committing", "people") not in stages
    assert [span["stage"] for span in second.report["spans"]] == ["opening"]
    for run in (first, second):
        assert all(0 <= s["start"] <= s["end"] <= run.seconds for s in run.report["spans"])


def test_many_streams_make_no_large_report(tmp_path: Path) -> None:
    names = [f"stream_{number}" for number in range(200)]
    report = lakeport.land(singer(*names, records=1), tmp_path / "lake", file_type="parquet")
    check(report)
    told = {span.stream for span in report.spans} - {""}
    assert report.rows == 200 and report.streams_left_out == 200 - len(told) > 0
    assert len(json.dumps(report.to_dict()["spans"])) < 40_000


def test_the_report_tells_the_command(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(tmp_path / "lake")
    arguments = ["land", str(people), "--to", lake, "--format", "parquet", "--run-id", "r 1"]
    assert main(arguments) == 0
    (run,) = lakeport.runs(lake)
    assert run.report["command"] == ["lakeport", *arguments]
    capsys.readouterr()
    assert main(["runs", lake, "--last"]) == 0
    shown = capsys.readouterr().out
    assert "run r 1" in shown
    assert not [name for name in ("spans", "pace", "command", "reasons") if name in shown]


@pytest.mark.parametrize("program", ["target-lakeport", "lakeport"])
def test_singer_targets_tell_their_commands(tmp_path: Path, program: str) -> None:
    lake, lines = tmp_path / "lake", tmp_path / "lines.jsonl"
    lines.write_bytes(singer("a", records=3).getvalue())
    config = {"path": str(lake), "file_type": "parquet"}
    if program == "lakeport":
        arguments = ["target", "local", "--config_json", json.dumps(config)]
        arguments += ["--input_file_path", str(lines)]
    else:
        file = tmp_path / "config.json"
        file.write_text(json.dumps({"destination": "local", **config}))
        arguments = ["--config", str(file), "--input", str(lines)]
    assert app.start(program, arguments) == 0
    (run,) = lakeport.runs(lake)
    assert run.rows == 3 and run.report["command"] == [program, *arguments]
