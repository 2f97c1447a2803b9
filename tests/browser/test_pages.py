"""Every page of a lake, in a file and served, is for everyone: at every size, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

import lakeport
from tests.browser.kit import (
    LAPTOP,
    PHONE,
    SIZES,
    Reader,
    Theme,
    assert_accessible,
    assert_fits,
    assert_labels_fit,
    enlarge_text,
    moving,
    walk,
)
from tests.browser.lakes import LONG, ODD, SCRIPT, Site

ORDERS = "/table/sales/orders"
NARROWEST = (320, 640)  # a laptop's window at 400 %


@pytest.fixture(scope="session")
def paths(lake: Path) -> dict[str, str]:
    """A page of each kind -> its path."""
    runs = {run.run_id: f"/run/{run.name}" for run in lakeport.runs(lake)}
    (aside,) = (f"/run/{run.name}" for run in lakeport.runs(lake) if run.report["rejected"])
    tables = ("files/hostile", "files/lines", ODD, LONG, "nothing")
    return {
        "lake": "/",
        "table": ORDERS,
        **{name: f"/table/{name}" for name in tables},
        "run": runs["day-1"],
        "set aside": aside,
        "failed": runs["failed"],
    }


def open_details(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")


def test_every_page_is_for_everyone(
    reader: Reader, in_file: Site, paths: dict[str, str], view: tuple[str, Theme]
) -> None:
    size, theme = view
    for name, path in paths.items():
        page = in_file.open(reader, path, SIZES[size], theme)
        assert page.locator("h1:visible").count() == 1, name
        assert_labels_fit(page)
        open_details(page)
        assert_fits(page)
        assert_accessible(page)
        reader.close()


@pytest.mark.parametrize(
    ("size", "theme"),
    [pytest.param(PHONE, "dark", marks=pytest.mark.soak), (LAPTOP, "light")],
)
def test_every_served_page_is_for_everyone(
    reader: Reader, live: Site, paths: dict[str, str], size: tuple[int, int], theme: Theme
) -> None:
    page = live.open(reader, "/", size, theme)
    for path in paths.values():
        page.goto(live.address(path))
        assert_labels_fit(page)
        open_details(page)
        assert_fits(page)
        assert_accessible(page)


def test_every_page_fits_with_large_letters(
    reader: Reader, in_file: Site, paths: dict[str, str]
) -> None:
    for path in paths.values():
        assert_fits(in_file.open(reader, path, NARROWEST))
        page = in_file.open(reader, path, LAPTOP)
        enlarge_text(page)
        assert_fits(page)
        reader.close()


def test_a_keyboard_reaches_everything(reader: Reader, site: Site, paths: dict[str, str]) -> None:
    for name in ("lake", "table", "set aside"):
        page = site.open(reader, paths[name])
        stops = walk(page)
        if not site.in_file:  # there an address begins within the content
            assert stops[0] == "link Skip to the content"
        reached = {stop.partition(" ")[2] for stop in stops}
        links = page.locator("main a:visible, main summary:visible").all_inner_texts()
        assert {" ".join(link.split()) for link in links} <= reached
        reader.close()


def test_contrast_colours_and_motion_as_the_reader_has_set_them(
    reader: Reader, in_file: Site, paths: dict[str, str]
) -> None:
    for name in ("lake", "table", "set aside"):
        page = in_file.open(reader, paths[name], contrast="more", reduced_motion="reduce")
        assert_accessible(page)
        assert moving(page) == 0
        assert_accessible(in_file.open(reader, paths[name], forced_colors="active"))
        reader.close()


def test_without_script_all_is_there(reader: Reader, site: Site, paths: dict[str, str]) -> None:
    for path in paths.values():
        page = site.open(reader, path, java_script_enabled=False)
        assert page.locator("h1:visible").count() == 1
        assert page.locator("form:visible, button:visible").count() == 0
        for summary in page.locator("summary:visible").all():
            summary.click()
        assert page.locator("details:visible:not([open])").count() == 0
        assert_fits(page)
        reader.close()


def test_names_and_values_are_only_text(
    reader: Reader, in_file: Site, paths: dict[str, str]
) -> None:
    for name in ("lake", "files/hostile", "files/lines", ODD, "set aside", "table"):
        page = in_file.open(reader, paths[name])
        page.on("dialog", lambda dialog: reader.amiss.append(f"dialog: {dialog.message}"))
        assert page.locator("img, main script:not([type='application/json'])").count() == 0
        open_details(page)
        words = page.locator("main").inner_text()
        expected = {
            "lake": ODD,
            ODD: "<script>alert`1`</script>",
            "set aside": "<img src=x onerror=alert(2)>",
        }
        assert expected.get(name, SCRIPT) in words, name
    assert reader.amiss == []
