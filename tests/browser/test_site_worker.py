"""The site's search has a worker where a browser starts none: in pages opened from a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.browser.kit import PATIENCE
from tests.docs.pages import ROOT

SCRIPT = ROOT / "scripts" / "site" / "iframe-worker.js"
WORKER = """addEventListener("message", ({ data }) => {
  data.words.push("answered")
  postMessage(data)
})"""
ASK = """() => new Promise((done, failed) => {
  const asked = { words: ["asked"] }
  const worker = new Worker("worker.js")
  worker.onmessage = ({ data }) => {
    const frames = document.querySelectorAll("iframe").length
    worker.terminate()
    done([asked.words, data.words, frames, document.querySelectorAll("iframe").length])
  }
  worker.onerror = () => failed(new Error("no worker"))
  worker.postMessage(asked)
})"""


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """A page opened from a file, with the site's script in it."""
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "page.html").write_text(f'<!doctype html><script src="{SCRIPT.name}"></script>')
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto((tmp_path / "page.html").as_uri())
    yield page
    page.close()


def test_a_worker_answers_and_shares_no_data(page: Page, tmp_path: Path) -> None:
    (tmp_path / "worker.js").write_text(WORKER)
    assert page.evaluate(ASK) == [["asked"], ["asked", "answered"], 1, 0]


def test_a_script_that_is_not_there_is_an_error(page: Page) -> None:
    with pytest.raises(Error, match="no worker"):
        page.evaluate(ASK)


def test_elsewhere_the_browsers_own_workers_stay(browser: Browser) -> None:
    page = browser.new_page()
    page.add_script_tag(path=SCRIPT)
    assert page.evaluate("Function.prototype.toString.call(Worker).includes('[native code]')")
    page.close()
