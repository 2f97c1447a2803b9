"""Results: kept run by run, resumed, and told as medians."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.results import Cell, OtherMachine, Results, Run, median
from bench.rounds import in_turn

ABOUT: dict[str, Any] = {
    "date": "2026-01-01",
    "commit": "abc",
    "machine": {"cores": "2"},
    "versions": {"lakeport": "1"},
    "note": "",
}
FIRST = Cell("a", "singer", 10, "local", "parquet")
SECOND = Cell("b", "singer", 10, "local", "parquet")


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json", ABOUT)
    results.add(FIRST, Run(1.5, 2.0, 30.0, 4, 5, "as text: a", "", {"work": 0.5}))
    assert Results.resumed(results.path, ABOUT) == results


def test_contestants_take_turns(tmp_path: Path) -> None:
    turns: list[str] = []

    def run(name: str) -> Run:
        turns.append(name)
        return Run(1.0)

    runs = {FIRST: lambda: run("a"), SECOND: lambda: run("b")}
    in_turn(2, Results(tmp_path / "results.json", ABOUT), runs)
    assert turns == ["a", "b", "a", "b"]


def test_a_stopped_bench_goes_on_where_it_was(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json", ABOUT)
    results.add(FIRST, Run(1.0))
    turns: list[str] = []

    def run(name: str) -> Run:
        turns.append(name)
        return Run(1.0)

    again = Results.resumed(results.path, {**ABOUT, "date": "2026-01-02", "commit": "def"})
    in_turn(2, again, {FIRST: lambda: run("a"), SECOND: lambda: run("b")})
    assert turns == ["b", "a", "b"]


def test_a_cell_that_failed_is_not_tried_again(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json", ABOUT)
    results.add(FIRST, Run(1.0, failure="exit code 1: no"))
    assert not results.open(FIRST, 3)
    assert results.medians()[FIRST].failure == "exit code 1: no"


@pytest.mark.parametrize("what", ["machine", "versions"])
def test_other_machines_and_versions_have_files_of_their_own(what: str, tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json", ABOUT)
    results.add(FIRST, Run(1.0))
    with pytest.raises(OtherMachine, match="--folder"):
        Results.resumed(results.path, {**ABOUT, what: {"other": "2"}})


def test_a_cell_is_the_median_of_its_runs_and_the_most_of_their_memory() -> None:
    runs = [
        Run(9.0, 1.0, 50.0, 3, 100, figures={"work": 4.0}),
        Run(1.0, 2.0, 90.0, 3, 100, figures={"work": 1.0}),
        Run(2.0, 9.0, 10.0, 3, 100, figures={"work": 2.0}),
    ]
    found = median(runs)
    assert (found.runs, found.seconds, found.cpu, found.memory_mb) == (3, 2.0, 2.0, 90.0)
    assert found.figures == {"work": 2.0}


def test_values_that_one_run_changed_are_told() -> None:
    assert median([Run(1.0), Run(1.0, values="absent: a")]).values == "absent: a"
