"""What readers do with the pages: follow links, sort, search, copy."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

import lakeport
from lakeport.host.activity import Activity
from lakeport.loading.progress import ProgressState, SharedProgress
from lakeport.model import EngineReport
from tests.browser.kit import PHONE, Reader, assert_accessible, assert_fits
from tests.browser.lakes import Site, page_of, served
from tests.long_table import write_long_table

ORDERS = "/table/sales/orders"


def column(page: Page, table: str, place: int) -> list[str]:
    """The texts of a column of the rows that are shown."""
    cells = page.locator(f"{table} tbody tr:visible > :nth-child({place})")
    return [" ".join(text.split()) for text in cells.all_inner_texts()]


def test_from_the_lake_to_a_table_to_a_run_and_back(reader: Reader, site: Site) -> None:
    page = site.open(reader)
    page.get_by_role("link", name="sales/orders", exact=True).first.click()
    expect(page.locator("h1:visible")).to_have_text("sales/orders")
    page.get_by_role("link", name="Lake").locator("visible=true").first.click()
    expect(page.locator("h1:visible")).to_have_text("Lake")
    page.get_by_role("link", name="failed", exact=True).click()
    expect(page.locator("h1:visible")).to_have_text("Run failed")
    expect(page.locator(".failed .state:visible")).to_have_text("failed")
    page.go_back()
    expect(page.locator("h1:visible")).to_have_text("Lake")
    page.get_by_role("link", name="day-1", exact=True).click()
    expect(page.locator("h1:visible")).to_have_text("Run day-1")
    page.locator("main table a:visible", has_text="orders").click()
    expect(page.locator("h1:visible")).to_have_text("sales/orders")


def test_titles_sort_numbers_as_numbers(reader: Reader, in_file: Site) -> None:
    page = in_file.open(reader)
    title = page.locator("table.lake thead th").nth(2)
    for direction, reverse in (("ascending", False), ("descending", True)):
        title.get_by_role("button", name="rows").click()
        expect(title).to_have_attribute("aria-sort", direction)
        *known, unknown = column(page, "table.lake", 3)
        assert unknown == "?"  # nothing is counted in CSV files
        rows = [int(text.replace(",", "")) for text in known]
        assert rows == sorted(rows, reverse=reverse) and len(set(rows)) > 2
    page.locator("table.lake thead th").nth(0).get_by_role("button").click()
    expect(title).not_to_have_attribute("aria-sort", re.compile(".*"))
    names = column(page, "table.lake", 1)
    assert names[-1].startswith("ödd") or names[0].startswith("a_table")


def test_a_lake_is_searched_and_filtered(reader: Reader, in_file: Site) -> None:
    page = in_file.open(reader)
    tables = (
        page.get_by_role("region", name="Tables").or_(page.locator("[aria-label=Tables]")).first
    )
    search, choice = tables.get_by_role("searchbox"), tables.get_by_label("Show")
    search.fill("ORDERS delta")
    expect(tables.locator("output.matches")).to_have_text("1 of 6")
    assert [name.split()[0] for name in column(page, "table.lake", 1)] == ["sales/orders"]
    search.fill("")
    choice.select_option("files")
    expect(tables.locator("output.matches")).to_have_text("2 of 6")
    assert set(column(page, "table.lake", 2)) == {"parquet", "csv"}
    search.fill("nothing of that kind")
    expect(tables.locator("output.matches")).to_have_text("0 of 6")


def test_runs_are_filtered_by_their_result(reader: Reader, in_file: Site) -> None:
    page = in_file.open(reader)
    runs = page.locator("section[aria-label=Runs]")
    runs.get_by_label("Show").select_option("failed")
    assert runs.locator("tbody tr:visible th").last.inner_text() == "failed"
    assert runs.locator("table.sortable tbody tr:visible").count() == 1


def test_every_picture_has_its_data_one_click_away(reader: Reader, in_file: Site) -> None:
    for path in ("/", ORDERS):
        page = in_file.open(reader, path)
        sections = page.locator("section:visible", has=page.locator("figure svg.chart"))
        for section in sections.all():
            if section.locator("section:visible").count():
                continue  # it holds others, each with its own
            section.locator("summary").last.click()
            assert section.locator("details[open] table:visible").count() > 0


def test_a_version_says_which_columns_came(reader: Reader, site: Site) -> None:
    page = site.open(reader, ORDERS)
    page.get_by_text("The versions", exact=True).locator("visible=true").click()
    assert "new: note, string" in page.locator("table.versions:visible").inner_text()


def test_a_command_is_copied(reader: Reader, site: Site, lake: Path) -> None:
    page = site.open(reader, ORDERS, permissions=["clipboard-read", "clipboard-write"])
    command = page.locator(".command:visible", has_text="table show")
    command.get_by_role("button").click()
    expect(command.get_by_role("button")).to_have_text("Copied")
    uri = lake / "sales" / "orders"
    assert page.evaluate("navigator.clipboard.readText()") == f"lakeport table show {uri}"


def test_times_are_those_of_the_readers_zone(reader: Reader, site: Site, lake: Path) -> None:
    newest = lakeport.Table(lake / "sales/orders").history(1)[0].timestamp
    assert newest is not None
    page = site.open(reader, ORDERS, timezone_id="America/St_Johns")
    shown = page.locator("dd time:visible").first
    local = newest.astimezone(ZoneInfo("America/St_Johns"))
    assert shown.inner_text() == f"{local:%Y-%m-%d %H:%M:%S}"
    assert shown.get_attribute("title") == f"{newest:%Y-%m-%d %H:%M:%S} UTC"
    assert datetime.fromisoformat(shown.get_attribute("datetime") or "") == newest.replace(
        microsecond=0
    )


def test_the_readers_choice_of_a_theme_stays(reader: Reader, live: Site) -> None:
    page = live.open(reader)

    def background() -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light = background()
    page.get_by_role("button", name="Show in dark colours").click()
    assert background() != light
    page.goto(live.address(ORDERS))
    assert background() != light
    page.get_by_role("button", name="Show in light colours").click()
    assert background() == light


def test_a_long_history_is_one_small_page(
    reader: Reader, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("long")
    table = folder / "events"
    write_long_table(table)
    page = reader.open(page_of(table, folder / "events.html"))
    assert (folder / "events.html").stat().st_size < 2_000_000
    assert page.locator("svg.chart:visible").count() >= 3
    page.get_by_text("The versions", exact=True).click()
    assert page.locator("tr[data-version]").count() == 1000
    with served(table) as address:
        assert reader.open(address).locator("h1").inner_text() == "events"


def test_masked_pages_show_no_value(reader: Reader, lake: Path, tmp_path: Path) -> None:
    page = reader.open(page_of(lake, tmp_path / "page.html", "--mask") + f"#{ORDERS}")
    assert "customer 1" not in page.content()
    assert page.get_by_text("masked").locator("visible=true").count() > 0


def test_a_title_that_sorts_is_named_by_its_column_alone(reader: Reader, in_file: Site) -> None:
    titles = in_file.open(reader).locator("table.lake thead th")
    assert titles.nth(2).get_by_role("button", name="rows", exact=True).count() == 1


_LINES = "elements => elements.map(each => each.getClientRects().length)"
_ROOM = "(element) => innerWidth - element.getBoundingClientRect().right"
_GAPS = """tiles => {
  const box = tiles[0].parentElement.getBoundingClientRect();
  const rows = Object.groupBy(tiles, tile => tile.offsetTop);
  return Object.values(rows).map(row => box.right - row.at(-1).getBoundingClientRect().right);
}"""


def test_on_a_phone_ids_stay_whole_errors_wrap_and_tiles_fill_their_row(
    reader: Reader, in_file: Site
) -> None:
    page = in_file.open(reader, "/", PHONE)
    ids = page.locator(".run .id a:visible")
    assert set(ids.evaluate_all(_LINES)) == {1}
    assert page.locator(".why:visible").first.evaluate(_ROOM) >= 0
    gaps = page.locator(".facts:visible").first.locator("> div").evaluate_all(_GAPS)
    assert max(map(abs, gaps)) < 1
    box = page.locator(".scroll:visible").first
    assert "gradient" in box.evaluate("element => getComputedStyle(element).backgroundImage")


def test_a_running_load_is_shown_until_it_ends(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path / "cache"))
    lakeport.land([{"id": 1}], tmp_path / "lake", table="people")
    engine = EngineReport("spark", "4.2.0", ui="http://127.0.0.1:4040")
    with served(tmp_path / "lake") as address:
        page = reader.open(address, PHONE)
        running = page.locator(".running")
        expect(running).to_be_hidden()
        shared = SharedProgress("monday", str(tmp_path / "lake"), lambda: engine)
        elsewhere = SharedProgress("tuesday", str(tmp_path / "lake2"), lambda: engine)
        now = time.monotonic()
        doing = Activity("reading", "people.csv", now, total=8, done=4)
        for each in (shared, elsewhere):
            each.draw(ProgressState("landing", now, now + 2, (doing,)))
        expect(running.get_by_role("heading")).to_have_text(["Running now", "monday"])
        expect(running).to_contain_text("Spark 4.2.0")
        expect(running.get_by_role("link", name="Spark's UI")).to_be_visible()
        expect(running.get_by_role("progressbar")).to_have_attribute("value", "0.5")
        assert_accessible(page)
        assert_fits(page)
        shared.clear()
        expect(page.get_by_text("A load has ended. See its run")).to_be_visible()
        expect(running).to_be_hidden()


def test_an_empty_lake_says_so(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    page = reader.open(page_of(tmp_path / "lake", tmp_path / "lake.html"))
    expect(page.locator("main")).to_contain_text("There is no table yet")
