"""kill -9 of loads of a table's new rows: each row lands once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.faults.kit import Lake, await_end, started

SCRIPT = """
import sys, lakeport
source = lakeport.TablesSource(tables=sys.argv[1], incremental=True)
lakeport.land(source, sys.argv[2], table="users")
"""
ROWS = 100  # that come before each run


def bookmarks(lake: Lake) -> int:
    return len(list(lake.root.rglob("bookmarks/*.json")))


def versions(lake: Lake) -> int:
    return len(lake.versions())


@pytest.mark.timeout(900)
def test_killed_around_the_commit_each_row_lands_once(
    delta_lake: Lake, tmp_path: Path, soak: bool
) -> None:
    source = tmp_path / "source"
    points: list[Callable[[Lake], int] | None] = [versions, None]
    points += [bookmarks, versions, None, bookmarks, None, None] if soak else []
    landed = there = 0
    for grown in points:
        if grown is not None:
            write_deltalake(source, pa.table({"id": range(there, there + ROWS)}), mode="append")
            there += ROWS
        before = 0 if grown is None else grown(delta_lake)
        with started(source, delta_lake.root, program=("-c", SCRIPT)) as process:
            if grown is None:
                assert process.end() == 0, process.words
            else:
                grew = process.wait_for(lambda g=grown, b=before: g(delta_lake) > b)
                assert grew, process.words
                family = process.family()
                process.send(signal.SIGKILL)
                process.end()
                await_end(family)
        ids = delta_lake.ids()
        assert ids == list(range(len(ids)))
        assert len(ids) in (landed, there)
        landed = len(ids)
    assert landed == there
    delta_lake.check_log()
