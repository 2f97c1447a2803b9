"""What is shown fits the terminal, and no value is cut for it."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.cli.output.console import Console
from lakeport.cli.output.formatting import fit_columns, shorten_paths, text_width, wrap
from lakeport.loading.report import Failure, LandingReport
from lakeport.model import StreamReport
from tests.unit.cli.output.test_console import NOW, PLAN, REPORT, Terminal

WORDS = st.text("ab `-é名", max_size=120)


def shown(width: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Console, Terminal, Terminal]:
    monkeypatch.setenv("COLUMNS", str(width))
    out, err = Terminal(), Terminal()
    return Console(out, err), out, err


@given(WORDS, st.integers(8, 80), st.integers(0, 6))
def test_wrapping_loses_no_word(text: str, width: int, hanging: int) -> None:
    lines = wrap(text, width, hanging)
    assert " ".join(lines).split() == text.split()
    for line in lines:
        assert text_width(line) <= width or len(line.split()) <= 1


def test_a_command_stays_whole() -> None:
    text = "Hint: name it, or run `lakeport table optimize ./lake/flights`, which takes a while."
    for width in range(20, 90):
        assert any(
            "`lakeport table optimize ./lake/flights`," in line for line in wrap(text, width)
        )


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.text("ab1", max_size=30), min_size=n, max_size=n), min_size=1
        )
    ),
    st.integers(10, 90),
)
def test_columns_fit_or_are_named(rows: list[list[str]], width: int) -> None:
    columns = [f"c{number}" for number in range(len(rows[0]))]
    kept, missing = fit_columns(columns, rows, width)
    if kept:
        assert kept[0] == 0
        total = sum(max(len(row[i]) for row in (columns, *rows)) for i in kept) + 2 * (
            len(kept) - 1
        )
        assert total <= width
        assert sorted([columns[i] for i in kept] + missing) == columns


def test_a_report_at_60_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    output, out, _ = shown(60, monkeypatch)
    output.on_finished(REPORT)
    lines = out.getvalue().splitlines()
    assert all(text_width(line) <= 60 for line in lines), lines
    assert "…" not in out.getvalue() and "..." not in out.getvalue()
    assert "336,776" in out.getvalue() and "8.1 MB" in out.getvalue()
    assert re.search(r"not shown: .*table \(a wider terminal, or --json\)", " ".join(lines))


def test_a_wide_terminal_shows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    output, out, _ = shown(120, monkeypatch)
    output.on_finished(REPORT)
    assert "/lake/flights" in out.getvalue() and "not shown" not in out.getvalue()


def test_rows_that_do_not_fit_become_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    output, out, _ = shown(40, monkeypatch)
    run = "20261124-044353-3c5621-and-a-longer-name-yet"
    output.rows("", ("id", "note"), [(run, "some words " * 5), ("b", None)])
    text = out.getvalue()
    assert run in text and "…" not in text
    assert text.splitlines()[-2:] == ["id    b", "note  null"]


def test_ids_are_whole_and_prose_may_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    output, out, _ = shown(200, monkeypatch)
    output.rows("", ("id", "text"), [("x" * 90, "many words " * 20)])
    assert "x" * 90 in out.getvalue() and "…" in out.getvalue()


def test_facts_plans_and_errors_at_60_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    output, out, err = shown(60, monkeypatch)
    output.facts("t", {"properties": {f"delta.property{n}": n for n in range(9)}, "uri": "x" * 55})
    output.plan(PLAN)
    output.failure(Failure("X", "a message of many words " * 6, "do `lakeport tables lake` " * 5))
    for line in (out.getvalue() + err.getvalue()).splitlines():
        assert text_width(line) <= 60, line
    assert "x" * 55 in out.getvalue()


def test_piped_output_has_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out, err = io.StringIO(), io.StringIO()
    output = Console(out, err)
    output.on_finished(REPORT)
    output.failure(Failure("X", "words " * 40))
    assert "/lake/flights" in out.getvalue() and "not shown" not in out.getvalue()
    assert len(err.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (StreamReport("p", removed_files=1, removed_rows=336776), "1 file replaced (336,776 rows)"),
        (StreamReport("p", removed_files=2, removed_rows=None), "2 files replaced"),
        (
            StreamReport("p", merged={"inserted": 1, "updated": 2, "deleted": 0, "unchanged": 0}),
            "1 row inserted, 2 updated, 0 unchanged",
        ),
        (StreamReport("p", merged={"inserted": 2, "updated": 0, "deleted": 3}), "3 deleted"),
    ],
)
def test_what_became_of_older_rows(stream: StreamReport, words: str) -> None:
    out = io.StringIO()
    Console(out).on_finished(LandingReport("r", "/lake", NOW, NOW, 0.1, (stream,)))
    (line,) = [line for line in out.getvalue().splitlines() if line.startswith("  p: ")]
    assert words in line and line.endswith(words)


def test_a_terminal_shows_paths_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output, out, err = shown(120, monkeypatch)
    lake = f"{tmp_path}/lake"
    stream = StreamReport("p", f"{lake}/p", 1)
    output.on_finished(
        LandingReport("r", lake, NOW, NOW, 0.1, (stream,), quarantine=(f"{lake}/q",))
    )
    output.failure(Failure("X", f"no table in {lake}", f"`lakeport tables {lake}`"))
    output.rows("", ("path",), [(lake,)])
    header, *_, note, landed, _, _, value = out.getvalue().splitlines()
    assert header.split() == ["stream", "rows", "files", "size", "version", "seconds"]
    assert note == "  bad records are in ./lake/q"
    assert landed == "1 row landed in ./lake, 0.1 s, run r"
    assert err.getvalue() == "Error: no table in ./lake\n\nHint: `lakeport tables ./lake`\n"
    assert value == lake  # of the data


def test_paths_stay_whole_where_nobody_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        shorten_paths(f"{tmp_path}/a {tmp_path}x/b /x{tmp_path}/c")
        == f"./a {tmp_path}x/b /x{tmp_path}/c"
    )
    err = io.StringIO()
    Console(io.StringIO(), err).failure(Failure("X", f"no table in {tmp_path}/lake"))
    assert err.getvalue() == f"Error: no table in {tmp_path}/lake\n"
