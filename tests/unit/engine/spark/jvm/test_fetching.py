"""Jars on their way: how far they are, why one is not to be had, and what is left of them."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.jars import Jar
from lakeport.engine.spark.jvm.versions import installed_build
from lakeport.errors import MissingDependency
from lakeport.host.activity import Activity, activity, current_activities
from tests.tls import breaking_tls, certificate

CONTENT = b"a jar" * 100_000
HALF = len(CONTENT) // 2
SIGN_IN = "Basic bWU6cEBzcw=="  # me:p@ss
PATIENCE = 120.0


class Repository(ThreadingHTTPServer):
    """A Maven repository that holds back the second half of each jar until it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.told = threading.Event()
        self.held: set[str] = set()
        self.absent: set[str] = set()
        self.cut: set[str] = set()
        self.sign_in = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: Repository

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        if not self._answer():
            return
        name = self.path.rpartition("/")[2]
        self.wfile.write(CONTENT[:HALF])
        self.wfile.flush()
        if name in self.server.held:
            self.server.told.wait()
        if name not in self.server.cut:
            self.wfile.write(CONTENT[HALF:])

    def _answer(self) -> bool:
        signed_in = self.headers.get("Authorization", "") == self.server.sign_in
        absent = self.path.rpartition("/")[2] in self.server.absent
        status = 401 if not signed_in else 404 if absent else 200
        self.send_response(status)
        self.send_header("Content-Length", str(len(CONTENT) if status == 200 else 0))
        self.end_headers()
        return status == 200

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Where two pinned jars are."""
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    digest = hashlib.sha256(CONTENT).hexdigest()
    pinned = [Jar("org.example", name, "1.0", digest, len(CONTENT)) for name in ("one", "two")]
    monkeypatch.setattr(jars, "NEEDS", ("both",))
    monkeypatch.setattr(jars, "LOCKED", {f"both {installed_build().minor}": tuple(pinned)})
    with Repository() as server:
        monkeypatch.setenv("LAKEPORT_MAVEN_URL", server.address)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.told.set()
        server.shutdown()
        thread.join()


def until(holds: Callable[[], object]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
    return True


def test_it_is_known_how_far_they_are(repository: Repository, tmp_path: Path) -> None:
    repository.held = {"two-1.0.jar"}

    def now() -> Activity | None:
        return next(
            (each for each in current_activities() if each.count == 1 and each.done > len(CONTENT)),
            None,
        )

    with ThreadPoolExecutor(1) as threads:
        fetched = threads.submit(jars.ensure_jars, {"both"})
        until(now)
        seen = now()
        repository.told.set()
        files = fetched.result()
    assert seen is not None and (seen.what, seen.name) == ("fetching", "jars")
    assert (seen.total, seen.count_total) == (2 * len(CONTENT), 2)
    assert len(CONTENT) < seen.done <= len(CONTENT) + HALF
    assert [file.read_bytes() for file in files[:-1]] == [CONTENT, CONTENT]
    assert sorted(file.name for file in (tmp_path / "jars").iterdir()) == [
        "one-1.0.jar",
        "two-1.0.jar",
    ]


def test_who_waits_for_spark_sees_the_jars(repository: Repository, tmp_path: Path) -> None:
    repository.held = {"one-1.0.jar"}
    with ThreadPoolExecutor(1) as threads, activity("starting Spark"):
        fetched = threads.submit(jars.ensure_jars, {"both"})
        until(lambda: any(each.what == "fetching" for each in current_activities()))
        seen = [each.what for each in current_activities()]
        repository.told.set()
        fetched.result()
        assert seen == ["fetching"]
        assert [each.what for each in current_activities()] == ["starting Spark"]


def test_one_that_is_not_there(repository: Repository, tmp_path: Path) -> None:
    repository.absent = {"two-1.0.jar"}
    with pytest.raises(MissingDependency, match=r"^the jar two-1\.0\.jar can't be") as caught:
        jars.ensure_jars({"both"})
    assert "404 Not Found" in caught.value.message
    assert "LAKEPORT_MAVEN_URL" in caught.value.hint
    assert [file.name for file in (tmp_path / "jars").iterdir()] == ["one-1.0.jar"]


def test_one_that_is_cut_short(repository: Repository, tmp_path: Path) -> None:
    repository.cut = {"one-1.0.jar"}
    with pytest.raises(MissingDependency, match=r"^the jar one-1\.0\.jar can't be") as caught:
        jars.ensure_jars({"both"})
    assert "after 250,000 of 500,000" in caught.value.message


def test_nobody_answers(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", "http://127.0.0.1:1")
    with pytest.raises(MissingDependency, match=r"^the jar one-1\.0\.jar .*Connection refused"):
        jars.ensure_jars({"both"})
    assert list((tmp_path / "jars").iterdir()) == []


def test_without_a_mirror_it_is_maven_central(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEPORT_MAVEN_URL")
    set_proxy(monkeypatch, "http://127.0.0.1:1")
    with pytest.raises(MissingDependency, match=r"from https://repo1\.maven\.org/maven2\)"):
        jars.ensure_jars({"both"})


def test_a_mirror_that_asks_who_one_is(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.sign_in = SIGN_IN
    with pytest.raises(MissingDependency, match="the answer is 401 Unauthorized"):
        jars.ensure_jars({"both"})
    named = repository.address.replace("//", "//me:p%40ss@")
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", named)
    assert jars.ensure_jars({"both"})[0].read_bytes() == CONTENT


def test_a_mirror_that_falls_silent(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.held = {"one-1.0.jar"}
    monkeypatch.setattr(jars, "_SILENCE_SECONDS", 0.2)
    with pytest.raises(MissingDependency, match="nothing has come for"):
        jars.ensure_jars({"both"})
    assert list((tmp_path / "jars").iterdir()) == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MissingDependency])
def test_a_fetch_that_is_called_off(
    repository: Repository, tmp_path: Path, kind: type[BaseException]
) -> None:
    repository.held = {"two-1.0.jar"}

    def go_on() -> None:
        if current_activities()[-1].count == 1:
            raise kind("enough")

    with pytest.raises(kind, match="enough"):
        jars.ensure_jars({"both"}, go_on)
    assert [file.name for file in (tmp_path / "jars").iterdir()] == ["one-1.0.jar"]
    assert current_activities() == ()


_WAITER = """
import threading, time
from lakeport.host.activity import current_activities
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession

driver = DriverSession(SessionRequest({"delta"}))
threading.Thread(target=lambda: driver.context, daemon=True).start()
while not any(each.what == "fetching" and each.done for each in current_activities()):
    time.sleep(0.01)
print([each.what for each in current_activities()])
"""


def test_a_process_that_ends_meanwhile_leaves_nothing(
    repository: Repository, tmp_path: Path
) -> None:
    repository.held = {"delta-spark_4.2_2.13-4.4.0.jar"}
    variables = {**os.environ, "LAKEPORT_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", _WAITER]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("['fetching']\n", "")
    assert list((tmp_path / "jars").iterdir()) == []


class Proxy(ThreadingHTTPServer):
    """An HTTPS proxy that wants a user and a password, and notes where it was asked to connect."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnels)
        self.asked: list[str] = []


class _Tunnels(BaseHTTPRequestHandler):
    server: Proxy

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        if self.headers.get("Proxy-Authorization") != SIGN_IN:
            self.send_error(407)
            return
        self.send_response(200)
        self.end_headers()
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as there:
            back = threading.Thread(target=_pump, args=(there, self.connection), daemon=True)
            back.start()
            _pump(self.connection, there)
            back.join()

    def log_message(self, *_: object) -> None:
        pass


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def set_proxy(monkeypatch: pytest.MonkeyPatch, proxy: str, direct: str = "") -> None:
    for name in ("https_proxy", "all_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", direct)


def test_a_proxy_and_a_certificate_of_a_company_s(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = certificate(tmp_path)
    with breaking_tls(repository.server_port, paths) as tls, Proxy() as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        there = f"127.0.0.1:{tls.port}"
        monkeypatch.setenv("LAKEPORT_MAVEN_URL", f"https://{there}")

        def refused() -> str:
            with pytest.raises(MissingDependency) as caught:
                jars.ensure_jars({"both"})
            assert "canary" not in str(caught.value)
            return caught.value.message

        set_proxy(monkeypatch, f"http://me:canary@127.0.0.1:{proxy.server_port}")
        assert "407 Proxy Authentication Required" in refused()
        set_proxy(monkeypatch, f"http://me:p%40ss@127.0.0.1:{proxy.server_port}")
        assert "certificate is not trusted" in refused() and "SSL_CERT_FILE" in refused()
        monkeypatch.setenv("SSL_CERT_FILE", str(paths[0]))
        assert jars.ensure_jars({"both"})[0].read_bytes() == CONTENT
        assert set(proxy.asked) == {there}
        proxy.asked.clear()
        set_proxy(monkeypatch, f"http://127.0.0.1:{proxy.server_port}", "127.0.0.1")
        monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path / "other"))
        jars.ensure_jars({"both"})
        assert proxy.asked == []
        proxy.shutdown()
