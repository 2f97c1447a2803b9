from __future__ import annotations

import random
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeport.writers import timing
from lakeport.writers.timing import (
    Pace,
    measure_items,
    measure_stage,
    measure_task,
    measure_upload,
    pause_stage,
    share_stage,
)


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing.time, "time", clock)
    monkeypatch.setattr(timing.time, "perf_counter", clock)
    return clock


class Out:
    """A stage writer that takes two seconds for each call."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.data, self.aborted = clock, b"", False

    def write(self, data: bytes | memoryview, /) -> int:
        self.clock.pass_(2)
        self.data += data
        return len(data)

    def finish(self) -> Mapping[str, Any]:
        self.clock.pass_(2)
        return {"bytes": len(self.data)}

    def abort(self) -> None:
        self.aborted = True


def test_no_second_counts_twice(clock: Clock) -> None:
    def numbers() -> Any:
        for number in range(3):
            clock.pass_(10)
            yield number

    with measure_task() as timer:
        out = measure_upload(Out(clock))
        clock.pass_(100)
        with measure_stage("encoding"):
            for _ in measure_items("parsing", numbers()):
                clock.pass_(1)
                out.write(b"12345")
            assert out.finish() == {"bytes": 15}
        work = timer.work()
    assert work.stages == {
        "parsing": (1100.0, 1139.0, 30.0),
        "uploading": (1111.0, 1141.0, 8.0),
        "encoding": (1100.0, 1141.0, 3.0),
    }
    assert sum(size for _, _, size in work.pace) == 15
    assert all(1000 <= moment <= 1150 for moment, _, _ in work.pace)


def test_where_nobody_measures_nothing_changes(clock: Clock) -> None:
    out = Out(clock)
    assert measure_upload(out) is out
    assert share_stage(clock.pass_) == clock.pass_
    with measure_stage("encoding"), pause_stage():
        assert list(measure_items("parsing", "ab")) == ["a", "b"]


def test_other_threads_count_for_themselves_and_who_waits_for_nothing() -> None:
    def work() -> None:
        time.sleep(0.05)
        with measure_stage("uploading"):
            time.sleep(0.05)

    with measure_task() as timer, measure_stage("encoding"):
        close = share_stage(work)
        with ThreadPoolExecutor(2) as pool, pause_stage():
            for done in [pool.submit(close) for _ in range(4)]:
                done.result()
    stages = timer.work().stages
    assert stages.keys() == {"encoding", "uploading"}
    _, _, encoding = stages["encoding"]
    _, _, uploaded = stages["uploading"]
    assert encoding > 0.19 and uploaded > 0.19


def test_an_error_ends_a_stage_and_is_passed_on(clock: Clock) -> None:
    with measure_task() as timer:
        with (
            pytest.raises(ValueError, match="no"),
            measure_stage("encoding"),
            measure_stage("parsing"),
        ):
            clock.pass_(3)
            raise ValueError("no")
        with measure_stage("encoding"):
            clock.pass_(1)
    assert timer.work().stages["encoding"] == (1000.0, 1004.0, 1.0)


def test_an_aborted_upload_is_aborted(clock: Clock) -> None:
    out = Out(clock)
    with measure_task():
        measure_upload(out).abort()
    assert out.aborted


def test_what_comes_in_any_order_adds_up() -> None:
    moments = [0.2, 3.7, 0.4, 1.1, 3.9, 0.0]
    ordered, mixed = Pace(8, 1.0), Pace(8, 1.0)
    for at in sorted(moments):
        ordered.add(at, rows=2, size=10)
    for at in moments:
        mixed.add(at, rows=2, size=10)
    expected = ((0.0, 0, 0), (1.0, 6, 30), (2.0, 8, 40), (3.0, 8, 40), (4.0, 12, 60))
    assert mixed.cumulated() == ordered.cumulated() == expected
    assert mixed.per_step() == [(1.0, 6, 30), (2.0, 2, 10), (4.0, 4, 20)]


def test_it_stands_still_where_nothing_is_done() -> None:
    pace = Pace(100, 1.0)
    pace.add(10.5, rows=7)
    pace.add(50.5, rows=3)
    assert pace.cumulated() == (
        (0.0, 0, 0),
        (10.0, 0, 0),
        (11.0, 7, 0),
        (50.0, 7, 0),
        (51.0, 10, 0),
    )


@pytest.mark.parametrize("seconds", [0.01, 1, 60, 100_000])
def test_however_long_it_takes_the_points_have_a_bound(seconds: float) -> None:
    pace, chance = Pace(119), random.Random(1)
    for _ in range(5_000):
        pace.add(chance.random() * seconds, rows=1, size=3)
    points = pace.cumulated()
    assert len(points) <= 120
    assert points[-1][1:] == (5_000, 15_000)
    assert points[-1][0] >= seconds * 0.9 and pace.step <= max(0.05, seconds / 60)
    assert list(points) == sorted(points, key=lambda point: point)


def test_nothing_has_no_points() -> None:
    assert Pace(4).cumulated() == ()


def test_nothing_is_before_the_beginning() -> None:
    pace = Pace(4, 1.0)
    pace.add(-3.0, rows=1)
    assert pace.cumulated() == ((0.0, 0, 0), (1.0, 1, 0))


def test_steps_are_not_shorter_than_what_is_added() -> None:
    pace = Pace(100, 0.5)
    pace.add(0.2, rows=1)
    pace.coarsen(2.0)
    for at in (2.0, 4.0, 6.0):  # one every two seconds
        pace.add(at, rows=10)
    assert pace.cumulated() == ((0.0, 0, 0), (2.0, 1, 0), (4.0, 11, 0), (6.0, 21, 0), (8.0, 31, 0))
    pace.coarsen(1.0)
    assert pace.step == 2.0
