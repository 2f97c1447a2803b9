from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.host.activity import Activity, activity, add_progress
from lakeport.loading.progress import Lines, Progress, ProgressState, show_progress


def test_a_function_hears_what_goes_on() -> None:
    heard: list[tuple[Activity, ...]] = []
    told = threading.Event()

    def hook(activities: tuple[Activity, ...]) -> None:
        heard.append(activities)
        told.set()

    with activity("reading", "a"), show_progress(hook, "landing"):
        add_progress(7)
        told.clear()
        assert told.wait(30)
    assert heard[-1][0].done == 7
    count = len(heard)
    assert not told.clear() and len(heard) == count


def test_a_function_that_fails_fails_nothing_else() -> None:
    called = threading.Event()

    def hook(activities: tuple[Activity, ...]) -> None:
        called.set()
        raise RuntimeError("broken")

    with activity("reading"), show_progress(hook, "landing"):
        assert called.wait(30)


def test_a_load_tells_a_function_what_it_does(tmp_path: Path) -> None:
    told = threading.Event()
    batch = pa.RecordBatch.from_pydict({"id": range(1000)})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        assert told.wait(30)  # a load may be over before anybody looks
        yield batch

    def hook(activities: tuple[Activity, ...]) -> None:
        if [(each.what, each.name, each.rows) for each in activities] == [("reading", "t", 0)]:
            told.set()

    rows = pa.RecordBatchReader.from_batches(batch.schema, batches())
    report = lakeport.land(rows, str(tmp_path / "lake"), table="t", progress=hook)
    assert report.rows == 2000


class _Clocked:
    """Lines at moments of the test's own."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.lines = Lines(self.out)

    def at(self, now: float, *activities: Activity) -> list[str]:
        self.out.seek(0)
        self.out.truncate()
        self.lines.draw(ProgressState("landing", 0.0, now, activities))
        return self.out.getvalue().splitlines()


def test_lines_come_at_once_and_then_at_intervals_that_grow() -> None:
    it = _Clocked()
    assert it.at(0.2) == []  # a load that is over by now needs no word
    assert it.at(0.4) == ["landing ..."]
    reading = Activity("reading", "a", 0.0, total=100, done=50)
    assert it.at(1.0, reading) == ["reading a: 50 of 100 B (50%), 50 B/s, 1 s left"]
    assert it.at(3.0, reading) == []
    assert len(it.at(5.4, reading)) == 1
    spoken = sum(bool(it.at(second + 0.5, reading)) for second in range(6, 3600))
    assert spoken == 10 + 36 + 50


def test_a_new_activity_is_told_at_once() -> None:
    it = _Clocked()
    first, second = Activity("reading", "a", 0.0), Activity("writing", "a", 1.0)
    assert it.at(0.5, first) == ["reading a ..."]
    assert it.at(1.5, first, second) == ["writing a ..."]
    assert it.at(2.0, first, second) == []


class _Cell:
    """An output of a notebook's cell, as IPython's `display` hands out."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.drawn = threading.Event()

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> _Cell:
        assert raw and display_id
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        self.shown.append(bundle)
        self.drawn.set()


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> _Cell:
    made = _Cell()
    ipython: Any = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(
        sys.modules,
        "IPython.display",
        SimpleNamespace(display=made.display),  # type: ignore[arg-type]
    )
    monkeypatch.delenv("LAKEPORT_PROGRESS")
    return made


def test_a_notebook_shows_it_below_the_cell_and_nothing_in_the_end(cell: _Cell) -> None:
    with activity("reading", "<a>"), show_progress(None, "landing"):
        assert cell.drawn.wait(30)
    assert cell.shown[0]["text/plain"].startswith("reading <a> ...")
    assert cell.shown[0]["text/html"].startswith("<div>reading &lt;a&gt; ...")
    assert cell.shown[-1] == {"text/plain": "", "text/html": ""}


def test_a_notebook_draws_a_bar_where_the_share_is_known(cell: _Cell) -> None:
    with activity("reading", "a.csv", total=200), show_progress(None, "landing"):
        add_progress(50)
        for _ in range(2):  # the first may have looked before
            cell.drawn.clear()
            assert cell.drawn.wait(30)
    bar = next(each["text/html"] for each in cell.shown if "<progress" in each["text/html"])
    assert '<progress max="1" value="0.250"' in bar and "reading a.csv: 50 of 200 B (25%)" in bar


def test_a_notebook_can_do_without(cell: _Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    with show_progress(False, "landing"):
        pass
    monkeypatch.setenv("LAKEPORT_PROGRESS", "off")
    with show_progress(None, "landing"):
        pass
    assert cell.shown == []


def test_asked_for_outside_of_notebooks_it_goes_to_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Heard(io.StringIO):
        written = threading.Event()

        def write(self, text: str) -> int:
            self.written.set()
            return super().write(text)

    err = Heard()
    monkeypatch.setattr(sys, "stderr", err)
    with activity("reading", "a"), show_progress(True, "landing"):
        assert err.written.wait(30)
    assert err.getvalue().startswith("reading a ...")


def test_an_end_is_an_end() -> None:
    out = io.StringIO()
    progress = Progress(Lines(out), "landing").begin()
    progress.end()
    progress.end()
    assert not any(each.name == "lakeport-progress" for each in threading.enumerate())
