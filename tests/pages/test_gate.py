"""Who gets in, and what is refused before anything is read."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from lakeport.pages import serve
from tests.pages.kit import LAKE, TOKEN, Answer, Book, Served, served

PATHS = ("/", "/table/flights", "/table/none", "/assets/theme.css", "/assets/none", "/a/../b")


def check_refused(answer: Answer, status: int) -> None:
    assert answer.status == status
    assert LAKE not in answer.text
    assert "set-cookie" not in answer.headers
    check_headers(answer)


def check_headers(answer: Answer) -> None:
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control")]
    if answer.status not in (303, 304):
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "charset=utf-8" in answer.headers["content-type"]


def test_the_first_visit_gets_a_cookie_and_an_address_without_the_token(here: Served) -> None:
    answer = here.ask(f"/table/flights?sort=a%20b&token={TOKEN}&x=", cookie="")
    assert answer.status == 303
    assert answer.headers["location"] == "/table/flights?sort=a+b&x="
    cookie, *about = answer.headers["set-cookie"].split("; ")
    assert cookie == here.cookie
    # Until the browser is closed, for this host alone.
    assert {each.lower() for each in about} == {"httponly", "path=/", "samesite=strict"}
    assert here.ask(answer.headers["location"], cookie=cookie).status == 200
    check_headers(answer)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_who_comes_by_a_link_is_led_on_by_a_page(here: Served, site: str) -> None:
    """Where a link or a file leads here, a browser would send no cookie along a redirect."""
    answer = here.ask(
        f"/a%22%3E?token={TOKEN}&b=%22%3E",
        cookie="",
        sec_fetch_site=site,
        sec_fetch_mode="navigate",
        sec_fetch_dest="document",
    )
    assert answer.status == 200
    assert answer.headers["set-cookie"].startswith(here.cookie)
    assert '<meta http-equiv="refresh" content="0; url=/a%22%3E?b=%22%3E">' in answer.text
    assert TOKEN not in answer.text
    check_headers(answer)


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("//evil.example/x", "/evil.example/x"),
        ("/\\evil.example", "/%5Cevil.example"),
        ("/%5C%5Cevil.example", "/%5C%5Cevil.example"),
        ("/table/a%2523%23%3F%20+%C3%A9", "/table/a%2523%23%3F%20%2B%C3%A9"),
    ],
)
def test_the_way_on_stays_here(here: Served, target: str, location: str) -> None:
    answer = here.ask(f"{target}?token={TOKEN}", cookie="")
    assert (answer.status, answer.headers["location"]) == (303, location)


def test_who_has_the_cookie_or_the_header_is_let_in(here: Served) -> None:
    assert LAKE in here.ask("/").text
    assert LAKE in here.ask("/", cookie="", authorization=f"token {TOKEN}").text
    assert LAKE in here.ask("/", cookie="", authorization=f"Token  {TOKEN}").text
    # Another server of this host has set a cookie of the same name for some paths.
    assert LAKE in here.ask("/", cookie=f"lakeport-{here.address.port}=; a=b;{here.cookie}").text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": "lakeport-1=" + TOKEN},
        {"cookie": TOKEN},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "token "},
        {"authorization": f"token {TOKEN[:-1]}"},
        {"authorization": "token \N{LATIN SMALL LETTER E WITH ACUTE}\N{SNOWMAN}"},
        {"cookie": "lakeport-{port}=\N{SNOWMAN}"},
        {"cookie": "lakeport-{port}="},
    ],
    ids=str,
)
def test_all_others_hear_the_same_whatever_they_ask_for(
    here: Served, path: str, headers: dict[str, str]
) -> None:
    given = {
        name: value.replace("{port}", str(here.address.port)) for name, value in headers.items()
    }
    answer = here.ask(path, **{"cookie": "", **given})
    check_refused(answer, 403)
    assert answer.text == here.ask("/", cookie="").text
    assert "<code>lakeport ui</code>" in answer.text


@pytest.mark.parametrize(
    "token", ["", "x", TOKEN[:-1], TOKEN + "x", "%C3%A9", "%ff%00", "%ED%A0%80"]
)
def test_a_wrong_token_in_the_address_is_no_way_in(here: Served, token: str) -> None:
    check_refused(here.ask(f"/?token={token}", cookie=""), 403)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_it_goes_by_the_names_of_this_machine(here: Served, name: str) -> None:
    assert here.ask("/", host=f"{name}:{here.address.port}").status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.:{port}",
        "localhost",
        "127.0.0.1:1",
        "127.0.0.1:{port}, evil.example",
        "evil.example@127.0.0.1:{port}",
        "192.168.0.1:{port}",
        "[::1]:{port}:{port}",
        "127.0.0.1:{port}000000",
        ":{port}",
        "\N{LATIN SMALL LETTER E WITH ACUTE}",
    ],
)
def test_another_name_is_refused_also_with_the_token(here: Served, host: str) -> None:
    told = host.replace("{port}", str(here.address.port))
    for target in ("/", f"/?token={TOKEN}"):
        check_refused(here.ask(target, host=told), 421)


def test_a_request_names_one_host(here: Served) -> None:
    hosts = f"Host: {here.host}\r\nHost: evil.example"
    ask = f"GET / HTTP/1.1\r\n{hosts}\r\nCookie: {here.cookie}\r\n\r\n"
    check_refused(here.send(ask.encode()), 400)
    ask = f"GET / HTTP/1.1\r\nCookie: {here.cookie}\r\n\r\n"
    check_refused(here.send(ask.encode()), 400)
    ask = f"GET / HTTP/1.0\r\nCookie: {here.cookie}\r\n\r\n"
    check_refused(here.send(ask.encode()), 421)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"])
def test_there_is_only_reading(here: Served, method: str) -> None:
    for path in PATHS:
        answer = here.ask(path, method, content_length="1000000000")  # none of it is waited for
        check_refused(answer, 405)
        assert answer.headers["allow"] == "GET, HEAD"
    check_refused(here.ask("*", "OPTIONS"), 405)


@pytest.mark.parametrize(
    ("target", "statuses"),
    [
        ("/table/../../etc/passwd", {404}),
        ("/table/%2e%2e/%2e%2e/etc/passwd", {404}),
        ("/table/%2E%2E%2F%2E%2E%2Fetc%2Fpasswd", {404}),
        ("/assets/%2e%2e%2fpage.py", {404}),
        ("/assets/..", {404}),
        ("/assets/..%5c..%5cpage.py", {404}),
        ("/table/flights/", {404}),
        ("/table/..%5c..%5cetc", {404}),
        ("/table/%00", {400}),
        ("/table/flights%00.txt", {400}),
        ("/assets/theme.css%00", {400}),
        ("/table/%0a", {400}),
        ("/table/a%0ab", {400}),
        ("/a%7f", {400}),
        (f"/%0d%0aSet-Cookie:a=b?token={TOKEN}", {400}),
        ("/table/%ff%fe", {404}),
        ("/table/%", {404}),
        ("/table/%zz", {404}),
        ("//table/flights", {404}),
        ("/table//flights", {404}),
        ("/table/./flights", {404}),
        ("/" + "a" * 3000, {404}),
        ("/" + "a" * 5000, {414}),
        ("/?" + "a=b&" * 3000, {414}),
        ("/" + "a" * 50_000, {400, 414}),  # by who sees it first
        ("/caf\N{LATIN SMALL LETTER E WITH ACUTE}", {400}),
        ("/ab\x01", {400}),
        ("http://127.0.0.1/table/flights", {400}),
        ("table/flights", {400}),
        ("*", {400}),
    ],
)
def test_odd_paths_are_nowhere(here: Served, target: str, statuses: set[int]) -> None:
    answer = here.ask(target)
    assert answer.status in statuses
    check_headers(answer)
    assert "passwd:" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"HELO\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n bad\x00: x\r\n\r\n",
    ],
    ids=["tls", "smtp", "http 0.9", "nul"],
)
def test_what_is_no_request_is_refused_with_the_same_headers(here: Served, request_: bytes) -> None:
    check_refused(here.send(request_), 400)


def test_headers_have_an_end(here: Served) -> None:
    for size in (20_000, 60_000):
        answer = here.ask("/", x="x" * size)
        assert answer.status in (400, 431)  # by who sees it first
        check_headers(answer)
    assert here.ask("/", x="x" * 8_000).status == 200


def test_every_answer_has_the_headers(here: Served) -> None:
    for target in ("/", "/table/flights", "/table/none", "/assets/theme.css", "/assets/none"):
        for method in ("GET", "HEAD"):
            check_headers(here.ask(target, method))


def test_all_interfaces_go_by_numbers_and_the_machine_s_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Kestrel")
    with served(Book({"/": lambda: LAKE}), "0.0.0.0") as open_to_all:
        assert not open_to_all.address.is_local
        assert open_to_all.address.url("t").startswith("http://127.0.0.1:")
        port = open_to_all.address.port
        for name in ("192.168.0.1", "[fe80::1]", "kestrel", "localhost"):
            assert open_to_all.ask("/", host=f"{name}:{port}").status == 200
        for name in ("evil.example", "kestrel.evil.example", "1.2.3"):
            check_refused(open_to_all.ask("/", host=f"{name}:{port}"), 421)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_a_connection_without_a_request_is_ended(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(serve, "_HEAD_SECONDS", 0.2)
    with served(Book({"/": lambda: "here"})) as pages:
        place = (pages.address.ip, pages.address.port)
        with socket.create_connection(place, 60) as connection, suppress(ConnectionResetError):
            connection.sendall(sent)
            assert connection.recv(1) == b""


def test_a_connection_that_goes_on_with_half_a_request_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a whole request as well, which is answered."""
    with served(Book({"/": lambda: "here"})) as pages:
        connection = pages.connection()
        connection.auto_open = 0
        connection.connect()
        connection.request("GET", "/", headers={"Cookie": pages.cookie})
        answer = connection.getresponse()
        assert (answer.status, b"here" in answer.read()) == (200, True)
        monkeypatch.setattr(serve, "_HEAD_SECONDS", 0.2)
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(600):
                connection.sock.sendall(b"G")
                connection.sock.settimeout(0.1)
                with suppress(TimeoutError):
                    assert connection.sock.recv(1) == b""
                    break
            else:
                pytest.fail("it was kept")
        connection.close()
