"""The page, its tables and the goals are drawn from the results alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import goals, page, tables
from bench.comparison import Asked, cells
from bench.contestants import CONTESTANTS
from bench.results import Cell, Median, Results, Run

ABOUT = {
    "date": "2026-01-01",
    "commit": "abc",
    "machine": {"cores": "2", "processor": "P", "memory": "8 GB", "kernel": "Linux 6"},
    "versions": {"lakeport": "1"},
    "note": "busy",
}


def cell(contestant: str, format_: str = "parquet", records: int = 10_000) -> Cell:
    return Cell(contestant, "singer", records, "minio", format_)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Lakeport takes 4 s, DuckDB 1 s, dlt fails."""
    found = Results(tmp_path / "results.json", ABOUT)
    found.add(cell(goals.COLD), Run(4.0, 5.0, 600.0, 3, 1_500_000))
    found.add(cell("DuckDB"), Run(1.0, 1.0, 90.0, 1, 1_000_000, "as VARCHAR: created_at"))
    found.add(cell(goals.DLT), Run(9.0, failure="exit code 1: a | b"))
    return found


def medians(results: Results) -> dict[Cell, Median]:
    return results.medians()


def test_a_group_shows_ratios_values_and_failures(results: Results) -> None:
    rows = tables.group(medians(results)).splitlines()[2:]
    assert rows == [
        "| Parquet | **lakeport cold** | 4.00 | 1.00x | 5.00 | 600 | 3 | 1.50 | came through |",
        "| Parquet | DuckDB | 1.00 | 0.25x | 1.00 | 90 | 1 | 1.00 | as VARCHAR: created_at |",
        "| Parquet | dlt, Arrow | - | - | - | - | - | - | failed: exit code 1: a \\| b |",
    ]


def test_values_that_were_altered_are_marked_beside_the_seconds(results: Results) -> None:
    results.add(cell("Polars"), Run(2.0, values="values changed: zip as BIGINT"))
    assert "| Polars | Parquet | 2.00 (0.50x) † |" in tables.overview(medians(results))


def test_who_is_ahead_is_told(results: Results) -> None:
    assert "| 10,000 | DuckDB 0.25x |" in tables.ahead(medians(results))
    assert tables.ahead({}) == tables.NOTHING


def test_a_goal_holds_does_not_or_is_not_measured(results: Results) -> None:
    results.add(cell(goals.WARM), Run(1.0))
    results.add(cell(goals.DLT, "delta"), Run(2.0))
    results.add(cell(goals.WARM, "delta"), Run(1.0))
    parquet, delta = (goal for goal in goals.goals() if f"MinIO, {goals.WARM}" in goal.what)
    found = medians(results)
    assert parquet.holds(found) is None  # dlt failed there
    assert (delta.figure(found), delta.holds(found)) == (0.5, False)
    rows = tables.reached(found)
    assert "| at most 0.2 x dlt, Arrow | 0.50 x dlt, Arrow | **no** |" in rows
    assert "| at most 0.35 x dlt, Arrow | not measured |  |" in rows


def test_two_workers_have_to_be_faster_by_at_least_so_much(results: Results) -> None:
    for load, rows in {"workers": 20_000_000, "workers on files": 24_000_000}.items():
        for name, work in (("1 worker", 9.0), ("2 workers", 5.0)):
            results.add(
                Cell(name, load, rows, "local", "parquet"), Run(20.0, figures={"work": work})
            )
    found = [goal for goal in goals.goals() if goal.at_least]
    assert [goal.figure(medians(results)) for goal in found] == [1.8, 1.8]
    assert all(goal.holds(medians(results)) for goal in found)


def test_memory_is_the_most_of_the_cold_loads_alone(results: Results) -> None:
    results.add(cell("dlt, rows"), Run(1.0, 1.0, 9000.0))
    goal = next(goal for goal in goals.goals() if "all cold loads" in goal.what)
    assert goal.figure(medians(results)) == 600.0


def test_prose_survives_and_figures_are_written_anew(results: Results) -> None:
    text = "Before.\n<!-- figures: overview -->\nstale\n<!-- figures end -->\nAfter.\n"
    found = page.filled(text, page.parts(results))
    assert found.startswith("Before.\n") and found.endswith("After.\n") and "stale" not in found
    assert "| DuckDB | Parquet | 1.00 (0.25x) |" in found  # another type, the same values
    assert page.filled(found, page.parts(results)) == found


def test_figures_of_an_unknown_name_are_an_error(results: Results) -> None:
    with pytest.raises(KeyError, match="nothing"):
        page.filled("<!-- figures: nothing -->\n<!-- figures end -->\n", page.parts(results))


def test_the_checked_in_page_wants_all_figures_that_there_are(results: Results) -> None:
    text = (page.FOLDER / page.INDEX).read_text("utf-8")
    for name in page.parts(results):
        assert f"<!-- figures: {name} -->" in text
    page.filled(text, page.parts(results))


def test_the_page_of_everything_has_a_heading_for_each_table(results: Results) -> None:
    results.add(Cell("1 core", "growth", 135_000, "local", "delta"), Run(3.0))
    found = page.everything(results)
    assert "## A Singer stream into MinIO" in found and "## Growth" in found
    assert "Medians of 1 runs." not in found


def test_every_cell_is_one_that_the_contestant_can() -> None:
    asked = Asked(
        sizes=[10],
        inputs=["singer", "frame"],
        targets=["local", "minio"],
        formats=["delta"],
        contestants=[*CONTESTANTS],
        rounds=1,
        limit=1,
        scale=1,
        gigabytes=[],
        work=Path(),
    )
    groups = list(cells(asked))
    assert len(groups) == 4
    singer_local = {(each.contestant, each.format) for each in groups[0]}
    assert ("target-csv", "csv") in singer_local and ("delta-rs", "delta") in singer_local
    assert not any(name in ("DuckDB", "target-s3-jsonl") for name, _ in singer_local)
    assert not any(each.contestant.startswith("target") for each in groups[2] + groups[3])
