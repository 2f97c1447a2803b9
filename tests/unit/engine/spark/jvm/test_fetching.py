"""Jars on their way: how far they are, why one is not to be had, and what is left of them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakeport.engine.spark.jvm import fetching, ivy, jars, versions
from lakeport.engine.spark.jvm.java import Java
from lakeport.engine.spark.jvm.versions import Jar
from lakeport.errors import MissingDependency
from lakeport.host.activity import Activity, activity, running
from lakeport.host.scratch import sweep

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
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Where two pinned jars are."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    pinned = [Jar("org.example", name, "1.0", digest, len(CONTENT)) for name in ("one", "two")]
    monkeypatch.setattr(versions, "JARS", {"both": tuple(pinned)})
    with Repository() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.told.set()
        server.shutdown()
        thread.join()


@pytest.fixture(params=["mirror", "Ivy"])
def way(
    request: pytest.FixtureRequest, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Both ways to the repository, one after the other."""
    if request.param == "mirror":
        monkeypatch.setenv("LAKEPORT_MAVEN_URL", repository.address)
    else:
        use_ivy(monkeypatch, repository.address)
    return str(request.param)


def use_ivy(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Have Ivy fetch, from another repository than Maven's central one."""
    monkeypatch.delenv("LAKEPORT_MAVEN_URL", raising=False)
    settings = ivy._SETTINGS.replace("<ibiblio ", f'<ibiblio root="{address}/" ')
    monkeypatch.setattr(ivy, "_SETTINGS", settings)


@pytest.fixture
def silent_ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """In place of Java a program that does nothing; returns its process number once it runs."""
    program, told = tmp_path / "java", tmp_path / "process"
    program.write_text(
        f"""#!/bin/sh
printf '%s\\n' $$ "$*" > "{told}.part"
mv "{told}.part" "{told}"
exec sleep 600
"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(ivy, "find_java", lambda: Java(program, 17, "17.0.1"))
    monkeypatch.delenv("LAKEPORT_MAVEN_URL", raising=False)
    return lambda: int(until(told.is_file) and told.read_text().split()[0])


def until(holds: Callable[[], object]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
    return True


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_is_known_how_far_they_are(repository: Repository, way: str, tmp_path: Path) -> None:
    repository.held = {"two-1.0.jar"}

    def now() -> Activity | None:
        return next(
            (each for each in running() if each.count == 1 and each.done > len(CONTENT)), None
        )

    with ThreadPoolExecutor(1) as threads:
        fetched = threads.submit(jars.ensure, {"both"}, tmp_path)
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


def test_who_waits_for_spark_sees_the_jars(
    repository: Repository, way: str, tmp_path: Path
) -> None:
    repository.held = {"one-1.0.jar"}
    with ThreadPoolExecutor(1) as threads, activity("starting Spark"):
        fetched = threads.submit(jars.ensure, {"both"}, tmp_path)
        until(lambda: any(each.what == "fetching" for each in running()))
        seen = [each.what for each in running()]
        repository.told.set()
        fetched.result()
        assert seen == ["fetching"]
        assert [each.what for each in running()] == ["starting Spark"]


def test_one_that_is_not_there(repository: Repository, way: str, tmp_path: Path) -> None:
    repository.absent = {"two-1.0.jar"}
    with pytest.raises(MissingDependency, match=r"^the jar two-1\.0\.jar can't be") as caught:
        jars.ensure({"both"}, tmp_path)
    assert ("404 Not Found" if way == "mirror" else "not found") in caught.value.message
    assert "LAKEPORT_MAVEN_URL" in caught.value.hint
    assert [file.name for file in (tmp_path / "jars").iterdir()] == ["one-1.0.jar"]


def test_one_that_is_cut_short(repository: Repository, way: str, tmp_path: Path) -> None:
    repository.cut = {"one-1.0.jar"}
    with pytest.raises(MissingDependency, match=r"^the jar one-1\.0\.jar can't be") as caught:
        jars.ensure({"both"}, tmp_path)
    # Ivy hears of it from Java, or sees it by the file's size.
    told = ("after 250,000 of 500,000", "size (250000) doesn't match", "Premature EOF")
    assert any(words in caught.value.message for words in told)


@pytest.mark.parametrize("by_ivy", [False, True])
def test_nobody_answers(
    repository: Repository, by_ivy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", "http://127.0.0.1:1")
    if by_ivy:
        use_ivy(monkeypatch, "http://127.0.0.1:1")
    with pytest.raises(MissingDependency, match=r"^the jar one-1\.0\.jar .*Connection refused"):
        jars.ensure({"both"}, tmp_path)
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_mirror_that_asks_who_one_is(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.sign_in = SIGN_IN
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", repository.address)
    with pytest.raises(MissingDependency, match="the answer is 401 Unauthorized"):
        jars.ensure({"both"}, tmp_path)
    named = repository.address.replace("//", "//me:p%40ss@")
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", named)
    assert jars.ensure({"both"}, tmp_path)[0].read_bytes() == CONTENT


def test_a_mirror_that_falls_silent(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.held = {"one-1.0.jar"}
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", repository.address)
    monkeypatch.setattr(fetching, "_SILENCE_SECONDS", 0.2)
    with pytest.raises(MissingDependency, match="nothing has come for"):
        jars.ensure({"both"}, tmp_path)
    assert list((tmp_path / "jars").iterdir()) == []


def test_ivy_that_falls_silent_is_ended(
    repository: Repository,
    silent_ivy: Callable[[], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "_SILENCE_SECONDS", 0.5)
    with pytest.raises(MissingDependency, match=r"one-1\.0\.jar .* nothing has come for"):
        jars.ensure({"both"}, tmp_path / "cache")
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MissingDependency])
def test_a_fetch_that_is_called_off(
    repository: Repository,
    silent_ivy: Callable[[], int],
    tmp_path: Path,
    kind: type[BaseException],
) -> None:
    processes: list[int] = []

    def go_on() -> None:
        processes.append(silent_ivy())
        raise kind("enough")

    with pytest.raises(kind, match="enough"):
        jars.ensure({"both"}, tmp_path / "cache", go_on)
    assert list((tmp_path / "cache" / "jars").iterdir()) == []
    assert gone(processes[0]) and running() == ()


_WAITER = """
import os, sys, threading, time
from pathlib import Path
from lakeport.host.scratch import sweep
from lakeport.host.activity import running
from lakeport.engine.spark.jvm import ivy
from lakeport.engine.spark.jvm.java import Java
from lakeport.engine.spark.session import Runtime

ivy.find_java = lambda: Java(Path(sys.argv[1]), 17, "17.0.1")
runtime = Runtime(frozenset({"delta"}), {}, small=True)
threading.Thread(target=lambda: runtime.context, daemon=True).start()
told = Path(sys.argv[2])
while not told.is_file() or "fetching" not in {each.what for each in running()}:
    time.sleep(0.01)
print([each.what for each in running()])
"""


def test_a_process_that_ends_meanwhile_leaves_nothing(
    silent_ivy: Callable[[], int], tmp_path: Path
) -> None:
    told = tmp_path / "process"
    command = [sys.executable, "-c", _WAITER, str(tmp_path / "java"), str(told)]
    variables = {**os.environ, "LAKEPORT_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("['fetching']\n", "")
    until(lambda: gone(int(told.read_text().split()[0])))
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_what_a_killed_process_s_ivy_works_in_is_left_to_it(
    repository: Repository, silent_ivy: Callable[[], int], tmp_path: Path
) -> None:
    told, variables = tmp_path / "process", {**os.environ, "LAKEPORT_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", _WAITER + "os.kill(os.getpid(), 9)"]
    command += [str(tmp_path / "java"), str(told)]
    subprocess.run(command, env=variables, capture_output=True, timeout=PATIENCE)
    (left,) = (tmp_path / "jars").iterdir()
    sweep(tmp_path / "jars")
    assert left.is_dir()
    process = int(told.read_text().split()[0])
    os.kill(process, signal.SIGKILL)
    until(lambda: gone(process))
    sweep(tmp_path / "jars")
    assert not left.exists()


_SAID = """\
:::: WARNINGS
\tmodule not found: org.example#one;1.0
\t  http://127.0.0.1:1/org/example/one/1.0/one-1.0.jar
\t:: org.example#one;1.0: not found
\t:: org.example#two;1.0: not found
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (_SAID, "not found"),
        (
            _SAID + "\tServer access error at url https://h/one-1.0.jar "
            "(java.net.ConnectException: Connection refused)\n\n",
            "connect: Connection refused",
        ),
        (
            "Server access error at url https://h/one-1.0.jar (javax.net.ssl.SSLHandshakeException:"
            " Remote host terminated the handshake)",
            "ssl handshake: Remote host terminated the handshake",
        ),
        (
            "Server access error at url https://h/one-1.0.jar (javax.net.ssl.SSLHandshakeException:"
            " PKIX path building failed: sun.security.provider.certpath.A: b)",
            "Java doesn't trust the server's certificate (with LAKEPORT_MAVEN_URL set, it is "
            "Python that fetches, and trusts SSL_CERT_FILE)",
        ),
        ("\tHost h not found. url=https://h/one-1.0.jar\n" + _SAID, "Host h not found"),
        (
            "[FAILED     ] org.example#one;1.0!one.jar: No space left on device (3ms)\n" + _SAID,
            "No space left on device",
        ),
        (
            "Server access error at url https://h/one-1.0.jar (java.io.IOException: "
            "http://me:canary@h/ refused)",
            "http://me:**********@h/ refused",
        ),
        (
            f"Your proxy requires authentication.\n{_SAID}",
            "the proxy (HTTPS_PROXY) asks for another user and password",
        ),
        (
            "Error occurred during initialization of VM\n",
            "Error occurred during initialization of VM",
        ),
        ("", "Ivy, which fetches them, ended without a word"),
    ],
)
def test_why_ivy_could_not_get_one(said: str, why: str) -> None:
    assert ivy.reason(Jar("org.example", "one", "1.0", "", 0), said) == why


@pytest.mark.parametrize(
    ("proxy", "direct", "options"),
    [
        ("", "", []),
        (
            "http://proxy.corp:3128",
            "",
            [
                "-Dhttps.proxyHost=proxy.corp",
                "-Dhttps.proxyPort=3128",
                "-Dhttp.nonProxyHosts=localhost|127.*",
            ],
        ),
        (
            "http://me:p%40ss@proxy",
            ".corp, example.org",
            [
                "-Dhttps.proxyHost=proxy",
                "-Dhttps.proxyPort=80",
                "-Dhttp.proxyUser=me",
                "-Dhttp.proxyPassword=p@ss",
                "-Djdk.http.auth.tunneling.disabledSchemes=",
                "-Dhttp.nonProxyHosts=localhost|127.*|corp|*.corp|example.org|*.example.org",
            ],
        ),
    ],
)
def test_ivy_takes_the_proxy_of_the_environment(
    proxy: str, direct: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_proxy(monkeypatch, proxy, direct)
    assert ivy._proxy() == options


def set_proxy(monkeypatch: pytest.MonkeyPatch, proxy: str, direct: str = "") -> None:
    for name in ("https_proxy", "all_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", direct)


def test_a_proxy_s_password_is_on_no_command_line(
    repository: Repository,
    silent_ivy: Callable[[], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_proxy(monkeypatch, "http://me:canary@proxy")
    seen: list[tuple[int, str]] = []

    def go_on() -> None:
        silent_ivy()
        (file,) = (tmp_path / "cache" / "jars").glob("*/arguments")
        seen.append((file.stat().st_mode & 0o777, file.read_text()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jars.ensure({"both"}, tmp_path / "cache", go_on)
    assert seen[0][0] == 0o600 and "canary" in seen[0][1]
    assert "canary" not in (tmp_path / "process").read_text()
