"""`lakeport run`: small real loads, what is said of them, and exit codes."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeport.cli.app import main
from lakeport.cli.output.console import Console
from lakeport.cli.output.loads import ConsoleLoads
from lakeport.config.load import load_target
from lakeport.host.activity import Activity
from lakeport.loading.progress import ProgressState
from lakeport.loading.report import Failure, LandingReport
from lakeport.model import Landed, StreamReport
from lakeport.pages.lake import open_pages
from lakeport.pipeline.report import LoadReport, PipelineReport

NOW = datetime(2026, 11, 24, tzinfo=UTC)
FILE = """
target: {destination: local, path: ./lake, file_type: delta}
loads:
  people: {from: {files: people.csv}, tags: [daily], expect: [{not_null: [id]}]}
  gone: {from: {files: "gone/*.csv"}}
  copies: {from: {tables: [gone]}, mode: overwrite}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEPORT_PROGRESS", "off")
    tmp_path.joinpath("people.csv").write_text("id,name\n1,Ada\n2,Grace\n")
    tmp_path.joinpath("lake.yaml").write_text(FILE)
    return tmp_path


def test_lines_a_table_and_the_failed_loads_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "lake.yaml", "--parallel", "1"]) == 3
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("people: landed, 2 rows, ")
    assert lines[2] == "copies: skipped, needs gone, which failed"
    assert "  copies: skipped: needs gone, which failed" in lines
    assert lines[-1].startswith("2 rows landed by 1 of 3 loads, ")
    assert "Error: load 'gone' failed: " in err
    assert "`--resume` does what failed and what was skipped" in err
    assert DeltaTable(folder / "lake" / "people").to_pyarrow_table().num_rows == 2


def test_a_run_that_nobody_watches_has_a_line_for_each_load_and_its_notes(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEPORT_VERBOSE")
    assert main(["run", "lake.yaml", "--tag", "daily"]) == 0
    folder.joinpath("people.csv").write_text("id,nickname\n3,Kay\n")
    capsys.readouterr()
    assert main(["run", "lake.yaml", "--tag", "daily"]) == 0
    ended, note, last = capsys.readouterr().out.splitlines()
    assert ended.startswith("people: landed, 1 row, ")
    assert note.startswith("  people: 1 column added: nickname; 1 absent, null in these rows: name")
    assert last.startswith("1 row landed by 1 load, ")
    assert main(["page", "lake.yaml", "--run", "last", "-o", "run.html"]) == 0
    assert "1 column added: nickname" in folder.joinpath("run.html").read_text()


def test_one_json_document_also_of_a_failed_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "lake.yaml", "--json"]) == 3
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert err == ""
    assert told["error"]["type"] == "LoadsFailed"
    assert {load["load"]: load["outcome"] for load in told["loads"]} == {
        "people": "landed",
        "gone": "failed",
        "copies": "skipped",
    }
    assert told["loads"][0]["report"]["rows"] == 2
    assert told["command"] == ["lakeport", "run", "lake.yaml", "--json"]


def test_a_run_that_is_well_is_0_and_leaves_nothing_to_resume(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "lake.yaml", "--tag", "daily"]) == 0
    assert main(["run", "lake.yaml", "--only", "people", "--resume"]) == 0
    assert "nothing to resume: run 2" in capsys.readouterr().out
    assert DeltaTable(folder / "lake" / "people").to_pyarrow_table().num_rows == 2


def test_a_plan_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "lake.yaml", "--plan"]) == 0
    out = capsys.readouterr().out
    assert "nothing is written: a run would do 3 loads\n  1. people, gone\n  2. copies\n" in out
    assert "not_null(id), otherwise fail" in out
    assert not (folder / "lake").exists()
    assert main(["run", "lake.yaml", "--plan", "--only", "copies", "--json"]) == 0
    (load,) = json.loads(capsys.readouterr().out)["loads"]
    assert load["uses"] == ["gone"]
    assert load["mode"] == "overwrite"


def test_each_load_has_its_own_engine(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_ENGINE", "threads")
    loads = "  a: {from: {files: people.csv}}\n  b: {from: {files: people.csv}, engine: spark}\n"
    folder.joinpath("lake.yaml").write_text(f"target: ./lake\nloads:\n{loads}")
    assert main(["run", "lake.yaml", "--plan", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["loads"]
    assert [each["engine"] for each in plans] == ["threads", "spark"]
    assert main(["run", "lake.yaml", "--only", "a"]) == 0
    assert capsys.readouterr().out.endswith(", by threads\n")


def test_a_plan_tells_what_is_new(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect("shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        shop.executemany("INSERT INTO orders VALUES (?)", [(n,) for n in range(5)])
    shop.close()
    folder.joinpath("lake.yaml").write_text(
        "target: {destination: local, path: ./lake, file_type: delta}\n"
        "loads:\n"
        '  people: {from: {files: "*.csv", new_only: true}}\n'
        '  orders: {from: {database: "sqlite:///shop.db", table: orders, cursor: id}}\n'
        "  plain: {from: {files: people.csv}}\n"
        "  gone: {from: {files: gone.csv, new_only: true}}\n"
    )

    def news() -> dict[str, str]:
        assert main(["run", "lake.yaml", "--plan", "--json"]) == 0
        loads = json.loads(capsys.readouterr().out)["loads"]
        return {load["load"]: load["news"] for load in loads}

    first = news()
    assert first["people"].startswith("1 new file, ")
    assert first["orders"] == "all rows: none was landed yet"
    assert first["plain"] == ""
    assert first["gone"].startswith("it would fail: ")
    assert main(["run", "lake.yaml", "--only", "people,orders"]) == 0
    capsys.readouterr()
    folder.joinpath("more.csv").write_text("id,name\n3,Edith\n")
    folder.joinpath("most.csv").write_text("id,name\n4,Radia\n")
    then = news()
    assert then["people"].startswith("2 new files, ")
    assert then["orders"] == "rows from id 4 on"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "peple"], "did you mean `people`"),
        (["--full-refresh", "peple"], "did you mean `people`"),
        (["--tag", "weekly"], "no load has the tag 'weekly'"),
    ],
)
def test_what_is_wrong_with_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["run", "lake.yaml", *options]) == 2
    assert words in capsys.readouterr().err


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def ended(name: str, outcome: Any = "landed", rows: int = 0, rejected: int = 0) -> LoadReport:
    place, warnings = f"/lake/{name}", ("mind the gap",)
    stream = StreamReport(name, place, rows=rows, rejected=rejected, warnings=warnings)
    landing = LandingReport("r", "/lake", NOW, NOW, 0.5, (stream,))
    error = Failure("SourceError", "gone") if outcome == "failed" else None
    return LoadReport(name, outcome, seconds=0.5, landing=landing, error=error)


def test_rejected_records_are_in_a_loads_line() -> None:
    out = io.StringIO()
    loads = ConsoleLoads(Console(out, io.StringIO()))
    loads.on_ended(ended("flights", rows=1, rejected=1200))
    assert out.getvalue() == "flights: landed, 1 row, 1,200 rejected, 0.5 s\n"


def test_a_plan_names_partitions_as_the_table_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.joinpath("lake.yaml").write_text(
        "target: {destination: local, path: lake, engine: threads, column_header_format: snake}\n"
        "loads: {people: {from: {files: people.csv}, partition_keys: [Größe, Name]}}\n"
    )
    assert main(["run", "lake.yaml", "--plan"]) == 0
    assert "partitions  grosse, name\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("columns", "kept"), [("100", "table"), ("44", "outcome"), ("60", "outcome")]
)
def test_a_terminal_has_a_line_for_each_load_and_a_table(
    monkeypatch: pytest.MonkeyPatch, columns: str, kept: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = Terminal()
    loads = ConsoleLoads(Console(out, io.StringIO()))
    for name in ("flights", "orders"):
        loads.on_begun(name)
    loads.on_landed("flights", Landed("flights", "/lake/flights", 0, 1200, ("f",), 9))
    loads.on_ended(ended("airports", "failed"))
    going_on = Activity("writing", "flights", 0.0, total=2_000_000, done=1_000_000, load="flights")
    lines = loads.lines(ProgressState("running", 0.0, 5.0, (going_on,)), 90)
    assert lines[0].startswith("flights  ")
    assert "1,200 rows landed, writing: 1.0 of 2.0 MB (50%)" in lines[0]
    assert lines[1].startswith("orders ")
    assert lines[2] == "1 load ended, 1 failed"
    assert all(
        len(line) <= 40 for line in loads.lines(ProgressState("", 0.0, 5.0, (going_on,)), 40)
    )
    told = (ended("flights", rows=1200), ended("airports", "failed"), LoadReport("x", "left out"))
    loads.on_finished(PipelineReport("r1", "/lake.yaml", NOW, NOW, 1.0, told))
    text = out.getvalue().splitlines()
    assert kept in text[0]
    assert all(len(line) <= int(columns) for line in text)
    assert "  flights: mind the gap" in text
    assert not any(line.startswith("x ") for line in text)


def test_a_plan_and_a_run_leave_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "lake.yaml", "--plan", "--page", "a.html"]) == 0
    plan = folder.joinpath("a.html").read_text()
    assert "Plan of lake.yaml" in plan
    assert plan.count("; uses gone") == 1
    assert "not_null(id), otherwise fail" in plan
    assert not (folder / "lake").exists()
    assert main(["run", "lake.yaml", "--page", "b.html"]) == 3
    run = folder.joinpath("b.html").read_text()
    assert "landed, 2 rows" in run
    assert "needs gone, which failed" in run
    assert "matches no file" in run
    assert main(["run", "lake.yaml", "--page", "nowhere/b.html"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err


def test_a_run_is_listed_with_its_loads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "lake.yaml"]) == 3
    assert main(["land", "people.csv", "--to", "lake.yaml", "--table", "alone"]) == 0
    capsys.readouterr()
    assert main(["runs", "lake.yaml", "--json"]) == 0
    alone, run = json.loads(capsys.readouterr().out)
    assert alone["loads"] == {}
    assert run["loads"] == {"people": "landed", "gone": "failed", "copies": "skipped"}
    assert main(["runs", "lake.yaml"]) == 0
    assert "loads of lake.yaml: 1 landed, 1 failed, 1 skipped" in capsys.readouterr().out
    assert main(["runs", "lake.yaml", "--run", run["run_id"]]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (people,) = (line for line in lines if line[:2] == ["people", "landed"])
    assert ["copies:", "needs", "gone,", "which", "failed"] in lines
    assert main(["runs", "lake.yaml", "--run", people[-1], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["streams"][0]["stream"] == "people"
    assert main(["runs", "lake.yaml", "--run", "other"]) == 3
    pages = open_pages(load_target("lake.yaml"))
    served = pages.find_page(f"/run/{run['name']}")
    assert served is not None
    (link,) = re.findall(f'href="(/run/[^"]+)">{re.escape(people[-1])}<', served.body)
    assert (own := pages.find_page(link)) is not None and "Timeline" in own.body
    assert main(["page", "lake.yaml", "-o", "a.html"]) == 0
    page = folder.joinpath("a.html").read_text()
    assert "loads: 1 landed, 1 failed, 1 skipped" in page
    assert "needs gone, which failed" in page
