"""What is looked at in a built site: that no page of it asks another host for anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_FETCHED = {"src", "srcset", "poster", "data", "action"}
_IN_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


def requests_elsewhere(site: Path) -> list[str]:
    """What browsers would fetch from other hosts to show the pages: each as `page: address`."""
    found = []
    for page in sorted(site.rglob("*")):
        if page.suffix in {".html", ".css", ".svg"}:
            text = page.read_text("utf-8")
            addresses = _of_markup(text) if page.suffix != ".css" else _IN_STYLES.findall(text)
            found += [f"{page.relative_to(site)}: {address}" for address in addresses]
    return found


def _of_markup(text: str) -> Iterator[str]:
    parser = _Fetched()
    parser.feed(text)
    yield from parser.found
    yield from _IN_STYLES.findall(text)


class _Fetched(HTMLParser):
    """The addresses on other hosts that a page's elements make a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each element."""
        for name, value in attrs:
            fetched = name in _FETCHED or (name == "href" and tag in {"link", "use", "image"})
            if fetched and re.match(r"(https?:)?//", value or ""):
                self.found.append(str(value))
