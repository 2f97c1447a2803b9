"""One browser for all tests, and a reader for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import Chromium
from tests.browser.kit import PATIENCE, Reader, reading


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium. It finds no host but this machine, so that nothing leaves it."""
    import os

    chromium = Chromium.find(tmp_path_factory.mktemp("chromium"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.program,
            chromium_sandbox=False,
            env={**os.environ, **chromium.variables},
            args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
            timeout=PATIENCE,
        )
        yield browser
        browser.close()


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    """Opens pages; the test fails where something was amiss in one of them."""
    with reading(browser) as reader:
        yield reader
