"""Opens the pages in the reader's browser, where there is one."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from markupsafe import Markup

from lakeport.errors import ConfigError
from lakeport.host.scratch import Scratch

_WAY = Markup(
    '<!doctype html>\n<meta charset="utf-8">\n<title>lakeport</title>\n'
    '<meta http-equiv="refresh" content="0; url={url}">\n<a href="{url}">Open the pages</a>\n'
)


def has_display() -> bool:
    """Whether a browser would have something to draw on."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


@contextmanager
def opened(url: str) -> Iterator[None]:
    """Have a browser open an address, which stays out of its command line, while the body runs.

    Other users can read command lines, so the browser is given a file that only this user can
    read. That none can be opened is no error: whoever runs this has the address.
    """
    folder = None
    with suppress(ConfigError, OSError):
        folder = Scratch("ui")
        way = folder.path / "open.html"
        way.write_text(_WAY.format(url=url), "utf-8")
        # Some programs are waited for.
        threading.Thread(target=_open, args=(way,), daemon=True).start()
    try:
        yield
    finally:
        if folder is not None:
            folder.remove()


def _open(way: Path) -> None:
    with suppress(Exception):
        browser = webbrowser.get()
        # One that draws with letters would take this terminal.
        if type(browser) is not webbrowser.GenericBrowser or os.environ.get("BROWSER"):
            browser.open(way.as_uri())
