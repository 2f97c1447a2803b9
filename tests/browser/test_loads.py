"""The pages of a lake's file, of a plan and of a run, are for everyone, and their arrows meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from lakeport.html.charts import lanes
from lakeport.pages.file import alone
from lakeport.pages.lake import page_of_lake_plan, page_of_lake_run
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
    plan, run = page_of_lake_plan(plan_of(USES)), page_of_lake_run(report_of(USES))
    path = tmp_path / "page.html"
    path.write_text(alone(plan if request.param == "plan" else run).html)
    return path.as_uri()


def test_a_page_of_loads_is_for_everyone(
    reader: Reader, address: str, view: tuple[str, Theme]
) -> None:
    size, theme = view
    page = reader.open(address, SIZES[size], theme)
    assert page.locator("h1:visible").count() == 1
    assert_fits(page)
    assert_accessible(page)
    assert_meets(page)


@pytest.mark.parametrize("size", [PHONE, LAPTOP])
def test_arrows_meet_boxes_without_a_script_and_with_large_letters(
    reader: Reader, address: str, size: tuple[int, int]
) -> None:
    page = reader.open(address, size, java_script_enabled=False)
    assert page.locator(".graph li").count() >= 5
    reader.close()
    page = reader.open(address, size)
    enlarge_text(page)
    assert_meets(page)
    assert_fits(page)


def test_a_box_leads_to_what_its_load_does(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(alone(page_of_lake_plan(plan_of(USES))).html)
    page = reader.open(path.as_uri(), PHONE)
    page.get_by_role("link", name="delays").click()
    assert page.url.endswith("#load-5")
    assert "the whole input at once" in page.locator(":target").inner_text()
    assert f"uses {SCRIPT}, airlines" in page.locator(".graph li").nth(4).inner_text()


def assert_meets(page: Page) -> None:
    """Every arrow ends within the height of its box, and at its edge."""
    boxes = [box.bounding_box() for box in page.locator(".graph li").all()]
    heads = page.locator(".arrows line[marker-end]").evaluate_all(
        """lines => lines.map(line => {
            const box = line.getBoundingClientRect();
            return [box.right, box.top];
        })"""
    )
    assert heads
    for right, y in heads:
        within = [b for b in boxes if b is not None and b["y"] < y < b["y"] + b["height"]]
        assert len(within) == 1
        assert abs(within[0]["x"] - right) < 6


def test_lanes_are_shared_only_one_after_the_other() -> None:
    uses = {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("c",), "e": ("a", "d", "gone")}
    own = lanes(uses)
    row = {name: number for number, name in enumerate(uses)}
    last = {name: max(row[o] for o, used in uses.items() if name in used) for name in own}
    for one in own:
        for other in own:
            if one != other and own[one] == own[other]:
                assert last[one] <= row[other] or last[other] <= row[one]
    assert own == {"a": 0, "b": 1, "c": 1, "d": 1}
