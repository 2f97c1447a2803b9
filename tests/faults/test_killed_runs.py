"""kill -9 at random moments of `lakeport run`, whose sources grow between the runs.

Whatever moment that is: what each source has had in the end lies in its table once, and the tables
that are made of others follow them.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.kit import Lake, Process, await_end, started

FILES = """
  events: {from: {files: "inbox/*.jsonl", new_only: true}}
"""
DATABASE = """
  orders: {from: {database: "sqlite:///shop.db", table: orders, cursor: id}}
"""
PLAIN = """
  plain: {from: {files: "plain.jsonl"}}
"""
INCREMENTAL = """
  copies: {from: {tables: [events], incremental: true}}
"""
MOST = 1.5  # seconds after the run's report is there: most loads have ended by then


class World:
    """The sources beside a lake's file, which grow."""

    def __init__(self, folder: Path, loads: str) -> None:
        self.folder = folder
        self.lake = Lake(folder / "lake", "delta")
        self.rows = 0
        self.folder.joinpath("inbox").mkdir()
        self.folder.joinpath("lake.yaml").write_text(
            f"target: {{destination: local, path: ./lake, file_type: delta}}\nloads:\n{loads}"
        )
        self.folder.joinpath("plain.jsonl").write_text("".join(_line(n) for n in range(50)))
        with closing(sqlite3.connect(folder / "shop.db")) as shop:
            shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")

    def grow(self, rows: int = 40) -> None:
        """Have each source get these rows more, the files one for ten."""
        new = range(self.rows, self.rows + rows)
        self.rows += rows
        for first in new[::10]:
            path = self.folder / "inbox" / f"{first:06}.part"
            path.write_text("".join(map(_line, range(first, first + 10))))
            path.rename(path.with_suffix(".jsonl"))
        with closing(sqlite3.connect(self.folder / "shop.db")) as shop, shop:
            shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"n{n}") for n in new])

    def reports(self) -> int:
        return len(list((self.lake.root / "_lakeport" / "runs").glob("*.json")))

    def run(self, *options: str) -> tuple[str, ...]:
        return ("run", str(self.folder / "lake.yaml"), *options)


def _line(number: int) -> str:
    return f'{{"id": {number}, "name": "n{number}"}}\n'


def killed(world: World, when: Callable[[Process], bool]) -> None:
    """Run, and kill when that is seen, or see it end before."""
    with started(*world.run()) as process:
        process.wait_for(lambda: when(process))
        family = process.family()
        process.send(signal.SIGKILL)
        code = process.end()
        await_end(family)
    assert code in (-signal.SIGKILL, 0), process.words


def at(moment: float, reports: int, world: World) -> Callable[[Process], bool]:
    """So many seconds after the run has begun to write."""
    since = [0.0]

    def seen(process: Process) -> bool:
        if world.reports() <= reports:
            return False
        since[0] = since[0] or time.monotonic()
        return time.monotonic() - since[0] >= moment

    return seen


def check(world: World, tables: tuple[str, ...]) -> None:
    for table in tables:
        assert world.lake.ids(table) == list(range(world.rows)), table
        world.lake.check_log(table)


@pytest.mark.timeout(1200)
def test_runs_killed_at_random_land_all_once(tmp_path: Path, soak: bool) -> None:
    world, draw = World(tmp_path, FILES + DATABASE), random.Random(16)
    for _ in range(40 if soak else 4):
        world.grow()
        killed(world, at(draw.uniform(0, MOST), world.reports(), world))
        assert all(_once(world.lake.ids(table)) for table in ("events", "orders"))
    world.grow()
    with started(*world.run()) as process:
        assert process.end() == 0, process.words
    check(world, ("events", "orders"))


def _once(ids: list[int]) -> bool:
    """Readers see whole files and ranges, from the first row on."""
    return ids == list(range(len(ids))) and len(ids) % 10 == 0


@pytest.mark.timeout(1200)
def test_a_killed_run_resumed_appends_nothing_twice(tmp_path: Path) -> None:
    """A load that appends its whole source knows by the run's report what it has landed."""
    world = World(tmp_path, PLAIN)
    killed(
        world, lambda _: bool(world.lake.versions("plain"))
    )  # or it was quicker: then there is nothing to resume
    with started(*world.run("--resume")) as process:
        assert process.end() == 0, process.words
    assert world.lake.ids("plain") == list(range(50))


@pytest.mark.timeout(1200)
def test_killed_runs_with_tables_made_of_tables(tmp_path: Path, soak: bool) -> None:
    world, draw = World(tmp_path, FILES + INCREMENTAL), random.Random(61)
    for number in range(10 if soak else 1):
        world.grow()
        before = len(world.lake.versions("copies"))
        if number % 2:
            killed(world, at(draw.uniform(0, 8), world.reports(), world))
        else:
            killed(world, lambda _, b=before: len(world.lake.versions("copies")) > b)
    world.grow()
    with started(*world.run()) as process:
        assert process.end() == 0, process.words
    check(world, ("events", "copies"))
