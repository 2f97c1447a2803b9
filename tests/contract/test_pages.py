"""The page of a lake, with its tables and its runs, on every destination."""

from __future__ import annotations

from pathlib import Path

import lakeport
from tests.contract.conftest import Land
from tests.contract.targets import INTEGER, STRING, Target, records, schema, singer
from tests.unit.html.elements import Element, elements


def section(found: list[Element], path: str) -> Element:
    return next(each for each in found if each.attributes.get("id") == path)


def facts(page: Element) -> dict[str, str]:
    """The figures at a page's head."""
    pairs = [each.text.strip() for each in within(page) if each.name in ("dt", "dd")]
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def within(element: Element) -> list[Element]:
    return [each for inside in element.inside for each in (inside, *within(inside))]


def test_a_page_tells_what_was_landed(target: Target, land: Land, tmp_path: Path) -> None:
    columns = {"id": INTEGER, "name": STRING}
    rows = [{"id": 1, "name": "<b>Ada</b>"}, {"id": 2, "name": None}]
    for run in ("first", "second"):
        lines = singer(schema("users", columns), *records("users", rows))
        land(lines, run_id=run)
    made = lakeport.page(target.keys, tmp_path / "lake.html")
    html = (tmp_path / "lake.html").read_text("utf-8")
    assert (made.pages, made.left_out) == (4, 0)  # the lake, its table, its two runs
    for secret in ("minioadmin", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"):
        assert secret not in html

    found = elements(html)
    told = facts(section(found, "/table/users"))
    assert told["format"] == target.format
    assert told["rows"] == "4"  # of CSV files by their manifests
    assert told["files"].startswith("2")
    runs = [each for each in found if (each.attributes.get("id") or "").startswith("/run/")]
    assert [facts(run)["rows"] for run in runs] == ["2", "2"]
    assert ["second" in runs[0].text, "first" in runs[1].text] == [True, True]
    page = section(found, "/table/users")
    assert "<b>Ada</b>" in page.text  # as text, among the first rows
    assert not [each for each in within(page) if each.name == "b"]
