"""The pages of a lake's file, of a plan and of a run, are for everyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.pages.file import build_single_page_file
from lakeport.pages.lake import build_pipeline_plan_page, build_pipeline_run_page
from lakeport.pipeline.plan import LoadPlan, PipelinePlan
from tests.browser.kit import (
    LAPTOP,
    PHONE,
    SIZES,
    Reader,
    Theme,
    assert_accessible,
    assert_fits,
    enlarge_text,
)
from tests.browser.lakes import LONG, SCRIPT

USES = {
    "flights": (),
    "airlines": (),
    LONG: ("flights",),
    SCRIPT: ("flights", "airlines"),
    "delays": (SCRIPT, "airlines"),
    "best": ("delays", "flights"),
}


def plan_of(uses: dict[str, tuple[str, ...]]) -> PipelinePlan:
    loads = [
        LoadPlan(
            name,
            f"tables {', '.join(used)}" if used else "files in/*.csv",
            "",
            used,
            "sql",
            "the whole input at once",
            {"id": "integer", f"{name} text": "string"},
            "",
            "overwrite",
            f"/lake/{name}",
            3,
            {},
            (),
            (),
            (),
            "spark",
        )
        for name, used in uses.items()
    ]
    return PipelinePlan("/data/lake.yaml", (tuple(uses),), tuple(loads))


def report_of(uses: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    ends = ("landed", "failed", "skipped", "waiting", "interrupted", "left out")
    error = {"type": "SourceError", "message": f"gone {SCRIPT}", "hint": "look."}
    loads = [
        {
            "load": name,
            "outcome": end,
            "reason": "needs flights" if end == "skipped" else "",
            "run_id": None,
            "seconds": 1.5,
            "rows": 3,
            "rejected": 0,
            "tables": [f"/lake/{name}"],
            "uses": list(used),
            "error": error if end == "failed" else None,
            "report": None,
        }
        for (name, used), end in zip(uses.items(), ends, strict=True)
    ]
    sums = {"rows": 9, "rejected": 0, "seconds": 4.5, "warnings": ["look"]}
    return {"run_id": "r1", "file": "/data/lake.yaml", "loads": loads, **sums}


@pytest.fixture(params=["plan", "run"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A page with loads of odd names, of a plan and of a run."""
    plan, run = build_pipeline_plan_page(plan_of(USES)), build_pipeline_run_page(report_of(USES))
    path = tmp_path / "page.html"
    path.write_text(build_single_page_file(plan if request.param == "plan" else run).html)
    return path.as_uri()


def test_a_page_of_loads_is_for_everyone(
    reader: Reader, address: str, view: tuple[str, Theme]
) -> None:
    size, theme = view
    page = reader.open(address, SIZES[size], theme)
    assert page.locator("h1:visible").count() == 1
    assert_fits(page)
    assert_accessible(page)


@pytest.mark.parametrize("size", [PHONE, LAPTOP])
def test_loads_are_listed_without_a_script_and_with_large_letters(
    reader: Reader, address: str, size: tuple[int, int]
) -> None:
    page = reader.open(address, size, java_script_enabled=False)
    assert page.locator("ol.loads li").count() >= 5
    reader.close()
    page = reader.open(address, size)
    enlarge_text(page)
    assert_fits(page)


def test_a_line_leads_to_what_its_load_does(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(build_single_page_file(build_pipeline_plan_page(plan_of(USES))).html)
    page = reader.open(path.as_uri(), PHONE)
    page.get_by_role("link", name="delays").click()
    assert page.url.endswith("#load-5")
    assert "the whole input at once" in page.locator(":target").inner_text()
    assert f"uses {SCRIPT}, airlines" in page.locator("ol.loads li").nth(4).inner_text()
