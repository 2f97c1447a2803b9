"""kill -9 of `lakeport run` that starts taps: what a tap has sent lands once, stream by stream."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.worlds import MOMENTS, Tap, World

pytestmark = pytest.mark.by_threads
MOST = 1.5  # seconds after a run's report is there
BATCH = "maximum_batch_rows: 30"  # several flushes for each run


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["delta", pytest.param("parquet", marks=pytest.mark.soak)])
def test_each_record_lands_once(tmp_path: Path, kind: str, soak: bool) -> None:
    tap = Tap(tmp_path)
    three = tap.load("users", "orders", "items")
    loads = {
        "appended": f'{{from: {three}, table: "a_{{stream}}", {BATCH}}}',
        "alone": f"{{from: {tap.load('alone')}}}",
    }
    tables = ["a_users", "a_orders", "a_items", "alone"]
    if kind == "delta":
        merges = f'table: "m_{{stream}}", mode: merge, {BATCH}'
        loads["merged"] = f"{{from: {tap.load('users', 'orders')}, {merges}}}"
        tables += ["m_users", "m_orders"]
    world, draw = World(tmp_path, loads, [tap], kind), random.Random(kind)
    moments = ["at random", "at random", *MOMENTS] * (5 if soak else 1)
    draw.shuffle(moments)
    for number, moment in enumerate(moments if soak else moments[:1]):
        world.grow()
        random_one = moment == "at random"
        when = world.after(draw.uniform(0, MOST)) if random_one else world.seen(moment, *tables)
        world.killed(when, whole=number % 2 == 0)
        world.check_midway(*tables)
    for _ in range(2):
        world.ended_well()
        world.check(*tables)
