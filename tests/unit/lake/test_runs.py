"""One run by its name, and samples of the bad records that it has set aside."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.errors import BadRecord, SourceError
from lakeport.html.facts import BadSample
from lakeport.lake.runs import LakeRun, find_run, read_bad_samples, read_run
from lakeport.loading.quarantine import Quarantine
from lakeport.storage.local import LocalStorage

NOW = datetime(2026, 11, 24, tzinfo=UTC)
REPORTS = "_lakeport/reports"
OLD = {
    "report": 1,
    "ok": True,
    "run_id": "old",
    "target": "/lake",
    "started": "2024-05-01T10:30:00+00:00",
    "finished": "2024-05-01T10:30:01+00:00",
    "seconds": 1.0,
    "rows": 3,
    "streams": [{"stream": "people"}],
    "error": None,
}


def named(lake: Path, name: str) -> LakeRun | None:
    return read_run(LocalStorage(str(lake)), "", name)


def write(lake: Path, name: str, report: Any) -> None:
    file = lake / REPORTS / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report))


def test_a_run_is_read_by_the_name_of_its_report(tmp_path: Path) -> None:
    write(tmp_path, "20240501-103000-1a2b3c4d", OLD)
    later = {**OLD, "run_id": "later", "started": "2024-05-02T10:30:00+00:00"}
    write(tmp_path, "20240502-103000-00000000", later)
    newest, oldest = lakeport.runs(tmp_path)
    assert (newest.name, newest.run_id) == ("20240502-103000-00000000", "later")
    assert oldest.name == "20240501-103000-1a2b3c4d" == oldest.to_dict()["name"]
    assert named(tmp_path, oldest.name) == oldest
    assert named(tmp_path, "last") == newest
    found = named(tmp_path, oldest.name)
    assert found is not None and found.report == OLD


def test_a_lake_files_run_names_the_engines_of_all_its_loads(tmp_path: Path) -> None:
    engines = [{"name": "threads", "version": ""}, {"name": "spark", "version": "4.2.0"}, None]
    loads = [
        {"load": str(n), "outcome": "landed", "run_id": None, "report": {**OLD, "engine": each}}
        for n, each in enumerate([*engines, engines[0]])
    ]
    run = LakeRun("r", "r", NOW, 1.0, 3, (), True, None, {"loads": loads}, file="lake.yaml")
    assert run.engine == "threads, spark 4.2.0"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../outside",
        "../../outside",
        "x/../20240501-103000-1a2b3c4d",
        "/20240501-103000-1a2b3c4d",
        "20240501-103000-1a2b3c4d.json",
        "20240501-103000-1a2b3c4d\n",
        "20240501-103000-1a2b3c4d\0",
        "20240501-103000-ffffffff",
    ],
)
def test_what_names_no_report_is_no_run(tmp_path: Path, name: str) -> None:
    lake = tmp_path / "lake"
    write(lake, "20240501-103000-1a2b3c4d", OLD)
    (lake / REPORTS / "x").mkdir()
    for outside in (lake / "_lakeport", lake, tmp_path):
        (outside / "outside.json").write_text(json.dumps(OLD))
    assert named(lake, name) is None


def test_a_damaged_report_is_no_run(tmp_path: Path) -> None:
    write(tmp_path, "20240501-103000-1a2b3c4d", {"report": 1})
    assert named(tmp_path, "20240501-103000-1a2b3c4d") is None
    assert named(tmp_path, "last") is None


def set_aside(lake: Path, records: list[BadRecord], sequence: int = 0) -> list[str]:
    storage = LocalStorage(str(lake))
    return list(Quarantine(storage, "r1").write(records, sequence))


def bad(line: int, reason: str = "no number", raw: bytes = b"x", **more: Any) -> BadRecord:
    return BadRecord(more.pop("stream", "a"), line, more.pop("column", "n"), reason, raw, **more)


def test_bad_records_are_told_with_their_place(tmp_path: Path) -> None:
    uris = set_aside(
        tmp_path,
        [
            bad(7, raw=b'{"n": "x"}', file="b.csv"),
            bad(0, "too long", raw="é".encode() * 900),
            bad(3, raw=b"\xff\xfe|1", stream="", column=""),
        ],
    )
    assert read_bad_samples(LocalStorage(str(tmp_path)), {"quarantine": uris}) == [
        BadSample("", "", "no number", "line 3", "\\xff\\xfe|1"),
        BadSample("a", "n", "no number", "b.csv, line 7", '{"n": "x"}'),
        BadSample("a", "n", "too long", "", "é" * 499 + "…"),
    ]


def test_each_reason_has_its_share_of_the_samples(tmp_path: Path) -> None:
    uris = set_aside(tmp_path, [bad(line) for line in range(1, 200)])
    uris += set_aside(tmp_path, [bad(line, "no date", column="d") for line in (5, 6)], 1)
    found = read_bad_samples(LocalStorage(str(tmp_path)), {"quarantine": uris}, 6)
    assert [(sample.reason, sample.where) for sample in found] == [
        ("no date", "line 5"),
        ("no date", "line 6"),
        *(("no number", f"line {line}") for line in (1, 2, 3, 4)),
    ]


def test_of_a_large_file_the_beginning_is_read(tmp_path: Path) -> None:
    uris = set_aside(tmp_path, [bad(line, raw=b"y" * 1_000) for line in range(1, 2_000)])
    storage = LocalStorage(str(tmp_path))
    whole = read_bad_samples(storage, {"quarantine": uris}, 10_000)
    assert 100 < len(whole) < 300
    assert {len(sample.record) for sample in whole} == {500}


def test_what_is_damaged_or_gone_gives_nothing(tmp_path: Path) -> None:
    first, second, gone = (set_aside(tmp_path, [bad(1)], number)[0] for number in range(3))
    lines = ["{", "[]", "null", '{"stream": "a"}', '{"raw_base64": "?"}', "[" * 100_000]
    good = Path(first).read_text()
    Path(first).write_text("\n".join([*lines, good]))
    Path(second).write_bytes(b"\xff\x00\n" * 10)
    Path(gone).unlink()
    storage = LocalStorage(str(tmp_path))
    assert len(read_bad_samples(storage, {"quarantine": [first, second, gone]})) == 1
    for report in ({}, {"quarantine": None}, {"quarantine": "x"}, {"quarantine": [1, None, {}]}):
        assert read_bad_samples(storage, report) == []


def test_no_file_but_a_quarantine_file_of_the_lake_is_read(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (own,) = set_aside(lake, [bad(1)])
    (other,) = set_aside(tmp_path / "lake2", [bad(1)])
    line = Path(own).read_text()
    folder = Path(own).parent
    (lake / "people").mkdir()
    for outside in (tmp_path / "x.jsonl", lake / "people" / "x.jsonl", folder / "x.txt"):
        outside.write_text(line)
    (folder / "link.jsonl").symlink_to(tmp_path / "x.jsonl")
    uris = [
        other,
        str(tmp_path / "x.jsonl"),
        str(lake / "people" / "x.jsonl"),
        str(folder / "x.txt"),
        str(folder / "link.jsonl"),
        f"{lake}/_lakeport/quarantine/../../people/x.jsonl",
        f"{lake}/_lakeport/quarantine/../../../x.jsonl",
        f"{lake}/_lakeport/quarantine//{tmp_path}/x.jsonl",
        f"file://{own}",
        "x.jsonl",
        "\0",
    ]
    storage = LocalStorage(str(lake))
    assert read_bad_samples(storage, {"quarantine": uris}) == []
    assert len(read_bad_samples(storage, {"quarantine": [own, *uris, own]})) == 1


def test_a_report_names_the_samples_of_its_run(tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text("id,name\n1,Ada\nx,Grace\n3,Edsger\n")
    lake = tmp_path / "lake"
    columns = {"id": "int64", "name": "string"}
    report = lakeport.land(
        source, lake, schema=columns, on_bad_record="quarantine", file_type="parquet"
    )
    (reason,) = report.reasons
    assert (reason.stream, reason.column, reason.count) == ("people", "id", 1)
    newest = named(lake, "last")
    assert newest is not None
    (sample,) = read_bad_samples(LocalStorage(str(lake)), newest.report)
    assert (sample.column, sample.reason) == (reason.column, reason.reason)
    assert (sample.where, sample.record) == ("line 3", "x,Grace")
    assert "Grace" not in json.dumps(newest.report)


def of_file(**outcomes: str) -> dict[str, Any]:
    """The report of a run of a lake's file, whose loads have these outcomes."""
    loads = [
        {
            "load": load,
            "outcome": outcome,
            "reason": "",
            "run_id": None,
            "seconds": 1.0,
            "rows": 3,
            "rejected": 0,
            "tables": [f"/lake/{load}"] if outcome == "landed" else [],
            "error": None,
            "report": {**OLD, "run_id": f"of-{load}"} if outcome == "landed" else None,
        }
        for load, outcome in outcomes.items()
    ]
    return {
        "run": 1,
        "ok": "failed" not in outcomes.values(),
        "run_id": "20240503-103000-0001abcd",
        "file": "/data/lake.yaml",
        "started": "2024-05-03T10:30:00+00:00",
        "seconds": 4.5,
        "rows": 3,
        "rejected": 0,
        "loads": loads,
        "warnings": [],
    }


def write_of_file(lake: Path, report: Any) -> None:
    folder = lake / "_lakeport/runs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "20240503-103000-0001abcd.json").write_text(json.dumps(report))


def test_a_run_of_a_file_stands_for_its_loads(tmp_path: Path) -> None:
    alone = {**OLD, "started": "2024-05-04T10:30:00+00:00"}
    write(tmp_path, "20240504-103000-1a2b3c4d", alone)
    for load in ("people", "orders"):
        own = {**OLD, "run_id": f"of-{load}", "started": "2024-05-03T10:30:01+00:00"}
        write(tmp_path, f"20240503-103001-{load}", own)
    ends = {"people": "landed", "orders": "landed", "bad": "failed", "not": "left out"}
    write_of_file(tmp_path, of_file(**ends))
    newest, run = lakeport.runs(tmp_path)
    assert (newest.run_id, newest.file) == ("old", "")
    assert (run.file, run.rows, run.seconds, run.ok) == ("/data/lake.yaml", 3, 4.5, False)
    assert run.loads == {"people": "landed", "orders": "landed", "bad": "failed"}
    assert run.outcomes == {"landed": 2, "failed": 1}
    assert run.error == "LoadsFailed: 1 of 3 loads failed: bad"
    assert run.to_dict()["loads"] == run.loads
    assert named(tmp_path, run.name) == run
    assert [each.run_id for each in lakeport.runs(tmp_path, 1)] == ["old"]
    storage = LocalStorage(str(tmp_path))
    assert find_run(storage, "", "of-orders").name == "20240503-103001-orders"
    write_of_file(tmp_path, {**of_file(**ends), "run_id": "friday"})
    assert find_run(storage, "", "friday").file == "/data/lake.yaml"
    with pytest.raises(SourceError, match="no report of a run 'of-bad'"):
        find_run(storage, "", "of-bad")


@pytest.mark.parametrize("loads", [None, 3, ["a"], [{"load": "a"}], {"a": 1}])
def test_what_is_no_report_of_a_file_is_left_out(tmp_path: Path, loads: Any) -> None:
    write(tmp_path, "20240504-103000-1a2b3c4d", OLD)
    write_of_file(tmp_path, {**of_file(a="landed"), "loads": loads})
    assert [run.run_id for run in lakeport.runs(tmp_path)] == ["old"]


def test_a_run_that_was_cut_off_says_so(tmp_path: Path) -> None:
    write_of_file(tmp_path, {**of_file(a="landed", b="waiting"), "ok": False})
    (run,) = lakeport.runs(tmp_path)
    assert run.error == "it did not come to its end"
