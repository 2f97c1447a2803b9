"""What rows cost that a query makes, or that are held to expectations: the same load without."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from bench import data
from bench.comparison import Asked
from bench.contestants import COLD, ENGINES, LAND
from bench.growth import landed
from bench.measure import run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn

RECORDS = 2_000_000
PLAIN, SQL, EXPECT = f"{COLD}: as they are", f"{COLD}: by a query", f"{COLD}: with expectations"
QUERY = "SELECT *, year(day) * 100 + month(day) AS ym FROM source WHERE id IS NOT NULL"
EXPECTED = ("not_null: id", "between: {amount: [0, 10000]}", "{in: {active: [true, false]}}")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    PLAIN: (),
    SQL: ("--sql", QUERY),
    EXPECT: tuple(word for one in EXPECTED for word in ("--expect", one)),
}


def measure(asked: Asked, places: Places, results: Results) -> None:
    """One Singer file into a local Delta table, in turn."""
    records = max(1000, round(RECORDS * asked.scale))
    work = places.folder / "transforms"
    work.mkdir(parents=True, exist_ok=True)
    source = data.write(work / f"{records}.singer", records)
    runs: dict[Cell, Callable[[], Run]] = {
        Cell(name, "transforms", records, "local", "delta"): partial(
            once, (*LAND, str(source), *options, "--to"), work / "lake", records, asked.limit
        )
        for name, options in COMMANDS.items()
    }
    try:
        in_turn(asked.rounds, results, runs)
    finally:
        shutil.rmtree(work)


def once(command: tuple[str, ...], lake: Path, records: int, limit: float) -> Run:
    """One load into an empty lake."""
    try:
        return landed(run((*command, str(lake)), ENGINES[COLD], limit=limit), lake, records)
    finally:
        shutil.rmtree(lake, ignore_errors=True)
