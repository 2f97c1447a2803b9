"""What a reader does with pages: goes from one to another, sorts, searches, compares, copies."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import deltalake
from playwright.sync_api import Page, expect

from tests.browser.kit import LAPTOP, Reader
from tests.browser.lakes import LONG, ODD, Site, make_long_history, page_of

ORDERS = "/table/sales/orders"
MOST_BYTES = 2_000_000
COPY = {"permissions": ["clipboard-read", "clipboard-write"]}


def heading(page: Page, words: str) -> None:
    expect(page.locator("h1:visible")).to_contain_text(words)


def column(page: Page, grid: str, place: int) -> list[str]:
    cells = page.get_by_role("table", name=grid, exact=True).locator(
        f"tbody tr:visible > :nth-child({place})"
    )
    return [text.strip() for text in cells.all_inner_texts()]


def test_from_the_lake_to_a_table_and_a_run_and_back(reader: Reader, site: Site) -> None:
    page = site.open(reader)
    heading(page, "Lake")
    page.get_by_role("table", name="Tables").get_by_role("link", name=ODD).click()
    heading(page, ODD)
    page.go_back()
    heading(page, "Lake")
    page.get_by_role("link", name="day-2", exact=True).click()
    heading(page, "day-2")
    page.get_by_role("table", name="Streams").get_by_role("link").click()
    heading(page, "sales/orders")
    page.get_by_role("link", name="Lake").locator("visible=true").first.click()
    heading(page, "Lake")


def test_a_table_is_sorted_by_numbers_and_names(reader: Reader, site: Site) -> None:
    page = site.open(reader)
    grid = page.get_by_role("table", name="Tables")
    button = grid.get_by_role("button", name="rows", exact=True)
    title = grid.get_by_role("columnheader", name="rows", exact=True)
    button.click()
    expect(title).to_have_attribute("aria-sort", "ascending")
    numbers = [int(text.replace(",", "")) for text in column(page, "Tables", 3) if text != "?"]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 1000
    button.press("Enter")
    expect(title).to_have_attribute("aria-sort", "descending")
    assert column(page, "Tables", 3)[0] == f"{numbers[-1]:,}"


def test_tables_and_runs_are_searched_and_filtered(reader: Reader, site: Site) -> None:
    page = site.open(reader)
    tables = page.get_by_role("search", name="Search tables")
    tables.get_by_role("searchbox").fill("FILES lin")
    assert column(page, "Tables", 1) == ["files/lines"]
    expect(tables.locator("output")).to_have_text("1 of 6")
    tables.get_by_role("searchbox").fill("")
    tables.get_by_role("combobox").select_option("files")
    assert column(page, "Tables", 1) == ["files/hostile", "files/lines"]
    runs = page.get_by_role("search", name="Search runs")
    runs.get_by_role("combobox").select_option("failed")
    assert column(page, "Runs", 1) == ["failed"]


def test_a_picture_and_its_table_say_the_same_as_another_reader(
    reader: Reader, site: Site, lake: Path
) -> None:
    page = site.open(reader, ORDERS)
    history = deltalake.DeltaTable(lake / "sales" / "orders").history()
    page.get_by_text("The versions as a table").locator("visible=true").click()
    shown = column(page, "Versions", 3)
    assert shown == [entry["operation"] for entry in history]
    marks = page.locator("svg.chart use:visible")
    assert marks.count() == len(history)
    assert len(set(marks.evaluate_all("marks => marks.map((m) => m.getAttribute('href'))"))) >= 6
    colours = "marks => marks.map((mark) => getComputedStyle(mark).fill)"
    assert len(set(marks.evaluate_all(colours))) >= 6


def test_two_versions_are_compared(reader: Reader, site: Site, lake: Path) -> None:
    def rows(version: int) -> int:
        table = deltalake.DeltaTable(lake / "sales" / "orders", version=version)
        return len(table.to_pyarrow_table())

    page = site.open(reader, ORDERS)
    page.get_by_label("From version").locator("visible=true").fill("2")
    page.get_by_label("to version", exact=True).locator("visible=true").fill("7")
    difference = page.locator(".difference:visible")
    before, after = rows(2), rows(7)
    expect(difference).to_contain_text(f"rows: {before:,} → {after:,} (+{after - before:,})")
    expect(difference).to_contain_text("new: note, string")
    page.get_by_label("From version").locator("visible=true").fill("999")
    expect(difference).to_contain_text("There are versions 0 to")


def test_a_command_is_copied(reader: Reader, site: Site) -> None:
    page = site.open(reader, ORDERS, **COPY)
    command = page.locator(".command:visible").nth(1)
    command.get_by_role("button").click()
    expect(command.get_by_role("button")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == command.locator("code").inner_text()
    assert copied.startswith("lakeport table optimize ")


def test_times_are_the_readers_with_utc_on_hover(reader: Reader, site: Site) -> None:
    page = site.open(reader, timezone_id="Asia/Kathmandu")
    for time in page.locator("main time:visible").all()[:6]:
        at = datetime.fromisoformat(time.get_attribute("datetime") or "")
        local = at.astimezone(ZoneInfo("Asia/Kathmandu"))
        assert time.inner_text() == f"{local:%Y-%m-%d %H:%M:%S}"
        assert time.get_attribute("title") == f"{at:%Y-%m-%d %H:%M:%S} UTC"


def test_the_reader_chooses_a_theme(reader: Reader, site: Site) -> None:
    def colour() -> str:
        told: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return told

    page = site.open(reader, "/", LAPTOP, "light")
    light = colour()
    page.get_by_role("button", name="Show in dark colours").click()
    dark = colour()
    page.reload()
    assert [light != dark, colour()] == [True, dark]


def test_a_page_of_a_thousand_versions_is_small(reader: Reader, tmp_path: Path) -> None:
    table = make_long_history(tmp_path / "long")
    address = page_of(table, tmp_path / "long.html")
    assert (tmp_path / "long.html").stat().st_size < MOST_BYTES
    page = reader.open(address)
    heading(page, "long")
    page.get_by_text("The versions as a table").click()
    assert len(column(page, "Versions", 1)) == 1000


def test_an_empty_lake_says_so(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    page = reader.open(page_of(tmp_path / "lake", tmp_path / "lake.html"))
    expect(page.locator("main")).to_contain_text("There is no table yet")


def test_a_masked_page_holds_no_value(lake: Path, tmp_path: Path) -> None:
    page_of(lake, tmp_path / "masked.html", "--mask")
    text = (tmp_path / "masked.html").read_text("utf-8")
    assert re.findall("customer [0-9]|onerror|was [0-9]{3}", text) == []
    assert LONG in text
