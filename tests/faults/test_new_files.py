"""kill -9 of loads of new files, on both sides of the record of what was seen: each file once."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import IN_DELTA
from tests.faults.kit import Lake, Process, await_end, started

FILES = 20  # that come before each run


def segments(lake: Lake) -> int:
    """Parts of the record, named by a bookmark or not."""
    return len(list(lake.root.rglob("files/*.arrow")))


def bookmarks(lake: Lake) -> int:
    """Bookmarks' documents, whether or not a commit names them."""
    return len(list(lake.root.rglob("bookmarks/*.json")))


def objects(lake: Lake) -> int:
    return len(lake.objects())


def staged(lake: Lake) -> int:
    return len(lake.staged())


def versions(lake: Lake) -> int:
    return len(lake.versions())


def deliver(inbox: Path, first: int) -> int:
    """Put the next files into the inbox, a record in each; return the number behind them."""
    for number in range(first, first + FILES):
        (inbox / f"{number:05d}.json").write_text(json.dumps({"id": number}) + "\n")
    return first + FILES


def load(lake: Lake, inbox: Path) -> tuple[str, ...]:
    where = ("--to", str(lake.root), "--table", "users", "--format", lake.format)
    return ("land", f"{inbox}/*.json", "--new-only", *where)


def kill(process: Process) -> None:
    family = process.family()
    process.send(signal.SIGKILL)
    process.end()
    await_end(family)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("engine_of_kills")
@IN_DELTA
def test_killed_at_every_point_each_file_lands_once(lake: Lake, tmp_path: Path, soak: bool) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    points: list[Callable[[Lake], int]] = [staged, segments, bookmarks, objects, segments]
    if lake.format == "delta":
        points.append(versions)
    random.Random(lake.format).shuffle(points)
    landed = there = 0
    for grown in points if soak else points[:1]:
        there = deliver(inbox, there)
        before = grown(lake)
        with started(*load(lake, inbox)) as process:
            grew = process.wait_for(lambda g=grown, b=before: g(lake) > b)
            assert grew, process.words
            kill(process)
        ids = lake.ids()
        assert ids == list(range(len(ids)))
        # A load is there whole, or nothing of it: also the one before, which the next one finishes.
        assert len(ids) in range(landed, there + 1, FILES), grown.__name__
        landed = len(ids)
    there = deliver(inbox, there)
    for _ in range(2):
        with started(*load(lake, inbox)) as process:
            assert process.end() == 0, process.words
        assert lake.ids() == list(range(there))
    if lake.format == "delta":
        lake.check_log()


@pytest.mark.by_threads
@IN_DELTA
def test_two_loads_at_a_time_land_each_file_once(lake: Lake, tmp_path: Path, soak: bool) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    there = 0
    for _ in range(3 if soak else 1):
        there = deliver(inbox, there)
        with started(*load(lake, inbox)) as one, started(*load(lake, inbox)) as other:
            codes = {one.end(), other.end()}
        assert 0 in codes, one.words + other.words
        assert lake.ids() == list(range(there))
