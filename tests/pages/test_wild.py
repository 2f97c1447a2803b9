"""A page in the wild can't read the lake through the server that its reader runs.

What a browser sends for such a page, as bytes: with the cookie wherever some browser might send it.
"""

from __future__ import annotations

import pytest

from tests.pages.kit import LAKE, TOKEN, Served

EVIL = "https://evil.example"
CROSS = {"sec_fetch_site": "cross-site"}
REQUESTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "fetch with cors": ("GET", "/", {**CROSS, "origin": EVIL, "sec_fetch_mode": "cors"}),
    "fetch without cors": (
        "GET",
        "/",
        {**CROSS, "sec_fetch_mode": "no-cors", "sec_fetch_dest": "empty"},
    ),
    "preflight": (
        "OPTIONS",
        "/",
        {**CROSS, "origin": EVIL, "access_control_request_method": "GET"},
    ),
    "simple post": (
        "POST",
        "/table/flights",
        {
            **CROSS,
            "origin": EVIL,
            "sec_fetch_mode": "no-cors",
            "content_type": "text/plain",
            "content_length": "0",
        },
    ),
    "form": (
        "POST",
        "/",
        {
            **CROSS,
            "origin": EVIL,
            "sec_fetch_mode": "navigate",
            "sec_fetch_dest": "document",
            "content_length": "0",
        },
    ),
    "image": ("GET", "/", {**CROSS, "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}),
    "script": (
        "GET",
        "/assets/page.js",
        {**CROSS, "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"},
    ),
    "style": (
        "GET",
        "/assets/theme.css",
        {**CROSS, "sec_fetch_mode": "no-cors", "sec_fetch_dest": "style"},
    ),
    "frame": ("GET", "/", {**CROSS, "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}),
    "object": ("GET", "/", {**CROSS, "sec_fetch_mode": "navigate", "sec_fetch_dest": "object"}),
    "sandboxed frame": ("GET", "/", {"origin": "null", "sec_fetch_mode": "cors"}),
    "another port of this host": (
        "GET",
        "/assets/page.js",
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"},
    ),
    "its fetch": (
        "GET",
        "/",
        {"origin": "http://127.0.0.1:1", "sec_fetch_site": "same-site", "sec_fetch_mode": "cors"},
    ),
    "https here": ("GET", "/", {"origin": "https://{host}"}),
    "a name that begins like ours": ("GET", "/", {"origin": "http://{host}.evil.example"}),
    "an old browser's fetch": ("GET", "/", {"origin": EVIL}),
    "websocket": (
        "GET",
        "/",
        {
            **CROSS,
            "origin": EVIL,
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
            "sec_websocket_version": "13",
            "sec_fetch_mode": "websocket",
        },
    ),
    "rebound name": ("GET", "/", {"host": "evil.example:{port}", "sec_fetch_site": "same-origin"}),
    "its own fetch": (
        "GET",
        "/",
        {
            "host": "evil.example:{port}",
            "origin": "http://evil.example:{port}",
            "sec_fetch_site": "same-origin",
            "sec_fetch_mode": "cors",
        },
    ),
    "its websocket": (
        "GET",
        "/",
        {
            "host": "evil.example:{port}",
            "origin": "http://evil.example:{port}",
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
            "sec_websocket_version": "13",
        },
    ),
}


@pytest.mark.parametrize("cookie", [True, False], ids=["cookie", "no cookie"])
@pytest.mark.parametrize("name", REQUESTS)
def test_nothing_of_the_lake_is_in_the_answer(here: Served, name: str, cookie: bool) -> None:
    method, target, headers = REQUESTS[name]
    given = {
        key: value.replace("{host}", here.host).replace("{port}", str(here.address.port))
        for key, value in headers.items()
    }
    before = len(here.book.asked)
    answer = here.ask(target, method, **{"cookie": here.cookie if cookie else "", **given})
    assert answer.status in (403, 405, 421)
    assert LAKE not in answer.text
    assert TOKEN not in str(answer)
    assert "set-cookie" not in answer.headers
    assert not [key for key in answer.headers if key.startswith("access-control")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert len(here.book.asked) == before  # nothing was read


def test_a_link_leads_to_a_page_only_where_the_browser_sends_the_cookie(here: Served) -> None:
    """It sends none along a link of another site; and who opened a page can't look into it."""
    link = {**CROSS, "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    answer = here.ask("/", **{"cookie": "", **link})
    assert answer.status == 403
    assert LAKE not in answer.text
    opened = here.ask("/", **link)
    assert opened.status == 200
    assert opened.headers["cross-origin-opener-policy"] == "same-origin"
    assert opened.headers["x-frame-options"] == "DENY"


def test_websockets_are_not_spoken_with_the_reader_either(here: Served) -> None:
    answer = here.ask(
        "/",
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
        sec_websocket_version="13",
    )
    assert answer.status == 200  # and not 101: as if nothing else had been asked for


def test_our_own_pages_get_their_files(here: Served) -> None:
    own = {"sec_fetch_site": "same-origin", "origin": f"http://{here.host}"}
    for dest, target in (("script", "/assets/page.js"), ("style", "/assets/theme.css")):
        answer = here.ask(target, **own, sec_fetch_mode="no-cors", sec_fetch_dest=dest)
        assert answer.status == 200
        assert LAKE in answer.text
