"""A folder of many small files, a hundredth of them new: the load that finds those, beside a load
of these alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import deltalake

from bench.comparison import Asked
from bench.contestants import COLD, LAND
from bench.measure import run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn

FILES, NEW = 10_000, 100
OFF = {"LAKEPORT_WARM": "off"}
FOUND, ALONE = f"{COLD}: new only", f"{COLD}: the new ones alone"


def measure(asked: Asked, places: Places, results: Results) -> None:
    """Both loads add the same files to a table that has had the others."""
    files = max(NEW * 2, round(FILES * asked.scale))
    work = places.folder / "new-files"
    inbox, alone, before = work / "inbox", work / "alone", work / "before"
    write(inbox, range(files - NEW))
    write(alone, range(files - NEW, files))
    new_only = (*LAND, f"{inbox}/*.json", "--new-only", "--table", "t", "--to")
    run((*new_only, str(before)), OFF)
    write(inbox, range(files - NEW, files))
    plain = (*LAND, f"{alone}/*.json", "--table", "t", "--to")
    commands = {FOUND: new_only, ALONE: plain}
    runs: dict[Cell, Callable[[], Run]] = {
        Cell(name, "new files", files, "local", "delta"): partial(
            once, command, before, work / "lake", files, asked.limit
        )
        for name, command in commands.items()
    }
    try:
        in_turn(asked.rounds, results, runs)
    finally:
        shutil.rmtree(work)


def write(folder: Path, numbers: range) -> None:
    """One small record in each file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        record = {"id": number, "carrier": "UA", "delay": number % 60, "note": "x" * 100}
        (folder / f"{number:06d}.json").write_text(json.dumps(record) + "\n")


def once(command: tuple[str, ...], before: Path, lake: Path, rows: int, limit: float) -> Run:
    """One load into a copy of the table as it was before."""
    shutil.copytree(before, lake)
    try:
        took = run((*command, str(lake)), OFF, limit=limit)
        found = deltalake.DeltaTable(lake / "t").to_pyarrow_table().num_rows
        told = "" if found == rows else f"{found:,} rows of {rows:,}"
        return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure, values=told)
    finally:
        shutil.rmtree(lake)
