from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeport.errors import BadRecord, SchemaConflict
from lakeport.host.process import record_command_line
from lakeport.loading.builder import ReportBuilder
from lakeport.loading.plan import ColumnPlan, LandingPlan, StreamPlan
from lakeport.loading.report import Failure, LandingReport
from lakeport.model import Landed, Staged, Work

START = datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)


def builder(secrets: tuple[str, ...] = ()) -> ReportBuilder:
    """A builder whose clocks advance by 2 seconds with each look."""
    moments = iter(START + timedelta(seconds=2 * i) for i in range(9))
    ticks = iter(float(2 * i) for i in range(9))
    return ReportBuilder(
        "r1", "/lake", secrets=secrets, now=lambda: next(moments), tick=lambda: next(ticks)
    )


def filled() -> ReportBuilder:
    report = builder()
    report.add_landed(Landed("a", "/lake/a", 0, 10, ("f1", "f2"), 100, version=3, seconds=1.5))
    report.add_landed(Landed("b", "/lake/b", 0, 4, ("f",), 40, seconds=1.0))
    second = Landed("a", "/lake/a", 1, 5, ("f3",), 50, 4, warnings=("small", "w"), seconds=0.5)
    report.add_landed(second)
    report.add_landed(Landed("a", "/lake/a", 2, 0, ("f4",), 9, 5, skipped=True, warnings=("w",)))
    report.add_landed(Landed("b", "/lake/b", 1, 0, notes=("b.csv: tabs",)))
    report.add_landed(Landed("b", "/lake/b", 2, 0, notes=("b.csv: tabs", "c.csv: pipes")))
    report.add_rejected("a", 2)
    report.add_rejected("a", 1)
    report.add_dropped("b", {"x": 1})
    report.add_dropped("b", {"x": 2, "y": 1})
    report.add_stray_lines(3)
    report.add_quarantined([], ["/lake/q1", "/lake/q1"])
    report.add_warning("general")
    report.add_warning("general")
    report.add_warning("own", "b")
    report.set_state(b'{"bookmarks": {"a": 9007199254740993}}')
    return report


def test_batches_add_up() -> None:
    report = filled().finish()
    a, b = report.streams
    assert (a.rows, a.files, a.bytes, a.batches, a.skipped_batches) == (15, 3, 150, 3, 1)
    assert (a.first_version, a.last_version, a.seconds, a.rejected) == (3, 5, 2.0, 3)
    assert a.warnings == ("small", "w")
    assert (b.rows, b.first_version, b.dropped, b.warnings) == (4, None, {"x": 3, "y": 1}, ("own",))
    assert (a.notes, b.notes) == ((), ("b.csv: tabs", "c.csv: pipes"))
    assert (report.rows, report.rejected, report.files, report.bytes) == (19, 6, 4, 190)
    assert report.ok and report.seconds == 2.0 and report.finished - report.started


def test_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_NATIVE", "off")
    values = json.loads(filled().finish().to_json())
    assert values["parser"] == "python"
    assert values["report"] == 1 and values["ok"] is True
    assert values["started"] == "2024-03-04T15:30:45.123456+00:00"
    assert values["finished"] == "2024-03-04T15:30:47.123456+00:00"
    assert values["state"] == {"bookmarks": {"a": 9007199254740993}}
    assert values["warnings"] == ["general"] and values["quarantine"] == ["/lake/q1"]
    assert values["error"] is None and values["stray_lines"] == 3 and values["rejected"] == 6
    a, b = values["streams"]
    assert (a["first_version"], a["last_version"]) == (3, 5)
    assert (a["notes"], b["notes"]) == ([], ["b.csv: tabs", "c.csv: pipes"])
    assert (b["first_version"], b["last_version"], b["dropped"]) == (None, None, {"x": 3, "y": 1})


def test_the_document_tells_when_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    report = builder(("canary-5f3a",))
    with record_command_line("lakeport", ["land", "-", "--to", "s3://canary-5f3a@b/c"]):
        begun = builder(("canary-5f3a",))
    assert report.finish().command is None
    with begun.timeline.stage("writing", "a") as start:
        work = Work({"parsing": (0.0, 1e10, 1.23456)}, ((1e10, 5, 50),))
        begun.timeline.add_tasks("a", [Staged("k", {}, 5, 50, work=work)], start)
    begun.timeline.add_progress("a", 5, 60)
    begun.add_quarantined([BadRecord("a", 1, "n", "no number", b"canary")], ["/lake/q"])
    values = json.loads(begun.finish().to_json())
    assert values["command"] == ["lakeport", "land", "-", "--to", "s3://**********@b/c"]
    assert values["reasons"] == [{"stream": "a", "column": "n", "reason": "no number", "count": 1}]
    assert values["spans"] == [
        {"stage": "writing", "stream": "a", "start": 2.0, "end": 6.0, "tasks": 0, "busy": 4.0},
        {"stage": "parsing", "stream": "a", "start": 2.0, "end": 4.0, "tasks": 1, "busy": 1.235},
    ]
    assert values["streams_left_out"] == 0
    assert values["pace"] == [[0.0, 0, 0], [4.0, 0, 0], [4.05, 5, 50]]
    assert values["reading_pace"] == [[0.0, 0, 0], [8.0, 0, 0], [8.1, 5, 60]]


def test_reports_and_plans_show_themselves_in_a_line() -> None:
    assert repr(filled().finish()) == (
        "LandingReport(run_id='r1', target='/lake', streams=2, rows=19, rejected=6)"
    )
    failed = builder().finish(SchemaConflict("no", "try"))
    assert repr(failed).endswith("rejected=0, SchemaConflict)")
    plan = LandingPlan("/lake", "delta", "append", (StreamPlan("a", "/lake/a", False, ()),))
    assert repr(plan) == "LandingPlan(delta, append, to /lake: /lake/a)"


def test_a_short_report_has_a_bound() -> None:
    report = filled().finish()
    streams = tuple(replace(report.streams[0], stream=f"s{n}") for n in range(60))
    short = replace(report, streams=streams, state=b"{}").to_dict(whole=False)
    assert len(short["streams"]) == 50
    assert short["streams_left_out"] == 10
    assert short["rows"] == 60 * report.streams[0].rows
    assert not {"spans", "pace", "reading_pace", "state", "command"} & short.keys()
    assert not {"columns", "source_columns"} & short["streams"][0].keys()


def test_an_empty_run() -> None:
    report = builder().finish()
    assert report.ok and report.rows == 0
    assert json.loads(report.to_json())["state"] is None


def test_a_failed_run_tells_its_error_without_secrets() -> None:
    report = builder(("canary-5f3a",)).finish(SchemaConflict("no canary-5f3a", "try canary-5f3a"))
    assert not report.ok
    assert report.error == Failure("SchemaConflict", "no **********", "try **********")
    assert json.loads(report.to_json())["error"]["type"] == "SchemaConflict"


def test_foreign_errors_do_not_quote_data() -> None:
    def fail(error: Exception) -> LandingReport:
        try:
            raise error
        except Exception as caught:
            return builder().finish(caught)

    failure = fail(ValueError("row 'canary'")).error
    assert failure and failure.type == "ValueError"
    assert failure.message.startswith("unexpected ValueError in test_report.py, line ")
    assert "canary" not in failure.message
    failure = fail(OSError(28, "No space left on device", "/canary")).error
    assert failure and failure.message.endswith("No space left on device")


def test_a_plan_as_a_document() -> None:
    column = ColumnPlan("id", "int64", "new")
    plan = LandingPlan("/lake", "delta", "append", (StreamPlan("a", "/lake/a", False, (column,)),))
    values = json.loads(plan.to_json())
    assert values["plan"] == 1
    (stream,) = values["streams"]
    assert stream["columns"] == [{"name": "id", "type": "int64", "change": "new"}]


def test_a_report_is_made_while_an_interrupted_batch_goes_on() -> None:
    report = ReportBuilder("r1")

    def reject() -> None:
        for number in range(2000):
            report.add_quarantined([BadRecord(f"s{number}", 1, "n", "not a number", b"{}")], ())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=reject)
    thread.start()
    try:
        while thread.is_alive():
            report.finish()
    finally:
        thread.join()
        sys.setswitchinterval(before)
    assert len(report.finish().reasons) == 2000
