"""kill -9 at random moments of `lakeport run`, whose sources grow between the runs.

Whatever moment that is: what each source has had in the end lies in its table once, and the tables
that are made of others follow them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.worlds import Inbox, Shop, World, lines

EVENTS = {"events": '{from: {files: "inbox/*.jsonl", new_only: true}}'}
ORDERS = {"orders": '{from: {database: "sqlite:///shop.db", table: orders, cursor: id}}'}
COPIES = {"copies": "{from: {tables: [events], incremental: true}}"}
MOST = 1.5  # seconds after the run's report is there: most loads have ended by then


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("engine_of_kills")
def test_runs_killed_at_random_land_all_once(tmp_path: Path, soak: bool) -> None:
    world = World(tmp_path, EVENTS | ORDERS, [Inbox(tmp_path), Shop(tmp_path)])
    draw = random.Random(16)
    for _ in range(40 if soak else 2):
        world.grow()
        world.killed(world.after(draw.uniform(0, MOST)))
        world.check_midway("events", "orders")
    world.grow()
    world.ended_well()
    world.check("events", "orders")


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("engine_of_kills")
def test_a_killed_run_resumed_appends_nothing_twice(tmp_path: Path) -> None:
    """A load that appends its whole source knows by the run's report what it has landed."""
    world = World(tmp_path, {"plain": '{from: {files: "plain.jsonl"}}'}, [])
    tmp_path.joinpath("plain.jsonl").write_text(lines(range(50)))
    # Or it is quicker: then there is nothing to resume.
    world.killed(world.seen("committed", "plain"))
    world.ended_well("--resume")
    assert world.lake.ids("plain") == list(range(50))


@pytest.mark.soak  # `test_tables_as_sources.py` kills such a load by itself
@pytest.mark.timeout(1200)
def test_killed_runs_with_tables_made_of_tables(tmp_path: Path) -> None:
    world, draw = World(tmp_path, EVENTS | COPIES, [Inbox(tmp_path)]), random.Random(61)
    for number in range(10):
        world.grow()
        late = world.after(draw.uniform(0, 8))
        world.killed(late if number % 2 else world.seen("committed", "copies"))
    world.grow()
    world.ended_well()
    world.check("events", "copies")
