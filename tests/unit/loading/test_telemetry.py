"""What loads log, and the spans and metrics that they leave with an application's providers."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import lakeport
from lakeport import scrub
from lakeport.loading.telemetry import LOGGER, LoadLog
from lakeport.loading.tracing import LoadTrace
from lakeport.model import Landed

NOW = datetime(2026, 11, 27, tzinfo=UTC)
LANDED = Landed("a", "/lake/a", 3, 2, ("f",), 10, 7, seconds=2.0, commit_seconds=0.5, conflicts=1)


def land(folder: Path, **keys: Any) -> lakeport.LandingReport:
    source = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]
    return lakeport.land(source, folder / "lake", table="people", engine="threads", **keys)


def values(record: logging.LogRecord, *names: str) -> list[Any]:
    return [getattr(record, name, None) for name in names]


def test_a_load_logs_its_begin_batches_and_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    report = land(tmp_path)
    begin, batch, end = [each for each in caplog.records if each.name == LOGGER]
    place = str(tmp_path / "lake")
    assert values(begin, "event", "target", "source", "engine") == [
        "load.begin",
        place,
        "list",
        "threads",
    ]
    assert values(batch, "event", "stream", "batch", "rows", "files", "version") == [
        "batch.landed",
        "people",
        0,
        2,
        1,
        0,
    ]
    assert batch.bytes == report.bytes  # type: ignore[attr-defined]
    assert 0 < batch.seconds <= end.seconds  # type: ignore[attr-defined]
    assert values(end, "event", "outcome", "rows", "levelname") == ["load.end", "ok", 2, "INFO"]
    assert {each.run for each in (begin, batch, end)} == {report.run_id}  # type: ignore[attr-defined]
    assert "Ada" not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_load_that_fails_logs_the_type_of_its_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(lakeport.LakeportError):
        lakeport.land(tmp_path / "gone.csv", tmp_path / "lake", engine="threads")
    (end,) = [each for each in caplog.records if each.name == LOGGER]
    names = ("event", "outcome", "error_type", "levelname")
    assert values(end, *names) == ["load.end", "failed", "SourceError", "ERROR"]


def test_secrets_are_masked_and_states_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    log = LoadLog("monday", "s3://lake", "https://x/?k=hunter22", "spark", ["hunter22"])
    log.on_warning("100% of hunter22")
    log.on_state(b'{"bookmark": "Ada"}')
    log.on_landed(LANDED)
    assert "hunter22" not in caplog.text + str([vars(each) for each in caplog.records])
    assert "Ada" not in caplog.text
    assert "100% of" in caplog.messages[1]
    assert values(caplog.records[3], "conflicts", "seconds") == [1, 2.0]


def test_known_secrets_are_masked_in_values_and_spans(
    caplog: pytest.LogCaptureFixture, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "_known", {"hunter22"})
    caplog.set_level(logging.INFO, LOGGER)
    landed = replace(LANDED, table="s3://hunter22/a")
    for observer in (
        LoadLog("monday", "s3://hunter22", "a.csv", "spark", ()),
        LoadTrace("monday", "s3://hunter22", "spark", int),
    ):
        observer.on_landed(landed)
        observer.on_finished(lakeport.LandingReport("monday", "s3://hunter22", NOW, NOW, 1.0))
    assert values(caplog.records[0], "target") == ["s3://**********"]
    heard = [vars(each) for each in caplog.records], collected.metrics()
    spans = [span.to_json() for span in collected.spans().values()]
    assert len(spans) == 3
    assert "hunter22" not in f"{heard} {spans}"


class Collected:
    """What an application's own providers got."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        parts = [scope for each in data.resource_metrics for scope in each.scope_metrics]
        return {each.name: each.data.data_points[0] for part in parts for each in part.metrics}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Collected:
    found = Collected()
    monkeypatch.setattr(trace, "get_tracer", found.tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", found.meters.get_meter)
    return found


def test_a_load_is_spans_below_the_applications_own(tmp_path: Path, collected: Collected) -> None:
    with collected.tracers.get_tracer("app").start_as_current_span("job"):
        report = land(tmp_path)
    spans = collected.spans()
    parents = (("load", "job"), ("batch", "lakeport load"), ("commit", "lakeport batch"))
    for name, parent in parents:
        above = spans[f"lakeport {name}"].parent
        assert above is not None
        assert above.span_id == spans[parent].context.span_id
    load, batch = spans["lakeport load"], spans["lakeport batch"]
    assert load.attributes is not None
    assert batch.attributes is not None
    assert load.attributes["lakeport.run_id"] == report.run_id
    for span in (load, batch):
        names = ("rows", "bytes", "conflicts")
        assert span.attributes is not None
        found = [span.attributes[f"lakeport.{name}"] for name in names]
        assert found == [2, report.bytes, 0]
    assert load.attributes["lakeport.retries"] == 0
    assert load.status.is_unset
    assert "lakeport writing" in spans
    points = collected.metrics()
    assert points["lakeport.rows"].value == 2
    assert points["lakeport.bytes"].value == report.bytes
    assert points["lakeport.loads"].attributes["lakeport.outcome"] == "ok"
    assert points["lakeport.load.duration"].count == 1


def test_a_failed_load_counts_conflicts_and_retries(collected: Collected) -> None:
    retries = iter([4, 9])
    load = LoadTrace("monday", "s3://lake", "spark", lambda: next(retries))
    load.on_landed(LANDED)
    failed = lakeport.LandingReport(
        "monday", "s3://lake", NOW, NOW, 1.0, error=lakeport.Failure("X", "Ada")
    )
    load.on_finished(failed)
    spans = collected.spans()
    batch, commit, span = (spans[f"lakeport {name}"] for name in ("batch", "commit", "load"))
    assert [(each.end_time or 0) - (each.start_time or 0) for each in (batch, commit)] == [
        2_000_000_000,
        500_000_000,
    ]
    assert span.attributes is not None
    assert [span.attributes[f"lakeport.{name}"] for name in ("retries", "conflicts")] == [5, 1]
    assert (span.status.is_ok, span.status.description) == (False, "X")
    points = collected.metrics()
    assert [points[f"lakeport.{name}"].value for name in ("retries", "conflicts")] == [5, 1]
    assert points["lakeport.loads"].attributes["lakeport.outcome"] == "failed"
