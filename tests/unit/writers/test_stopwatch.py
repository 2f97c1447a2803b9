from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeport.writers import stopwatch
from lakeport.writers.stopwatch import (
    measure_items,
    measure_task,
    measure_upload,
    pause_stage,
    share_stage,
    stage,
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
    monkeypatch.setattr(stopwatch.time, "time", clock)
    monkeypatch.setattr(stopwatch.time, "perf_counter", clock)
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

    with measure_task() as watch:
        out = measure_upload(Out(clock))
        clock.pass_(100)
        with stage("encoding"):
            for _ in measure_items("parsing", numbers()):
                clock.pass_(1)
                out.write(b"12345")
            assert out.finish() == {"bytes": 15}
        work = watch.work()
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
    with stage("encoding"), pause_stage():
        assert list(measure_items("parsing", "ab")) == ["a", "b"]


def test_other_threads_count_for_themselves_and_who_waits_for_nothing() -> None:
    def work() -> None:
        time.sleep(0.05)
        with stage("uploading"):
            time.sleep(0.05)

    with measure_task() as watch, stage("encoding"):
        close = share_stage(work)
        with ThreadPoolExecutor(2) as pool, pause_stage():
            for done in [pool.submit(close) for _ in range(4)]:
                done.result()
    stages = watch.work().stages
    assert stages.keys() == {"encoding", "uploading"}
    _, _, encoding = stages["encoding"]
    _, _, uploaded = stages["uploading"]
    assert encoding > 0.19 and uploaded > 0.19


def test_an_error_ends_a_stage_and_is_passed_on(clock: Clock) -> None:
    with measure_task() as watch:
        with pytest.raises(ValueError, match="no"), stage("encoding"), stage("parsing"):
            clock.pass_(3)
            raise ValueError("no")
        with stage("encoding"):
            clock.pass_(1)
    assert watch.work().stages["encoding"] == (1000.0, 1004.0, 1.0)


def test_an_aborted_upload_is_aborted(clock: Clock) -> None:
    out = Out(clock)
    with measure_task():
        measure_upload(out).abort()
    assert out.aborted
