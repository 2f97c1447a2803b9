"""kill -9 at points that the disk shows from outside, again and again, until a run gets through.

Every run of a chain has the same run id and input, of which the last one gets a part: the others
have more to land than they come to, so that none is through before it is killed, however late that
is. Each is killed at the next point; readers see whole batches in between, no STATE claims more
than they see, and nobody outlives the process.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.targets import INTEGER, STRING, record, schema, singer
from tests.faults.kit import BY_SPARK, Lake, Process, await_end, land, started, users

BATCH = 10
ROWS = 5000
INPUT = users(ROWS, BATCH)
REST = 2 * BATCH  # what the last run lands after the others
RUN = ("--run-id", "night/1", "--set", f"maximum_batch_rows={BATCH}")

Point = Callable[[Lake, Process, Path], bool]


def spooled(lake: Lake, process: Process, spool: Path) -> bool:
    return any(spool.rglob("*.jsonl"))


def staged(lake: Lake, process: Process, spool: Path) -> bool:
    return bool(lake.staged())


def intended(lake: Lake, process: Process, spool: Path) -> bool:
    return bool(lake.journal("*.intent-0.json"))


def published(lake: Lake, process: Process, spool: Path) -> bool:
    return bool(lake.objects())


def entries(lake: Lake) -> list[Path]:
    return [path for path in lake.journal("*.json") if ".intent-" not in path.name]


def finished(lake: Lake, process: Process, spool: Path) -> bool:
    return bool(entries(lake))


def committed(lake: Lake, process: Process, spool: Path) -> bool:
    return bool(lake.versions())


def stated(lake: Lake, process: Process, spool: Path) -> bool:
    return bool(process.out)


class More:
    """The next time that a count grows by some after the run has begun."""

    def __init__(self, what: str, count: Callable[[Lake], int], by: int = 1) -> None:
        self.__name__ = what
        self._count = count
        self._by = by
        self._start = -1

    def __call__(self, lake: Lake, process: Process, spool: Path) -> bool:
        now = self._count(lake)
        if self._start < 0:
            self._start = now
        return now >= self._start + self._by


class After:
    """A moment drawn at random behind the first STATE."""

    def __init__(self, seconds: float) -> None:
        self.__name__ = f"{seconds:.2f} s after the first STATE"
        self._seconds = seconds
        self._since = 0.0

    def __call__(self, lake: Lake, process: Process, spool: Path) -> bool:
        if process.out and not self._since:
            self._since = time.monotonic()
        return bool(self._since) and time.monotonic() - self._since >= self._seconds


def points(format_: str, *, soak: bool) -> list[Any]:
    """Where the runs of one chain are killed, in order.

    Args:
        format_: of the lake.
        soak: at every point; else where the order of two steps matters most.
    """
    draw = random.Random(format_)
    moments = [After(draw.uniform(0, 0.4))]
    if format_ == "delta":
        most = [published, committed, *moments]
        rest = [
            spooled,
            stated,
            staged,
            More("second file more", lambda lake: len(lake.objects()), 2),
            More("second version more", lambda lake: len(lake.versions()), 2),
        ]
    else:
        most = [intended, finished, *moments]
        rest = [
            spooled,
            stated,
            staged,
            More("intent more", lambda lake: len(lake.journal("*.intent-0.json"))),
            More("second object more", lambda lake: len(lake.objects()), 2),
            More("entry more", lambda lake: len(entries(lake))),
        ]
    return [*most, *rest] if soak else most


def check_readers(lake: Lake, states: Sequence[Any]) -> int:
    """Readers see the input's first batches, once and whole, and all that STATE claims."""
    ids = lake.ids()
    assert ids == list(range(len(ids)))
    assert len(ids) % BATCH == 0
    claimed = [value["bookmarks"]["users"] for value in states]
    assert claimed == sorted(claimed)
    assert not claimed or claimed[-1] <= len(ids)
    return len(ids)


@pytest.mark.timeout(1800)  # up to ten processes, one after another
@pytest.mark.parametrize(
    "lake",
    [
        "delta",
        # What a kill leaves of files is the driver's work, whatever the engine.
        pytest.param("parquet", marks=pytest.mark.by_threads),
        pytest.param("parquet", marks=pytest.mark.soak, id="parquet-spark"),
    ],
    indirect=True,
)
def test_killed_at_every_point(lake: Lake, tmp_path: Path, soak: bool) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    command = land(lake, *RUN, "--set", f"spool_dir={spool}")
    before = 0
    for point in points(lake.format, soak=soak):
        for left in spool.iterdir():
            left.rename(tmp_path / left.name)  # a killed run leaves its spool
        with started(*command) as process:
            process.feed(INPUT, close=False)
            assert process.wait_for(lambda p=point, q=process: p(lake, q, spool)), point.__name__
            family = process.family()
            process.send(signal.SIGKILL)
            assert process.end() == -signal.SIGKILL, point.__name__
            await_end(family)
            seen = check_readers(lake, process.states())
            assert seen >= before, point.__name__
            before = seen
    assert 0 < before < ROWS
    total = before + REST
    with started(*command) as process:
        process.feed(users(total, BATCH))
        assert process.end() == 0, process.words
        assert process.states()[-1] == {"bookmarks": {"users": total}}
    assert check_readers(lake, process.states()) == total
    if lake.format == "delta":
        lake.check_log()


@pytest.mark.spark
def test_spark_is_killed_under_a_load(delta_lake: Lake) -> None:
    """The load ends with an error of its own, does not hang, and the run can be repeated."""
    command = land(delta_lake, *RUN, *BY_SPARK)
    with started(*command) as process:
        process.feed(INPUT)
        assert process.wait_for(lambda: bool(process.out))
        for pid in process.family():
            with suppress(OSError):  # it has ended
                if "java" in Path(f"/proc/{pid}/comm").read_text():
                    os.kill(pid, signal.SIGKILL)
        assert process.end() == 7, process.words
        assert "\nError: " in process.words
        assert "Traceback" not in process.words
        seen = check_readers(delta_lake, process.states())
    assert seen < ROWS
    total = seen + REST
    with started(*command) as process:
        process.feed(users(total, BATCH))
        assert process.end() == 0, process.words
        assert check_readers(delta_lake, process.states()) == total


@pytest.mark.usefixtures("engine_of_kills")
def test_merges_killed_between_two_batches(delta_lake: Lake) -> None:
    """Readers see the first batches merged whole; the run repeated merges the others, once."""
    keys = 15
    command = land(delta_lake, *RUN, "--mode", "merge")

    def lines(rows: int) -> bytes:
        records = (record("users", id=n % keys, name=f"n{n}") for n in range(rows))
        return singer(schema("users", {"id": INTEGER, "name": STRING}, "id"), *records)

    def merged() -> int:
        """How many batches the table has, and that it is just what they make."""
        batches = len(delta_lake.versions())
        expected = {n % keys: f"n{n}" for n in range(batches * BATCH)}
        rows = delta_lake.rows()
        assert len(rows) == len(expected)
        assert {row["id"]: row["name"] for row in rows} == expected
        return batches

    with started(*command) as process:
        process.feed(lines(ROWS), close=False)
        assert process.wait_for(lambda: len(delta_lake.versions()) >= 3)
        family = process.family()
        process.send(signal.SIGKILL)
        assert process.end() == -signal.SIGKILL
        await_end(family)
    before = merged()
    assert 3 <= before < ROWS // BATCH
    with started(*command) as process:
        process.feed(lines(before * BATCH + REST))
        assert process.end() == 0, process.words
    assert merged() == before + REST // BATCH
    delta_lake.check_log()
