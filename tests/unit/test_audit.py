"""The audit of what is pinned: what makes it fail, and what it makes of the services' answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from scripts import audit
from scripts.audit import Pin

LOCK = """\
# by a tool
jinja2==3.1.2
numpy==2.4.6 ; python_full_version < '3.12'
"""
CRATES = """\
[[package]]
name = "memchr"
version = "2.8.3"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "ours"
version = "0.1.0"
"""
JINJA, NUMPY = Pin("pypi", "jinja2", "3.1.2"), Pin("pypi", "numpy", "2.4.6")
JAR = Pin("maven", "io.delta/delta-storage", "4.4.0")


def answered(**ids: list[str]) -> dict[str, Any]:
    given = {"jinja2": [], "numpy": [], **ids}
    pins: dict[str, Any] = {
        str(pin): {"date": "2026-11-01", "service": "osv.dev", "advisories": given[pin.name]}
        for pin in (JINJA, NUMPY)
    }
    return {"accepted": {}, "pins": {**pins, str(JAR): None}}


@contextmanager
def service(answers: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """A web server that answers these paths with JSON; its address, and what was posted."""
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", posted
        server.shutdown()
        thread.join()


def test_what_is_pinned_here_was_looked_up() -> None:
    assert audit.main([]) == 0


def test_pins_are_those_of_the_lock_file_and_the_jars() -> None:
    found = audit.pins(LOCK, CRATES)
    assert {JINJA, NUMPY, JAR} <= set(found)
    assert str(NUMPY) == "pkg:pypi/numpy@2.4.6"
    assert [pin.name for pin in found if pin.kind == "cargo"] == ["memchr"]


def test_a_pin_that_nobody_looked_up_is_a_problem() -> None:
    new = Pin("pypi", "numpy", "2.4.7")
    (told,) = audit.problems([JINJA, new], answered())
    assert "numpy@2.4.7" in told and "make audit" in told


def test_a_vulnerable_pin_is_a_problem_until_somebody_says_why_not() -> None:
    answers = answered(jinja2=["GHSA-1", "GHSA-2"])
    (told,) = audit.problems([JINJA, NUMPY, JAR], answers)
    assert "jinja2@3.1.2 is vulnerable (GHSA-1, GHSA-2)" in told
    answers["accepted"] = {"GHSA-1": "never called", "GHSA-2": "never called"}
    assert audit.problems([JINJA, NUMPY, JAR], answers) == []
    assert "2 known vulnerabilities, accepted" in audit.summary([JINJA], answers)
    answers["accepted"]["GHSA-3"] = "of an older version"
    assert audit.problems([JINJA, NUMPY, JAR], answers) == ["GHSA-3 is accepted, but no pin has it"]


def test_what_no_service_knows_is_said() -> None:
    told = audit.summary([JINJA, NUMPY, JAR], answered())
    assert told.startswith("2 of 3 pins looked up (2026-11-01 or later); no known vulnerability")
    assert told.endswith("the other 1")


def test_osv_is_asked_for_all_pins_at_once() -> None:
    results = [{}, {"vulns": [{"id": "GHSA-9", "modified": "x"}]}]
    with service({"/v1/querybatch": {"results": results}}) as (address, posted):
        found = audit.ask_osv([JAR, JINJA], f"{address}/v1/querybatch")
    assert found == {JAR: ("osv.dev", []), JINJA: ("osv.dev", ["GHSA-9"])}
    packages = [query["package"]["purl"] for query in posted[0]["queries"]]
    assert packages == ["pkg:maven/io.delta/delta-storage@4.4.0", "pkg:pypi/jinja2@3.1.2"]


@pytest.mark.parametrize(("path", "version"), [("jinja2/3.1.2", "3.1.2"), ("jinja2", "3.1.2")])
def test_pypi_tells_of_a_version_or_of_the_newest(path: str, version: str) -> None:
    vulnerable = [{"id": "GHSA-8", "withdrawn": None}, {"id": "GHSA-7", "withdrawn": "2025"}]
    told = {"info": {"version": version}, "vulnerabilities": vulnerable}
    with service({f"/{path}/json": told}) as (address, _):
        assert audit.ask_pypi(JINJA, address) == ("pypi.org", ["GHSA-8"])
        assert audit.ask_pypi(Pin("pypi", "jinja2", "3.1.1"), address) is None


def test_a_service_out_of_reach_leaves_the_earlier_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ask_osv", lambda pinned: {})
    monkeypatch.setattr(audit, "ask_pypi", lambda pin: ("pypi.org", []) if pin == NUMPY else None)
    before = answered(jinja2=["GHSA-1"])
    fresh = audit.refresh([JINJA, NUMPY, JAR], before, "2026-12-01")
    assert fresh["pins"][str(JINJA)] == before["pins"][str(JINJA)]
    assert fresh["pins"][str(NUMPY)]["date"] == "2026-12-01"
    assert fresh["pins"][str(JAR)] is None


def test_no_network_is_no_error() -> None:
    assert audit.ask_osv([JINJA], "http://127.0.0.1:1/v1/querybatch") == {}
    assert audit.ask_pypi(JINJA, "http://127.0.0.1:1") is None
