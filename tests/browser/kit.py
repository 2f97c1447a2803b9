"""What tests ask of an open page, whatever it shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    sync_playwright,
)

from tests.browser.chromium import AXE, Chromium

Size = tuple[int, int]
Theme = Literal["light", "dark"]
PHONE, LAPTOP, WALL = (360, 740), (1280, 800), (3840, 2160)
SIZES: dict[str, Size] = {"phone": PHONE, "laptop": LAPTOP, "4K": WALL}
THEMES: tuple[Theme, ...] = ("light", "dark")
VIEWS: tuple[tuple[str, Theme], ...] = tuple((size, theme) for size in SIZES for theme in THEMES)
SHARE: tuple[tuple[str, Theme], ...] = (("phone", "dark"), ("laptop", "light"))
"""Of these, what most readers have, in both themes."""

PATIENCE = 15_000  # milliseconds: a machine on which other tests run
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_QUIET = ("log", "info", "debug")
_NO_NETWORK = ("about", "blob", "data")


@contextmanager
def browsing(work: Path) -> Iterator[Browser]:
    """Chromium. It finds no host but this machine, so that nothing leaves it.

    Args:
        work: a folder that is there, for what it keeps of fonts.
    """
    chromium = Chromium.find(work)
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


@dataclass
class Reader:
    """Someone who opens pages in windows of their own, and takes note of whatever is amiss.

    Attributes:
        browser: that of all tests.
        amiss: what was: messages in the console, errors, requests to elsewhere.
    """

    browser: Browser
    amiss: list[str] = field(default_factory=list)
    _windows: list[BrowserContext] = field(default_factory=list)

    def open(self, url: str, size: Size = LAPTOP, theme: Theme = "light", **options: Any) -> Page:
        """A page in a new window.

        Args:
            url: its address.
            size: of the window's inside, in CSS pixels.
            theme: what the system is set to.
            options: of Playwright's `Browser.new_context`, such as `timezone_id`.
        """
        width, height = size
        window = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            **{"locale": "en-US", "timezone_id": "Asia/Kathmandu", **options},
        )
        self._windows.append(window)
        window.set_default_timeout(PATIENCE)
        window.on("console", self._hear)
        window.on("weberror", lambda error: self.amiss.append(f"error: {error.error}"))
        window.on("request", lambda request: self._follow(url, request))
        page = window.new_page()
        page.goto(url)
        return page

    def close(self) -> None:
        """Close all windows."""
        while self._windows:
            self._windows.pop().close()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in _QUIET:
            self.amiss.append(f"{message.type} in the console: {message.text}")

    def _follow(self, opened: str, request: Request) -> None:
        home, there = urlsplit(opened), urlsplit(request.url)
        if there.scheme in _NO_NETWORK:
            return
        if home.scheme == "file":
            at_home = (there.scheme, there.path) == (home.scheme, home.path)
        else:
            at_home = (there.scheme, there.netloc) == (home.scheme, home.netloc)
        if not at_home:
            self.amiss.append(f"request to elsewhere: {request.url}")


@contextmanager
def reading(browser: Browser) -> Iterator[Reader]:
    """A reader in whose pages nothing may be amiss in the end."""
    reader = Reader(browser)
    try:
        yield reader
    finally:
        reader.close()
    assert not reader.amiss, "\n".join(reader.amiss)


def assert_accessible(page: Page) -> None:
    """axe-core finds no violation of WCAG 2.2 AA, nor of good practice."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.path().read_text("utf-8"))
    rules = {"target-size": {"enabled": True}}
    found = page.evaluate(
        "options => axe.run(document, options)",
        {
            "runOnly": {"type": "tag", "values": _TAGS},
            "rules": rules,
            "resultTypes": ["violations"],
        },
    )
    violations = [
        f"{violation['id']} ({violation['help']}): {node['html'][:200]}: {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
    assert not violations, "\n".join(violations)


_WIDER = """() => {
  const width = document.documentElement.clientWidth;
  const end = (element) => {
    const box = element.getBoundingClientRect();
    const visible = getComputedStyle(element).overflowX === "visible";
    return visible ? Math.max(box.right, box.left + element.scrollWidth) : box.right;
  };
  const wide = [...document.body.querySelectorAll("*")].filter((one) => end(one) > width + 1);
  return wide.slice(0, 10).map((element) => element.outerHTML.slice(0, 120));
}"""


def assert_fits(page: Page) -> None:
    """The page is not wider than its window: nothing has to be scrolled sideways, but in a box."""
    width = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert width[0] <= width[1], "\n".join(page.evaluate(_WIDER))


_LABELS = """() => {
  const seen = (element) => element.checkVisibility(
    { visibilityProperty: true, opacityProperty: true });
  const wrong = [];
  for (const picture of document.querySelectorAll("svg")) {
    const frame = picture.getBoundingClientRect();
    if (!seen(picture) || frame.width === 0) continue;
    const labels = [...picture.querySelectorAll("text")].filter(
      (text) => seen(text) && text.textContent.trim());
    const boxes = labels.map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const [words, box] of boxes) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - box.height / 4 ||
          box.bottom > frame.bottom + box.height / 4) wrong.push(`cut: ${words}`);
    }
    boxes.forEach(([words, box], place) => {
      for (const [others, other] of boxes.slice(place + 1)) {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 1 && high > 3) wrong.push(`on each other: ${words} / ${others}`);
      }
    });
  }
  return wrong.slice(0, 20);
}"""


def assert_labels_fit(page: Page) -> None:
    """No label of a picture is cut off by its edge, and none lies on another."""
    wrong = page.evaluate(_LABELS)
    assert not wrong, "\n".join(wrong)


_FOCUS = """element => {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const middle = (from, to, most) => (Math.max(from, 0) + Math.min(to, most)) / 2;
  const top = document.elementFromPoint(
    middle(box.left, box.right, innerWidth), middle(box.top, box.bottom, innerHeight));
  const again = element.dataset.walked === "yes";
  element.dataset.walked = "yes";
  return {
    again,
    html: element.outerHTML.slice(0, 160),
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight
      && box.right > 0 && box.left < innerWidth,
    covered: top !== null && !element.contains(top) && !top.contains(element),
  };
}"""
_STOP = re.compile(r"- '?(?:(\w+) \"(.+?)\"(?: \[.*\])?'?(?::.*)?|text: (.+))$")


def walk(page: Page, most: int = 400) -> list[str]:
    """Go through a page with the Tab key alone, from its top to its end.

    Each stop has to be in sight, with a ring around it, and named.

    Args:
        page: open, and not touched yet.
        most: how many stops the page has at most.

    Returns:
        The stops as a screen reader tells them, such as `link flights`.
    """
    stops: list[str] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        focused = page.locator("*:focus")
        if focused.count() == 0:
            return stops
        told: dict[str, Any] = focused.evaluate(_FOCUS)
        if told["again"]:
            return stops
        assert told["seen"], f"the focus is out of sight: {told['html']}"
        assert told["ring"], f"no ring around the focus: {told['html']}"
        assert not told["covered"], f"something lies on the focus: {told['html']}"
        said = focused.aria_snapshot().splitlines()[0]
        stop = _STOP.match(said)
        assert stop, f"without a name: {said}, {told['html']}"
        role, name, summary = stop.groups()
        if name and said.startswith("- '"):
            name = name.replace("''", "'")  # as YAML quotes it
        name = name and name.replace('\\"', '"')
        words = str(summary).strip('"')
        stops.append(f"{role} {name}" if role else f"summary {words}")
    raise AssertionError(f"more than {most} stops, the last ones: {stops[-3:]}")


def enlarge_text(page: Page) -> None:
    """Letters twice as large, as a reader sets them in the browser; the window stays."""
    page.evaluate("document.documentElement.style.fontSize = '200%'")


def picture(page: Page, path: Path, *, whole: bool = False) -> None:
    """Take a picture of what is in sight, or of the whole page.

    On a loaded machine the browser sometimes has no frame to give, and says so.
    """
    for _ in range(9):
        try:
            page.screenshot(path=path, full_page=whole, animations="disabled")
        except Error as error:
            if "Unable to capture screenshot" not in error.message:
                raise
        else:
            return
    raise AssertionError(f"the browser gave no picture of {page.url}")


def moving(page: Page) -> int:
    """How many animations and transitions run."""
    count: int = page.evaluate("document.getAnimations().length")
    return count
