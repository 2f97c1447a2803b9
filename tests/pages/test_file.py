"""Pages in a file: of lakes, tables, runs and plans made by real loads."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lakeport
from lakeport.cli.app import main
from lakeport.config.load import load_target
from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.pages.file import build_lake_file
from lakeport.pages.lake import open_pages
from tests.unit.html.elements import Element, elements

pytestmark = pytest.mark.spark
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two tables, three runs, one of them failed, one with bad records set aside."""
    root = tmp_path / "lake"
    people = pa.table({"id": [1, 2], HOSTILE: ["<b>Ada</b>", None]})
    lakeport.land(people, root, table="silver/people & co", run_id="one")
    source = tmp_path / "sales.csv"
    source.write_text("id,amount\n1,5\n2,many\n3,7\n")
    columns = {"amount": "integer"}
    quarantine = {"columns": columns, "on_bad_record": "quarantine"}
    lakeport.land(str(source), root, run_id="two", **quarantine)
    with pytest.raises(LakeportError):
        lakeport.land(str(source), root, run_id="three", columns=columns)
    return root


def read(path: Path) -> list[Element]:
    return elements(path.read_text("utf-8"))


def sections(found: list[Element]) -> dict[str, Element]:
    return {
        unquote(str(each.attributes["id"])): each
        for each in found
        if each.name == "section" and "id" in each.attributes
    }


def test_a_lake_has_the_pages_of_its_tables_and_runs(lake: Path, tmp_path: Path) -> None:
    made = lakeport.page(lake, tmp_path / "lake.html")
    found = read(tmp_path / "lake.html")
    paths = list(sections(found))
    assert paths[0] == "/"
    assert set(paths[1:3]) == {"/table/silver/people & co", "/table/sales"}
    assert [path[:5] for path in paths[3:]] == ["/run/"] * 3
    assert (made.pages, made.left_out) == (6, 0)
    targets = {element.attributes["id"] for element in found if "id" in element.attributes}
    links = [each.attributes["href"] or "" for each in found if each.name == "a"]
    assert {unquote(link) for link in links if link.startswith("#/table")} == {
        "#/table/silver/people & co",
        "#/table/sales",
    }
    assert {unquote(link[1:]) for link in links} <= targets


def test_names_and_values_are_text(lake: Path, tmp_path: Path) -> None:
    lakeport.page(lake, tmp_path / "lake.html")
    found = read(tmp_path / "lake.html")
    assert [each.text for each in found if each.name == "script" and "alert(1)" in each.text] == [
        each.text
        for each in found
        if each.name == "script"
        and each.attributes.get("type") == "application/json"
        and "alert(1)" in each.text
    ]
    assert not [each for each in found if each.name == "b"]
    page = sections(found)["/table/silver/people & co"]
    assert HOSTILE in page.text and "<b>Ada</b>" in page.text


def test_a_table_alone(lake: Path, tmp_path: Path) -> None:
    made = lakeport.page(lake / "sales", tmp_path / "sales.html")
    assert made.pages == 1
    found = read(tmp_path / "sales.html")
    assert [each.text for each in found if each.name == "h1"] == ["sales"]
    assert not sections(found)


@pytest.mark.parametrize("name", ["two", "last"])
def test_a_run_alone(lake: Path, tmp_path: Path, name: str) -> None:
    lakeport.page(lake, tmp_path / "run.html", run=name)
    found = read(tmp_path / "run.html")
    wanted = {"last": "three"}.get(name, name)
    assert [each.text for each in found if each.name == "h1"] == [f"Run {wanted}"]
    text = " ".join(found[0].text.split())
    if name == "last":
        assert "BadRecords" in text and "Hint:" in text
    else:
        assert "1 bad record" in text and "many" in text
        assert "reading" in text and "committing" in text


def test_a_run_by_the_name_of_its_report(lake: Path, tmp_path: Path) -> None:
    (_, run, _) = lakeport.runs(lake)
    lakeport.page(lake, tmp_path / "run.html", run=run.name)
    assert "Run two" in (tmp_path / "run.html").read_text("utf-8")


def test_a_run_that_is_not_there_names_those_that_are(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no report of a run 'four'") as caught:
        lakeport.page(lake, tmp_path / "run.html", run="four")
    assert "three, two, one" in caught.value.hint
    assert not (tmp_path / "run.html").exists()


def test_masked_pages_hold_no_value(lake: Path, tmp_path: Path) -> None:
    lakeport.page(lake, tmp_path / "lake.html", mask=True)
    html = (tmp_path / "lake.html").read_text("utf-8")
    assert "Ada" not in html and "many" not in html.replace("many small files", "")
    assert "masked" in html


def test_a_report_of_others_spoils_no_page(lake: Path, tmp_path: Path) -> None:
    reports = lake / "_lakeport/reports"
    known = {
        "run_id": "odd",
        "started": "2024-05-01T10:30:00+00:00",
        "seconds": 1,
        "rows": 3,
        "ok": True,
        "error": None,
    }
    odd = {**known, "streams": [{"stream": "a", "table": 7, "rows": "x"}], "spans": "none"}
    (reports / "20990101-000000-00000000.json").write_text(json.dumps(odd))
    old = {**known, "run_id": "old", "streams": [{"stream": "a"}]}
    (reports / "20990101-000001-00000000.json").write_text(json.dumps(old))
    (reports / "20990101-000002-00000000.json").write_text("{")
    made = lakeport.page(lake, tmp_path / "lake.html")
    assert made.left_out == 1
    found = sections(read(tmp_path / "lake.html"))
    assert "/run/20990101-000001-00000000" in found
    assert "odd" in found["/"].text
    with pytest.raises(SourceError, match="report of run 'odd' can't be read"):
        lakeport.page(lake, tmp_path / "run.html", run="odd")


def test_what_does_not_fit_is_left_out_and_links_nowhere(lake: Path) -> None:
    made = build_lake_file(open_pages(load_target(str(lake), {})), max_characters=20_000)
    assert made.left_out > 0 and made.pages + made.left_out == 6
    found = elements(made.html)
    targets = {element.attributes["id"] for element in found if "id" in element.attributes}
    links = [each.attributes["href"] or "" for each in found if each.name == "a"]
    assert {unquote(link[1:]) for link in links} <= targets


def test_an_empty_lake_says_so(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    lakeport.page(tmp_path / "lake", tmp_path / "lake.html")
    text = read(tmp_path / "lake.html")[0].text
    assert "There is no table yet" in text and "No run has left a report" in text


def test_a_file_that_can_not_be_written(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        lakeport.page(lake, tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        lakeport.page(lake, tmp_path / "no" / "page.html")
    assert [path.name for path in tmp_path.iterdir() if "html" in path.name] == []


def test_what_is_no_file_is_written_to_and_not_replaced(lake: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # as `/dev/stdout` may be
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text, "utf-8")
        lakeport.page(lake / "sales", pipe)
        assert read.result(60).endswith("</html>")
    assert pipe.is_fifo()


def test_the_command(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.html"
    assert main(["page", str(lake), "-o", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"page": str(path), "bytes": path.stat().st_size, "pages": 6, "left_out": 0}
    assert main(["page", str(lake), "-o", "-"]) == 0
    assert len(sections(elements(capsys.readouterr().out))) == 6
    assert main(["page", str(tmp_path / "lak"), "-o", str(path)]) == 3
    assert "did you mean lake?" in capsys.readouterr().err


def test_a_plan_and_a_load_leave_their_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, page, lake = tmp_path / "a.csv", tmp_path / "a.html", str(tmp_path / "lake")
    source.write_text("id;betrag\n1;1,5\n2;2,5\n")
    assert main(["plan", str(source), "--to", lake, "--page", str(page)]) == 0
    assert [each.text for each in read(page) if each.name == "h1"] == ["Plan"]
    assert "betrag" in read(page)[0].text and not Path(lake).exists()
    assert main(["land", str(source), "--to", lake, "--run-id", "r1", "--page", str(page)]) == 0
    found = read(page)
    assert [each.text for each in found if each.name == "h1"] == ["Run r1"]
    assert f"--page {page}" in found[0].text  # the command that repeats it
    conflict = ["--column", "betrag=date"]
    assert main(["land", str(source), "--to", lake, "--page", str(page), *conflict]) != 0
    assert "failed" in read(page)[0].text
    assert main(["land", str(source), "--to", lake, "--page", str(tmp_path)]) == 2
    capsys.readouterr()


def test_notebooks_show_the_same_parts(lake: Path) -> None:
    table = lakeport.Table(lake / "sales")
    report = lakeport.land(pa.table({"id": [4], "amount": [8]}), lake, table="sales")
    plan = lakeport.plan(pa.table({"id": [5]}), lake, table="sales")
    for shown, words in (
        (table._repr_html_(), "Rows by version"),
        (report._repr_html_(), "Timeline"),
        (plan._repr_html_(), "What the load would do"),
        (table.history()._repr_html_(), "Versions"),
    ):
        assert shown is not None
        found = elements(shown)
        assert found[0].attributes["class"] == "lakeport"
        assert words in found[0].text
        assert not [each for each in found if each.name in ("script", "link", "iframe")]
    assert lakeport.Table(lake / "nothing")._repr_html_() is None
