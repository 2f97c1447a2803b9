"""The harness finds what it looks for; pages of its own, none of lakeport's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium
from tests.browser.chromium import Chromium, Tarball
from tests.browser.kit import (
    LAPTOP,
    PHONE,
    SIZES,
    Reader,
    assert_accessible,
    assert_fits,
    assert_labels_fit,
    enlarge_text,
    moving,
    reading,
    walk,
)
from tests.emulators import EmulatorError

FRAME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<style>%s</style></head><body>%s</body></html>"""
GOOD = "<main><h1>A page</h1><p>Some words.</p><a href='#x'>On</a> <button>Sort</button></main>"

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Makes a page, and tells its address."""

    def write(body: str, style: str = "") -> str:
        path = tmp_path / "page.html"
        path.write_text(FRAME % (style, body), "utf-8")
        return path.as_uri()

    return write


@pytest.fixture
def served() -> Iterator[str]:
    """A server whose pages allow no script; `/missing` is missing."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Write no access log."""

        def do_GET(self) -> None:
            body = (
                FRAME % ("", f"{GOOD}<script>1</script>" if "?" in self.path else GOOD)
            ).encode()
            self.send_response(404 if self.path == "/missing" else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Security-Policy", "script-src 'none'")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_nothing_is_amiss_in_a_good_page(reader: Reader, write: Write, served: str) -> None:
    for url in (write(GOOD), f"{served}/"):
        for size in SIZES.values():
            page = reader.open(url, size, theme="dark")
            assert page.evaluate("[innerWidth, innerHeight]") == list(size)
            assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
            assert_accessible(page)
            assert_fits(page)
            assert_labels_fit(page)
            assert walk(page) == ["link On", "button Sort"]
            reader.close()
    assert reader.amiss == []


@pytest.mark.parametrize(
    ("body", "amiss"),
    [
        ("<script>console.error('alas')</script>", "error in the console: alas"),
        ("<script>console.warn('well')</script>", "warning in the console: well"),
        ("<script>throw Error('oh')</script>", "error: oh"),
        ("<script>Promise.reject(Error('later'))</script>", "error: later"),
        ("<img src='http://127.0.0.1:9/a.png' alt=''>", "elsewhere: http://127.0.0.1:9/a.png"),
        ("<img src='https://example.com/a.png' alt=''>", "elsewhere: https://example.com/a.png"),
        ("<script src='other.js'></script>", "request to elsewhere: file://"),
    ],
)
def test_what_is_amiss_fails_the_test(
    browser: Browser, write: Write, body: str, amiss: str
) -> None:
    with pytest.raises(AssertionError, match=amiss), reading(browser) as reader:
        reader.open(write(GOOD + body)).wait_for_load_state("networkidle")


@pytest.mark.parametrize(
    ("path", "amiss"), [("/?script", "Content Security Policy"), ("/missing", "404")]
)
def test_what_a_server_refuses_fails_the_test(
    browser: Browser, served: str, path: str, amiss: str
) -> None:
    with pytest.raises(AssertionError, match=amiss), reading(browser) as reader:
        reader.open(served + path)


@pytest.mark.parametrize(
    ("body", "style", "rule"),
    [
        ("<img src='data:,'>", "", "image-alt"),
        ("<button></button>", "", "button-name"),
        ("<p>pale</p>", "p { color: #ccc; background: #fff }", "color-contrast"),
        (
            "<a href='#a'>a</a><a href='#b'>b</a>",
            "a { display: block; font: 6px/8px a; float: left}",
            "target-size",
        ),
        ("<h3>too deep</h3>", "", "heading-order"),
    ],
)
def test_axe_finds(reader: Reader, write: Write, body: str, style: str, rule: str) -> None:
    page = reader.open(write(f"<main><h1>A page</h1>{body}</main>", style))
    with pytest.raises(AssertionError, match=rule):
        assert_accessible(page)
    reader.amiss.clear()  # the picture is none


def test_a_page_that_is_too_wide(reader: Reader, write: Write) -> None:
    url = write(f"{GOOD}<pre>{'wide' * 40}</pre>")
    assert_fits(reader.open(url, (1900, 800)))
    with pytest.raises(AssertionError, match="<pre>wide"):
        assert_fits(reader.open(url, PHONE))
    page = reader.open(url, (1500, 800))
    assert_fits(page)
    enlarge_text(page)
    with pytest.raises(AssertionError, match="<pre>wide"):
        assert_fits(page)


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        ("<text x='90' y='20'>out of it</text>", "cut: out of it"),
        ("<text y='20' x='5'>one</text><text y='22' x='9'>two</text>", "on each other: one / two"),
    ],
)
def test_labels_that_do_not_fit(reader: Reader, write: Write, texts: str, wrong: str) -> None:
    page = reader.open(write(f"<svg width='100' height='50'>{texts}</svg>"))
    with pytest.raises(AssertionError, match=wrong):
        assert_labels_fit(page)
    hidden = write(f"<details><summary>a</summary><svg width='100'>{texts}</svg></details>")
    assert_labels_fit(reader.open(hidden))


@pytest.mark.parametrize(
    ("body", "style", "wrong"),
    [
        ("<button>a</button>", ":focus { outline: none }", "no ring"),
        ("<button>a</button>", "button { position: absolute; left: -90px; width: 9px}", "sight"),
        ("<button>a</button><div></div>", "div { position: fixed; inset: 0 }", "lies on"),
        ("<button></button>", "", "without a name"),
    ],
)
def test_a_walk_finds(reader: Reader, write: Write, body: str, style: str, wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        walk(reader.open(write(body, style)))


def test_a_walk_that_does_not_end(reader: Reader, write: Write) -> None:
    with pytest.raises(AssertionError, match="more than 3 stops"):
        walk(reader.open(write("<button>a</button>" * 4)), most=3)


def test_readers_have_their_settings(reader: Reader, write: Write) -> None:
    url = write(GOOD + "<script>document.title = 'scripted'</script>")
    settings = {"contrast": "more", "reduced_motion": "reduce", "timezone_id": "Asia/Tokyo"}
    page = reader.open(url, LAPTOP, java_script_enabled=False, **settings)
    assert page.title() == "A page"
    for asked in ("prefers-contrast: more", "prefers-reduced-motion: reduce"):
        assert page.evaluate(f"matchMedia('({asked})').matches")
    assert page.evaluate("new Date(0).getHours()") == 9


def test_what_moves_is_counted(reader: Reader, write: Write) -> None:
    style = "@keyframes k { to { opacity: 0 } } p { animation: k 9s infinite }"
    assert moving(reader.open(write(GOOD, style))) == 1
    assert moving(reader.open(write(GOOD))) == 0


def test_the_browser_that_is_named_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "mine"
    program.touch(mode=0o755)
    monkeypatch.setenv("LAKEPORT_CHROMIUM", str(program))
    assert Chromium.find(tmp_path) == Chromium(program, {})
    assert chromium.packages() == [chromium.AXE]
    program.chmod(0o600)
    if os.geteuid():
        with pytest.raises(EmulatorError, match="no program"):
            Chromium.find(tmp_path)
    monkeypatch.setenv("LAKEPORT_CHROMIUM", str(tmp_path / "gone"))
    with pytest.raises(EmulatorError, match="gone, which is no program"):
        Chromium.find(tmp_path)


def test_elsewhere_the_systems_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAKEPORT_CHROMIUM", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmulatorError, match="apt-get install chromium"):
        Chromium.find(tmp_path)
    (tmp_path / "google-chrome").touch(mode=0o755)
    assert Chromium.find(tmp_path) == Chromium(tmp_path / "google-chrome", {})


def test_another_content_of_a_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\nfor last; do :; done\necho 1 > "${last#*=}/a.tgz"\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    package = Tarball("axe-core", "1", "axe-core", "npm", "axe.js", "another")
    with pytest.raises(EmulatorError, match=r"axe-core: its SHA-512 is .*, not another"):
        package.path()
    npm.write_text("#!/bin/sh\necho no such package; exit 1\n")
    with pytest.raises(EmulatorError, match=r"pack axe-core@1 .*` failed:\nno such package"):
        package.path()
