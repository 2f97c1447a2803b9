"""kill -9 of `lakeport run` that reads PostgreSQL: each row lands once, and what is gone goes."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

from tests.faults.worlds import MOMENTS, Tables, World
from tests.postgres import Postgres

MOST = 1.5  # seconds after a run's report is there


@pytest.fixture
def shop(postgres: Postgres) -> Tables:
    return Tables(postgres, f"s{secrets.token_hex(6)}")


@pytest.mark.by_threads
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["delta", pytest.param("parquet", marks=pytest.mark.soak)])
def test_rows_land_once(tmp_path: Path, shop: Tables, kind: str, soak: bool) -> None:
    loads = {
        "appended": f"{{from: {shop.load(cursor='at')}}}",
        "split": f"{{from: {shop.load('slow', cursor='id', split_by='id', splits=3)}}}",
    }
    if kind == "delta":
        loads["merged"] = f"{{from: {shop.load(cursor='at')}, mode: merge, merge_keys: [id]}}"
    world, draw = World(tmp_path, loads, [shop], kind), random.Random(kind)
    moments = ["reading", "at random", *MOMENTS] * (5 if soak else 1)
    draw.shuffle(moments)
    for number, moment in enumerate(moments if soak else moments[:1]):
        world.grow()
        if moment == "reading":
            when = shop.reading
        elif moment == "at random":
            when = world.after(draw.uniform(0, MOST))
        else:
            when = world.seen(moment, *loads)
        world.killed(when, whole=number % 2 == 0)
        world.check_midway(*loads)
    for _ in range(2):
        world.ended_well()
        world.check(*loads)


@pytest.mark.timeout(3600)
def test_rows_that_are_gone_go(tmp_path: Path, shop: Tables, soak: bool) -> None:
    """Of the two commits, one for rows and one for what is gone, a kill may leave the first."""
    told = shop.load(cursor="at", deletes="compare")
    loads = {"orders": f"{{from: {told}, mode: merge, merge_keys: [id], hard_delete: true}}"}
    world, draw = World(tmp_path, loads, [shop]), random.Random(3)
    moments = ["committed", "at random", *MOMENTS] * (3 if soak else 1)
    world.grow()
    world.ended_well()
    for number, moment in enumerate(moments if soak else moments[:1]):
        world.grow()
        shop.lose([draw.randrange(40 * number, 40 * number + 40), 40 * number + 79])
        late = world.after(draw.uniform(0, 12))
        world.killed(late if moment == "at random" else world.seen(moment, *loads))
        ids = world.lake.ids("orders")
        assert len(ids) == len(set(ids))
    world.ended_well()
    world.check(*loads, gone=shop.gone)
