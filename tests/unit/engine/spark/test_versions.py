"""A cluster or session of another Spark is refused by both versions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import __version__ as installed

from lakeport.engine.spark import active_context, workers
from lakeport.errors import ConfigError, SparkFailure

MARKUP = {
    "4.0.5": '<span class="version" style="margin-right: 15px;">4.0.5</span>',
    "4.3.0": '<h3>Master at spark://a-b:7077</h3><span class="version me-3">4.3.0</span>',
    "": '<span class="status">8.0.1</span>',
    "another master's": '<span class="version">4.3.0</span><li>URL: spark://a-b:7078</li>',
}


@pytest.fixture(params=MARKUP)
def master(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    """The version on a master's page, if it has one, and the context of its driver of 3.5.9."""
    body = MARKUP[request.param].encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        conf = {"spark.master.ui.port": str(server.server_port)}
        yield (
            request.param,
            SimpleNamespace(version="3.5.9", master="spark://127.0.0.1:7077", getConf=lambda: conf),
        )
        server.shutdown()
        thread.join()


def explain(words: str, context: Any) -> Exception:
    failure = SparkFailure("Spark failed")
    failure.__cause__ = RuntimeError(words)
    return workers._explain_failure(failure, context)


def test_a_master_of_another_spark_is_named_by_its_version(master: tuple[str, Any]) -> None:
    version, context = master
    for words in (
        "SparkContext has been shutdown",
        "Cannot call methods on a stopped SparkContext",
        "Job 0 cancelled because SparkContext was shut down",
        "java.io.InvalidClassException: a.B; local class incompatible",
    ):
        said = explain(words, context)
        if version[:1].isdigit():
            assert isinstance(said, ConfigError)
            assert f"runs Spark {version}, and this process runs 3.5.9" in str(said)
            assert f"pyspark=={version}" in said.hint
        elif "InvalidClass" in words:
            assert isinstance(said, ConfigError)
            assert "another version of Spark than this process' 3.5.9" in said.message
        else:
            assert isinstance(said, SparkFailure)
            assert "they run another Spark than 3.5.9" in said.hint
    assert str(explain("a task failed", context)).startswith("Spark failed")


def test_what_is_no_master_at_that_port_changes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with other.accept()[0] as caller:
                caller.recv(1000)
                caller.sendall(b"220 mail.example.com ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        conf = {"spark.master.ui.port": str(other.getsockname()[1])}
        context = SimpleNamespace(
            version="3.5.9", master="spark://127.0.0.1:7077", getConf=lambda: conf
        )
        said = explain("SparkContext has been shutdown", context)
        thread.join()
    assert isinstance(said, SparkFailure)
    assert "no master answered" in said.hint


def test_a_session_whose_spark_is_not_pysparks_is_refused() -> None:
    active_context.check_version(_context(installed + "-amzn-1"))
    with pytest.raises(ConfigError, match=f"runs Spark 3.4.1, .* PySpark {installed}") as refused:
        active_context.check_version(_context("3.4.1"))
    assert "SPARK_HOME" in refused.value.hint


def _context(version: str) -> Any:
    return SimpleNamespace(version=version)
