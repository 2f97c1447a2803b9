"""`lakeport ui`, as a process of its own."""

from __future__ import annotations

import gc
import json
import os
import pty
import re
import resource
import signal
import socket
import sys
import time
import webbrowser
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from uvicorn import Config

import lakeport
from lakeport.cli import app
from lakeport.pages import address as browsers
from lakeport.pages.serve import build_server
from tests.pages.kit import command

SERVED = re.compile(
    r"until Ctrl-C, (\S+) is served at (http://127\.0\.0\.1:(\d+)/\?token=(\S{43}))\n"
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    lakeport.land(pa.table({"id": [1, 2]}), folder, table="people")
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_it_is_asked_to_end(lake: Path, number: signal.Signals) -> None:
    with command(str(lake)) as ui:
        told = SERVED.fullmatch(ui.told)
        assert told, ui.told
        assert told[1] == str(lake)
        token, port = told[4], int(told[3])
        answer = ui.ask("/", token, port)
        assert answer.status == 200
        assert "people" in answer.text
        assert ui.ask("/", "another", port).status == 403
        assert ui.ask("/nothing", token, port).status == 404
        assert ui.end(number) == (0, "", "")


def test_connections_without_a_request_do_not_keep_the_reader_out(lake: Path) -> None:
    """Whoever reaches the port can open them, without the token; files of a process are few."""
    with command(str(lake), "--json") as ui, ExitStack() as half_open:
        resource.prlimit(ui.pid, resource.RLIMIT_NOFILE, (256, 256))
        told = json.loads(ui.told)
        for number in range(400):
            idle = socket.create_connection(("127.0.0.1", told["port"]), 60)
            half_open.enter_context(idle)
            with suppress(OSError):  # sent away
                idle.sendall(b"GET / HTTP/1.1\r\n" if number % 2 else b"")
        assert ui.ask("/", told["token"], told["port"]).status == 200
        assert ui.end(signal.SIGTERM) == (0, "", "")


def test_each_has_a_token_of_its_own_and_json_tells_it(lake: Path) -> None:
    with command(str(lake), "--json") as one, command(str(lake), "--json") as other:
        first, second = json.loads(one.told), json.loads(other.told)
        assert first.keys() == {"url", "port", "token"}
        assert first["url"] == f"http://127.0.0.1:{first['port']}/?token={first['token']}"
        assert first["token"] != second["token"]
        assert one.ask("/", first["token"], first["port"]).status == 200
        assert one.ask("/", first["token"], second["port"]).status == 403
        assert one.end(signal.SIGTERM) == (0, "", "")


def test_only_this_address_is_listened_on(lake: Path) -> None:
    with command(str(lake), "--json") as ui:
        port = json.loads(ui.told)["port"]
        rows = [line.split() for name in ("tcp", "tcp6") for line in _lines(f"/proc/net/{name}")]
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    assert listening == [f"0100007F:{port:04X}"]


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines()[1:] if file.exists() else []


def test_a_server_that_is_ended_as_it_starts_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def app(*_: object) -> None: ...

    def ended(_: Config) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Config, "get_loop_factory", ended)
    with pytest.raises(KeyboardInterrupt):
        build_server(app).run()
    gc.collect()  # a coroutine that nobody has waited for would be told, which fails the test


def test_another_host_is_a_warning(lake: Path) -> None:
    with command(str(lake), "--host", "0.0.0.0") as ui:
        code, _, err = ui.end(signal.SIGTERM)
    assert code == 0
    assert err.count("\n") == 1
    assert "Warning: with `--host 0.0.0.0`, others who have the token" in err
    assert "plain HTTP" in err
    with command(str(lake), "--host", "localhost") as ui:
        assert ui.end(signal.SIGTERM) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_store_that_never_answers_does_not_keep_it(number: signal.Signals) -> None:
    keys = {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "a-secret-that-is-long",
    }
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"aws_endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        store = ("--set", endpoint, "--set", "aws_region=us-east-1")
        with command("s3://bucket/raw", *store, "--json", **keys) as ui:
            told = json.loads(ui.told)
            with socket.create_connection(("127.0.0.1", told["port"])) as asking:
                head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{told['port']}\r\n"
                asking.sendall(f"{head}Authorization: token {told['token']}\r\n\r\n".encode())
                asked, _ = silent.accept()  # the page is being made
                begun = time.monotonic()
                assert ui.end(number) == (0, "", "")
                assert time.monotonic() - begun < 30  # the store's clients wait for minutes
                asked.close()


@pytest.mark.parametrize("debug", [False, True])
def test_a_dead_store_is_told_on_the_page(debug: bool) -> None:
    """And where the error comes from on standard error, for who asks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    keys = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "long-secret-x"}
    store = ["--set", f"aws_endpoint=http://127.0.0.1:{port}", "--set", "aws_region=us-east-1"]
    more = ["--debug"] if debug else []
    with command("s3://bucket/raw", *store, *more, "--json", **keys) as ui:
        told = json.loads(ui.told)
        answer = ui.ask("/", told["token"], told["port"])
        assert ui.ask("/nothing", told["token"], told["port"]).status == 404
        code, out, err = ui.end(signal.SIGTERM)
    assert (code, out) == (0, "")
    assert answer.status == 503
    assert "Hint: " in answer.text
    assert "lakeport explain Unreachable" in answer.text
    assert "Traceback" not in answer.text
    for secret in ("long-secret-x", told["token"]):
        assert secret not in answer.text + err
    errors = [json.loads(line)["error"] for line in err.splitlines()]
    assert [error["type"] for error in errors] == ["Unreachable"] * debug
    assert all("Traceback" in error["trace"] for error in errors)


def test_no_java_is_started(lake: Path, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(0o755)
    with command(str(lake), "--json", JAVA_HOME=str(tmp_path)) as ui:
        told = json.loads(ui.told)
        assert ui.ask("/", told["token"], told["port"]).status == 200
        assert ui.end(signal.SIGTERM) == (0, "", "")
    assert not (tmp_path / "started").exists()


def test_a_wrong_command_line_is_an_error_as_everywhere(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*arguments: str) -> tuple[int, str]:
        code = app.main(["ui", *arguments])
        captured = capsys.readouterr()
        assert captured.out == ""
        return code, captured.err

    (tmp_path / "bad.yaml").write_text("destination: local\npath: x\nfile_typ: csv\n")
    assert told(str(lake.parent / "lkae")) == (
        3,
        f"Error: there is no folder {lake.parent}/lkae; did you mean lake?\n\n"
        "Hint: check its name; `lakeport land` makes lakes.\n",
    )
    code, words = told(str(tmp_path / "bad.yaml"))
    assert (code, "file_type" in words) == (2, True)
    code, words = told(
        "s3://bucket/raw", "--set", "aws_secret_access_key=abcdef", "--set", "aws_access_key_id=x"
    )
    assert (code, "is a secret" in words, "abcdef" in words) == (2, True, False)
    code, words = told(str(lake), "--host", "nowhere.invalid")
    assert (code, "which is no address" in words) == (2, True)
    assert told(str(lake), "--host", "")[0] == 2
    code, words = told(str(lake), "--host", "192.0.2.1")
    assert (code, "nothing can be served at 192.0.2.1" in words) == (2, True)
    assert told(str(lake), "--port", "65536")[0] == 2
    assert told()[0] == 2


def test_a_port_that_is_in_use(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert app.main(["ui", str(lake), "--port", str(port), "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error == {
        "type": "ConfigError",
        "message": f"port {port} of 127.0.0.1 is in use",
        "hint": "give another `--port`, or none for a free one.",
    }


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "anyio"])
def test_without_the_extra(
    lake: Path,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delitem(sys.modules, "lakeport.pages.serve", raising=False)
    for name in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert app.main(["ui", str(lake)]) == 2
    assert capsys.readouterr().err == (
        f"Error: pages are served by the package `{package}`, which is not installed\n\n"
        "Hint: pip install 'lakeport[ui]'\n"
    )


def on_a_terminal(*arguments: str, until: Path | None = None, **variables: str) -> tuple[int, str]:
    """Exit code and screen of `lakeport ui`, which is interrupted once it serves, and a file is."""
    pid, terminal = pty.fork()
    if not pid:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", **variables}
        os.execve(sys.executable, [sys.executable, "-m", "lakeport", "ui", *arguments], environment)
    screen = ""
    while not re.search(r"token=\S{43}\s", screen):
        screen += os.read(terminal, 4096).decode()
    end = time.monotonic() + 60
    while until and not until.exists() and time.monotonic() < end:
        time.sleep(0.02)
    os.write(terminal, b"\x03")
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), screen


_BROWSER = """#!/bin/sh
way="${1#file://}"
cp "$way" "$FOUND/way"
stat -c %a "$(dirname "$way")" > "$FOUND/mode"
echo "$@" > "$FOUND/line"
touch "$FOUND/done"
"""


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, str]:
    """Variables that have a script for the browser, which keeps what it is given."""
    script = tmp_path / "browser"
    script.write_text(_BROWSER)
    script.chmod(0o755)
    for name in ("found", "scratch"):
        (tmp_path / name).mkdir()
    return {
        "FOUND": str(tmp_path / "found"),
        "TMPDIR": str(tmp_path / "scratch"),
        "BROWSER": f"{script} %s",
        "DISPLAY": ":0",
        "WAYLAND_DISPLAY": "",
    }


def test_a_browser_is_opened_without_the_token_on_its_command_line(
    lake: Path, tmp_path: Path, browser: dict[str, str]
) -> None:
    found = tmp_path / "found"
    code, screen = on_a_terminal(str(lake), until=found / "done", **browser)
    assert code == 0
    url = re.search(r"http://\S+", screen)
    assert url
    assert f"url={url[0]}" in (found / "way").read_text()
    assert (found / "mode").read_text() == "700\n"
    assert url[0].partition("=")[2] not in (found / "line").read_text()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "display"), [(["--no-open"], ":0"), ([], "")], ids=["told not to", "no display"]
)
def test_no_browser_is_opened_where_none_is_wanted(
    lake: Path, tmp_path: Path, browser: dict[str, str], arguments: list[str], display: str
) -> None:
    code, _ = on_a_terminal(str(lake), *arguments, **{**browser, "DISPLAY": display})
    assert code == 0
    assert list((tmp_path / "found").iterdir()) == []


@pytest.mark.parametrize("changed", [{"BROWSER": "/none %s"}, {"TMPDIR": "/none"}], ids=str)
def test_a_browser_that_can_t_be_opened_is_no_error(
    lake: Path, browser: dict[str, str], changed: dict[str, str]
) -> None:
    code, screen = on_a_terminal(str(lake), **{**browser, **changed})
    assert code == 0
    assert screen.count("\n") == 1, screen


@pytest.mark.parametrize("chosen", [True, False])
def test_a_browser_in_the_terminal_is_opened_only_where_it_was_chosen(
    chosen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser.GenericBrowser, "open", lambda self, url: opened.append(url))
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("lynx"))
    monkeypatch.setenv("BROWSER", "lynx" if chosen else "")
    browsers._open_file(tmp_path)
    assert opened == [tmp_path.as_uri()] * chosen
