from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.formatting import (
    column_lines,
    format_value,
    table_lines,
)
from lakeport.loading.plan import ColumnPlan, LandingPlan, StreamPlan
from lakeport.loading.report import Failure, LandingReport
from lakeport.model import Landed, StreamReport
from lakeport.units import format_count, format_size

NOW = datetime(2024, 3, 4, tzinfo=UTC)
LANDED = Landed("flights", "/lake/flights", 0, 336776, ("f",), 8_100_000, version=0)
REPORT = LandingReport(
    "r1",
    "/lake",
    NOW,
    NOW,
    4.2,
    (
        StreamReport("flights", "/lake/flights", 336776, 2, {"x": 3}, 1, 8_100_000, 1, 1, 4, 0, 2),
        StreamReport("air\x1b[2Jlines", "/lake/airlines", 16, warnings=("many small files",)),
        StreamReport("notes", "/lake/notes", notes=("n\x1b.csv: tabs",)),
    ),
    stray_lines=1,
    quarantine=("/lake/_lakeport/q.jsonl",),
    warnings=("mind the gap",),
)
PLAN = LandingPlan(
    "/lake",
    "delta",
    "append",
    (
        StreamPlan(
            "a", "/lake/a", True, (ColumnPlan("id", "int64"),), ("d",), 9, 1, 3, ("w1",), ("n1",)
        ),
        StreamPlan("b", "/lake/b", False, (ColumnPlan("id", "int64", "new"),)),
    ),
    ("w2",),
)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def console() -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(out, err), out, err


def test_a_load_that_nobody_watches_is_one_line_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEPORT_VERBOSE")
    output, out, err = console()
    output.on_landed(LANDED)
    output.on_warning("mind the gap")
    output.remarks = lambda report: ("a remark",)
    good = StreamReport(
        "flights", "/lake/flights", 5, merged={"inserted": 5}, columns={"a": "date"}
    )
    output.on_finished(replace(REPORT, streams=(good,), stray_lines=0, quarantine=()))
    assert out.getvalue() == "5 rows of flights landed in /lake, 4.2 s, run r1\n"
    assert err.getvalue() == "Warning: mind the gap\n"
    output, out, _ = console()
    output.on_finished(REPORT)
    *notes, last = out.getvalue().splitlines()
    assert last == "336,792 rows of 3 streams landed in /lake, 4.2 s, run r1"
    assert notes == [
        "flights: 2 bad records set aside",
        "flights: undeclared field x dropped from 3 records",
        "flights: 1 batch skipped, landed before",
        "air\\x1b[2Jlines: many small files",
        "notes: n\\x1b.csv: tabs",
        "1 line belongs to no stream",
        "bad records are in /lake/_lakeport/q.jsonl",
        "mind the gap",
    ]
    for streams in ((Terminal(), io.StringIO()), (io.StringIO(), Terminal())):
        Console(*streams).on_finished(REPORT)
        assert "flights" in streams[0].getvalue().splitlines()[-9]


def test_piped_output_has_one_line_for_each_batch() -> None:
    output, out, err = console()
    output.on_progress("flights", 5, 100)
    output.on_landed(LANDED)
    output.on_landed(Landed("flights", "/lake/flights", 1, 0, skipped=True))
    assert out.getvalue().splitlines() == [
        "flights: batch 1 landed, 336,776 rows, 1 file, 8.1 MB, version 0",
        "flights: batch 2 skipped, this run had landed it before",
    ]
    assert output.landed == 2 and err.getvalue() == ""


def test_the_report_in_plain_lines() -> None:
    output, out, _ = console()
    output.on_finished(REPORT)
    text = out.getvalue()
    assert text.isascii() and "\x1b" not in text
    lines = text.splitlines()
    assert lines[0].split() == ["stream", "rows", "files", "size", "version", "seconds", "table"]
    assert lines[1].split() == [
        "flights",
        "336,776",
        "1",
        "8.1",
        "MB",
        "0-2",
        "0.0",
        "/lake/flights",
    ]
    assert lines[-1] == "336,792 rows landed in /lake, 4.2 s, run r1"
    for words in (
        "flights: 2 bad records set aside",
        "flights: undeclared field x dropped from 3 records",
        "flights: 1 batch skipped",
        "flights: 4 files replaced",
        "  notes: n\\x1b.csv: tabs\n",
        "many small files",
        "1 line belongs to no stream",
        "bad records are in /lake/_lakeport/q.jsonl",
        "mind the gap",
    ):
        assert words in text


def test_a_terminal_has_a_table() -> None:
    out = Terminal()
    output = Console(out, io.StringIO())
    output.on_progress("flights", 1000, 2_000_000)
    output.on_landed(LANDED)
    output.on_finished(REPORT)
    output.close()
    text = out.getvalue()
    assert "336,776" in text and "batch 1 landed" not in text and "\x1b[2J" not in text
    assert text.endswith("336,792 rows landed in /lake, 4.2 s, run r1\n")


def test_warnings_go_to_the_side_when_piped() -> None:
    output, out, err = console()
    output.on_warning("careful\n")
    assert (out.getvalue(), err.getvalue()) == ("", "Warning: careful\\n\n")


def test_an_error_has_its_hint() -> None:
    output, out, err = console()
    output.failure(Failure("ConfigError", "no such key", "there are: a, b."))
    assert (out.getvalue(), err.getvalue()) == (
        "",
        "Error: no such key\n\nHint: there are: a, b.\n",
    )


def test_an_error_without_hint_and_with_trace() -> None:
    output, _, err = console()
    output.failure(Failure("X", "broken"), "Traceback\n", "canary")
    assert err.getvalue() == "Traceback\nError: broken\n"


def test_a_terminal_shows_the_text_that_can_not_be_read() -> None:
    err = Terminal()
    Console(io.StringIO(), err).failure(Failure("X", "broken", "mend it"), value="7\x1b €")
    assert err.getvalue() == "Error: broken\n\nThe text: '7\\x1b €'\n\nHint: mend it\n"


def test_json_has_one_document() -> None:
    out, err = io.StringIO(), io.StringIO()
    output = Json(out, err)
    output.on_progress("flights", 1, 1)
    output.on_landed(LANDED)
    output.on_warning("careful")
    output.on_state(b"{}")
    output.on_finished(REPORT)
    output.close()
    assert json.loads(out.getvalue()) == REPORT.to_dict()
    assert err.getvalue() == "" and output.landed == 1


def test_json_errors() -> None:
    out, err = io.StringIO(), io.StringIO()
    Json(out, err).failure(Failure("ConfigError", "m", "h"))
    assert json.loads(err.getvalue()) == {
        "error": {"type": "ConfigError", "message": "m", "hint": "h"}
    }
    err.truncate(0)
    err.seek(0)
    Json(out, err).failure(Failure("X", "m"), "trace")
    assert json.loads(err.getvalue())["error"]["trace"] == "trace"
    assert out.getvalue() == ""


def test_json_values_are_always_json() -> None:
    out = io.StringIO()
    rows = [[float("nan"), Decimal("1.10"), b"\xff", NOW, {"a": [None, True]}]]
    Json(out, io.StringIO()).rows("", ["a", "b", "c", "d", "e"], rows)
    (row,) = json.loads(out.getvalue(), parse_constant=lambda name: pytest.fail(name))
    assert row == {
        "a": "nan",
        "b": "1.10",
        "c": "/w==",
        "d": "2024-03-04T00:00:00+00:00",
        "e": {"a": [None, True]},
    }


def test_states_go_to_their_sink() -> None:
    for make in (Console, Json):
        seen: list[bytes] = []
        output: Output = make(io.StringIO(), io.StringIO(), seen.append)
        output.on_state(b'{"a": 1}')
        assert seen == [b'{"a": 1}']


def test_a_plan_in_words_and_as_json() -> None:
    output, out, err = console()
    output.plan(PLAN)
    text = out.getvalue()
    assert text.startswith("nothing is written: a load would append to delta tables in /lake\n")
    for words in ("version 3", "a new table", "int64", "new", "w1"):
        assert words in text
    assert "  notes             n1\n" in text
    assert "w2" in err.getvalue()
    out = io.StringIO()
    Json(out, io.StringIO()).plan(PLAN)
    assert json.loads(out.getvalue()) == json.loads(PLAN.to_json())


def test_facts() -> None:
    output, out, _ = console()
    output.facts("t", {"rows": 3, "location": None})
    assert out.getvalue() == "t\n  rows      3\n  location  null\n"
    output, out, _ = console()
    output.facts("t", {"columns": [{"name": "id", "type": "int64"}], "keys": ["a", "b"]})
    assert out.getvalue() == "t\n  keys     a, b\nname  type\nid    int64\n"
    out = io.StringIO()
    Json(out, io.StringIO()).facts("t", {"rows": 3})
    assert json.loads(out.getvalue()) == {"rows": 3}


def test_words() -> None:
    assert [format_size(n) for n in (0, 1000, 2.5e9, 3e15)] == [
        "0 B",
        "1.0 KB",
        "2.5 GB",
        "3,000.0 TB",
    ]
    assert format_count(0) == "0"
    assert format_value("\u202egnp\x00\r") == "\\u202egnp\\x00\\r"
    assert format_value(False) == "false" and format_value("é ü") == "é ü"
    assert table_lines(("a", "b"), []) == ["a  b"]


@pytest.mark.parametrize("width", [20, 40, 60, 100])
@pytest.mark.parametrize("columns", [0, 1, 5, 200])
def test_columns_are_left_out_and_never_cut(width: int, columns: int) -> None:
    types = {f"column_{n}": "decimal(10,2)" if n % 3 else "integer" for n in range(columns)}
    lines = column_lines(StreamReport("t", columns=types), width)
    assert len(lines) <= 5 and (columns > 0 or not lines)
    text = " ".join(line.strip() for line in lines).removeprefix("t: ")
    told, _, more = text.rpartition("and ")
    left_out = int(more.removesuffix(" more")) if more.endswith(" more") else 0
    shown_ = [cell for cell in (told if left_out else text).strip(" ,").split(", ") if cell]
    assert all(cell in {f"{name} {type_}" for name, type_ in types.items()} for cell in shown_)
    assert len(shown_) + left_out == columns
    assert max(map(len, lines), default=0) <= width


def test_the_columns_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    types = {f"a_rather_long_name_{n}": "timestamp" for n in range(9)}
    report = LandingReport("r", "/lake", NOW, NOW, 1.0, (StreamReport("t", columns=types),))
    out = Terminal()
    Console(out).on_finished(report)
    lines = [line for line in out.getvalue().splitlines() if "a_rather" in line]
    assert lines and max(map(len, lines)) <= 60
    assert "and 5 more" in out.getvalue()
