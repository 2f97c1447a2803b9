"""Spans and metrics of commands at a receiver of OTLP over HTTP, and the file for Prometheus."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakeport import scrub
from lakeport.cli.app import main
from lakeport.cli.telemetry import export_telemetry, write_metrics

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FILE = """
target: {destination: local, path: lake, engine: threads}
loads:
  people: {from: {files: people.csv}}
  gone: {from: {files: gone.csv}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id,name\n1,Ada\n2,Bea\n")
    Path("lake.yaml").write_text(FILE)
    return tmp_path


class Receiver(ThreadingHTTPServer):
    """An OTLP/HTTP receiver: keeps the spans by name, and the metrics' sums."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: dict[str, list[Any]] = {}
        self.sums: dict[str, int] = {}
        self.services: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.services |= {
                    pair.value.string_value
                    for pair in each.resource.attributes
                    if pair.key == "service.name"
                }
                for span in (span for scope in each.scope_spans for span in scope.spans):
                    self.spans.setdefault(span.name, []).append(span)
        else:
            for found in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (m for scope in found.scope_metrics for m in scope.metrics):
                    total = sum(point.as_int for point in metric.sum.data_points)
                    self.sums[metric.name] = total


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        gzipped = self.headers.get("Content-Encoding") == "gzip"
        self.server.take(self.path, gzip.decompress(body) if gzipped else body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def lakeport(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, as a process has one provider."""
    return subprocess.run(
        [sys.executable, "-m", "lakeport", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def attributes(span: Any) -> dict[str, Any]:
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


def test_a_run_is_one_trace_at_the_receiver(folder: Path, receiver: Receiver) -> None:
    done = lakeport(
        "run",
        "lake.yaml",
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.address,
        TRACEPARENT=f"00-{TRACE}-{PARENT}-01",
    )
    assert done.returncode == 3, done.stderr
    assert "spans and metrics" not in done.stderr
    spans = receiver.spans
    (run,), (batch,), (commit,) = (spans[f"lakeport {name}"] for name in ("run", "batch", "commit"))
    loads = {attributes(each)["lakeport.load"]: each for each in spans["lakeport load"]}
    assert {each.trace_id.hex() for found in spans.values() for each in found} == {TRACE}
    assert run.parent_span_id.hex() == PARENT
    assert {each.parent_span_id for each in loads.values()} == {run.span_id}
    assert batch.parent_span_id == loads["people"].span_id
    assert commit.parent_span_id == batch.span_id
    assert attributes(batch)["lakeport.rows"] == 2
    assert [loads[name].status.code for name in ("people", "gone")] == [0, 2]
    assert run.status.message == "LoadsFailed"
    assert attributes(run)["lakeport.rows"] == 2
    assert receiver.services == {"lakeport"}
    assert receiver.sums["lakeport.rows"] == 2
    assert receiver.sums["lakeport.loads"] == 2


def test_a_collector_that_is_down_costs_one_warning(folder: Path) -> None:
    with Receiver() as gone:
        address = gone.address
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2"}
    load = ("land", "people.csv", "--to", "lake", "--engine", "threads")
    done = lakeport(*load, **environment)
    assert done.returncode == 0
    assert "2 rows" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: spans and metrics were not all sent")


@pytest.mark.parametrize(
    ("environment", "providers"),
    [
        ({}, set()),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, {"traces", "metrics"}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, {"traces"}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, {"metrics"}),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, {"metrics"}),
    ],
)
def test_the_variables_decide(
    environment: Mapping[str, str], providers: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, told = {}, list[str]()
    monkeypatch.setattr(trace, "set_tracer_provider", lambda one: found.update(traces=one))
    monkeypatch.setattr(metrics, "set_meter_provider", lambda one: found.update(metrics=one))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with export_telemetry("lakeport", ["land", "a.csv"], told.append):
        assert set(found) == providers
    found.clear()
    with export_telemetry("lakeport", ["tables", "lake"], told.append):
        assert not found
    assert told == []


def test_an_exporter_that_is_not_installed_fails_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "smoke_signals")
    told = list[str]()
    with export_telemetry("target-lakeport", [], told.append):
        pass
    (text,) = told
    assert "no exporter 'smoke_signals' of traces is installed" in text


def test_nothing_of_opentelemetry_is_loaded_unasked() -> None:
    code = "import sys, lakeport.cli.app; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def samples(path: Path) -> dict[str, float]:
    """The samples of a file as node_exporter's parser takes them."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'(\w+\{(?:\w+="(?:[^"\\\n]|\\.)*",?)*\}) (\S+)', line)
            assert match is not None, line
            found[match[1]] = float(match[2])
    return found


def test_the_file_for_prometheus_tells_of_the_last_run(folder: Path) -> None:
    path = folder / "nightly.prom"
    arguments = ["--to", "lake", "--engine", "threads", "--metrics-file", str(path)]
    assert main(["land", "people.csv", *arguments]) == 0
    first = samples(path)
    place = f'file="nightly",table="{folder}/lake/people",stream="people"'
    assert first[f"lakeport_table_rows{{{place}}}"] == 2
    assert first[f"lakeport_table_bytes{{{place}}}"] > 0
    assert first['lakeport_last_run_success{file="nightly"}'] == 1
    assert main(["land", "gone.csv", *arguments]) == 3
    second = samples(path)
    assert second['lakeport_last_run_success{file="nightly"}'] == 0
    before = 'lakeport_last_success_timestamp_seconds{file="nightly"}'
    assert second[before] == first[before]
    assert main(["run", "lake.yaml", "--metrics-file", str(path)]) == 3
    third = samples(path)
    for name, success in (("people", 1), ("gone", 0)):
        assert third[f'lakeport_load_success{{file="nightly",load="{name}"}}'] == success
    assert [each.name for each in folder.iterdir() if "prom" in each.name] == ["nightly.prom"]


def test_known_secrets_are_masked_in_the_file_for_prometheus(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "_known", {"lake-hunter22"})
    path = folder / "nightly.prom"
    arguments = ["--to", "lake-hunter22", "--engine", "threads", "--metrics-file", str(path)]
    assert main(["land", "people.csv", *arguments]) == 0
    assert f'table="{folder}/**********/people"' in path.read_text()
    assert "hunter22" not in path.read_text()


def test_a_file_that_cannot_be_written_fails_no_load(tmp_path: Path) -> None:
    folder, told = tmp_path / "gone", list[str]()
    folder.mkdir()
    with write_metrics(folder / "a.prom", told.append):
        folder.rmdir()
    (text,) = told
    assert "there is no folder" in text
