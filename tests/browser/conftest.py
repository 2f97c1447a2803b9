"""One browser for all tests, and a reader for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.kit import SHARE, VIEWS, Reader, browsing, reading
from tests.browser.lakes import Site, make_lake, page_of, served


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both themes of a test of any view; with `--soak` each size in each theme."""
    if "view" in metafunc.fixturenames:
        views = VIEWS if metafunc.config.getoption("soak") else SHARE
        metafunc.parametrize("view", views, ids=["-".join(view) for view in views])


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium. It finds no host but this machine, so that nothing leaves it."""
    with browsing(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of many kinds of tables."""
    return make_lake(tmp_path_factory.mktemp("pages") / "lake")


@pytest.fixture(scope="session")
def in_file(lake: Path) -> Site:
    """Its pages in one file."""
    return Site(page_of(lake, lake.parent / "page.html"))


@pytest.fixture(scope="session")
def live(lake: Path) -> Iterator[Site]:
    """Its pages, served."""
    with served(lake) as address:
        yield Site(address)


@pytest.fixture(params=["in_file", "live"])
def site(request: pytest.FixtureRequest) -> Site:
    """Its pages, in one file and served."""
    found: Site = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    """Opens pages; the test fails where something was amiss in one of them."""
    with reading(browser) as reader:
        yield reader
