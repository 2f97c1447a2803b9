"""Python functions as Spark tasks: order, typed errors, several threads, DataFrames."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeport.engine.spark import workers
from lakeport.engine.spark.jobs import JobQueue, TaskRequest, run_frame, run_tasks
from lakeport.engine.tasks import JobLabel
from lakeport.errors import (
    BadRecord,
    BadRecords,
    InputError,
    LakeportError,
    MissingDependency,
    SparkFailure,
    UnknownFields,
    Unreachable,
)
from lakeport.host.activity import activity, current_activities

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.engine.spark.session import DriverSession
from lakeport.engine.tasks import TaskTraceError

LABEL = JobLabel("test")


def test_results_in_the_order_of_the_items(driver: DriverSession) -> None:
    def work(base: int, item: int) -> list[int]:
        time.sleep(0.02 * (5 - item))
        return [base + item, -item]

    assert run_tasks(driver, LABEL, partial(work, 100), range(5)) == [
        100, 0, 101, -1, 102, -2, 103, -3, 104, -4,
    ]  # fmt: skip


def test_a_jobs_progress_is_the_share_of_its_completed_tasks(
    driver: DriverSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of four tasks waits until that was seen of the other three."""
    monkeypatch.setattr("lakeport.engine.spark.jobs._POLL_SECONDS", 0.05)
    seen = tmp_path / "seen"

    def work(item: int) -> list[int]:
        end = time.monotonic() + 60
        while item == 3 and not seen.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return [item]

    def watch() -> None:
        while 0.75 not in (each.share for each in current_activities()):
            time.sleep(0.05)
        seen.touch()

    threading.Thread(target=watch, daemon=True).start()
    with activity("testing", total=1000):
        assert run_tasks(driver, LABEL, work, range(4)) == [0, 1, 2, 3]
    assert seen.exists()


def test_tasks_run_in_warm_processes_of_their_own(driver: DriverSession) -> None:
    def work(_: int) -> list[tuple[int, bool]]:
        import sys

        return [(os.getpid(), "pyarrow.parquet" in sys.modules)]

    found = run_tasks(driver, LABEL, work, range(4))
    assert all(pid != os.getpid() and warm for pid, warm in found)


def test_workers_look_for_modules_in_no_jar(driver: DriverSession) -> None:
    """PySpark puts Spark's own on their path; to read its list of files takes 40 ms each time."""

    def looked_at(_: int) -> list[str]:
        return [*sys.path, *sys.path_importer_cache]

    (found,) = run_tasks(driver, LABEL, lambda number: [looked_at(number)], [0])
    assert [place for place in found if place.endswith(".jar")] == []
    assert [place for place in found if place.endswith("site-packages")]


def test_the_collector_passes_over_what_tasks_have_loaded(driver: DriverSession) -> None:
    def work(_: int) -> list[tuple[int, bool]]:
        import gc
        import wave  # which nothing else loads

        return [(os.getpid(), any(known is wave.__dict__ for known in gc.get_objects()))]

    collected: dict[int, list[bool]] = {}
    for _ in range(5):
        for pid, known in run_tasks(driver, LABEL, work, range(4)):
            collected.setdefault(pid, []).append(known)
    assert all(known[0] for known in collected.values())
    assert not any(again for known in collected.values() for again in known[1:])
    assert len(collected) < 20


@pytest.mark.parametrize(
    "error",
    [
        BadRecords((BadRecord("s", 7, "a.b", "not a number", b"{}"),), 3),
        UnknownFields("stream 's' has undeclared fields: x", "declare them."),
        Unreachable("no answer"),
        InputError("plain"),
    ],
)
def test_errors_come_out_as_they_were(driver: DriverSession, error: Exception) -> None:
    def work(item: int) -> list[int]:
        if item == 1:
            raise error
        return [item]

    with pytest.raises(type(error)) as caught:
        run_tasks(driver, LABEL, work, [0, 1])
    assert str(caught.value) == str(error)
    if isinstance(error, BadRecords):
        assert isinstance(caught.value, BadRecords)
        assert caught.value.records == error.records
        assert caught.value.total == 3


def test_the_first_failure_counts_and_those_behind_it_do_not_start(
    driver: DriverSession, tmp_path: Path
) -> None:
    def work(item: int) -> list[int]:
        if item == 0:
            time.sleep(0.3)
        if item in (0, 1):
            raise InputError(f"item {item}")
        (tmp_path / str(item)).touch()
        time.sleep(0.05)
        return [item]

    dropped: list[int] = []
    with pytest.raises(InputError, match="item 0"):
        run_tasks(driver, LABEL, work, range(60), discard=dropped.extend)
    begun = sorted(int(path.name) for path in tmp_path.iterdir())
    assert len(begun) < 58
    assert sorted(dropped) == begun


def test_an_unforeseen_error_tells_where_and_not_the_data(driver: DriverSession) -> None:
    def work(_: int) -> list[int]:
        return [int("value of a record")]

    with pytest.raises(SparkFailure, match=r"ValueError in work \(test_jobs.py:") as caught:
        run_tasks(driver, LABEL, work, [1])
    assert "value of a record" not in str(caught.value)
    assert isinstance(caught.value.__cause__, TaskTraceError)
    assert "value of a record" in str(caught.value.__cause__)


def in_threads(queue: JobQueue, requests: list[TaskRequest]) -> list[Any]:
    """The outcomes of requests that threads hand over, or what each has raised."""

    def hand_over(request: TaskRequest) -> Any:
        try:
            return sorted(queue.run_request(request, "many"), key=lambda outcome: outcome.task)
        except LakeportError as error:
            return error

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(hand_over, requests))


def test_small_requests_that_wait_share_jobs_and_large_ones_do_not(driver: DriverSession) -> None:
    def work(item: int) -> list[int]:
        time.sleep(0.05)
        if item == 7:
            raise InputError("item 7")
        return [item]

    counted: list[int] = []
    small = [TaskRequest(f"small {i}", work, [i], [10]) for i in range(20)]
    large = [TaskRequest(f"large {i}", work, [i, i + 1], [1 << 30, 5]) for i in (100, 200)]
    found = in_threads(JobQueue(driver, counted.append), [*small, *large])
    assert len(counted) <= 8 and sum(counted) < 20
    for number, outcomes in enumerate(found[:20]):
        (outcome,) = outcomes
        if number == 7:
            assert isinstance(outcome.error, InputError)
        else:
            assert outcome.results == (number,)
    assert [[one.results[0] for one in outcomes] for outcomes in found[20:]] == [
        [100, 101],
        [200, 201],
    ]


def test_a_job_that_fails_whole_is_the_failure_of_those_alone_that_fail_alone(
    driver: DriverSession,
) -> None:
    def work(item: int) -> list[int]:
        time.sleep(0.1)
        if item == 5:
            os._exit(3)
        return [item]

    found = in_threads(
        JobQueue(driver, lambda tasks: None), [TaskRequest("r", work, [i], [1]) for i in range(8)]
    )
    assert isinstance(found.pop(5), SparkFailure)
    assert sorted(outcomes[0].results[0] for outcomes in found) == [0, 1, 2, 3, 4, 6, 7]


def test_a_worker_that_dies(driver: DriverSession) -> None:
    def work(_: int) -> list[int]:
        os._exit(3)

    with pytest.raises(SparkFailure, match="Python worker"):
        run_tasks(driver, LABEL, work, [1])
    assert run_tasks(driver, LABEL, lambda x: [x], [1]) == [1]


def test_results_that_can_not_be_pickled(driver: DriverSession) -> None:
    with pytest.raises(SparkFailure):
        run_tasks(driver, LABEL, lambda _: [threading.Lock()], [1])


def test_several_threads(driver: DriverSession) -> None:
    found: dict[int, list[int] | Exception] = {}

    def land(number: int) -> None:
        def work(item: int) -> list[int]:
            if number == 2:
                raise InputError("the second")
            return [number * 10 + item]

        try:
            found[number] = run_tasks(driver, LABEL, work, range(3))
        except InputError as error:
            found[number] = error

    threads = [threading.Thread(target=land, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[1] == [10, 11, 12]
    assert found[3] == [30, 31, 32]
    assert isinstance(found[2], InputError)


def test_frames(driver: DriverSession) -> None:
    def work(batches: Iterator[pa.RecordBatch], partition: int) -> list[tuple[int, int]]:
        return [(partition, sum(batch.column("id").to_pylist())) for batch in batches]

    frame = driver.spark.range(0, 10, 1, 3)
    assert run_frame(driver, LABEL, frame, work) == ([(0, 3), (1, 12), (2, 30)], 3)


def test_frames_without_rows(driver: DriverSession) -> None:
    frame = driver.spark.range(0).repartition(2)

    def work(batches: Iterator[pa.RecordBatch], _: int) -> list[int]:
        return [batch.num_rows for batch in batches]

    assert sum(run_frame(driver, LABEL, frame, work)[0]) == 0


def test_frames_with_names_that_spark_takes_for_expressions(driver: DriverSession) -> None:
    frame = driver.spark.sql("select 1 as `a.b`, 2 as `a``b`, 3 as `a b`")

    def work(batches: Iterator[pa.RecordBatch], _: int) -> list[dict[str, int]]:
        return [row for batch in batches for row in batch.to_pylist()]

    assert run_frame(driver, LABEL, frame, work)[0] == [{"a.b": 1, "a`b": 2, "a b": 3}]


def test_a_local_session_with_another_python_is_told_which_one_to_set(
    driver: DriverSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    with pytest.raises(MissingDependency, match="no_such_package") as lack:
        workers.check_packages(driver, ["no_such_package"])
    assert lack.value.hint == (
        "`PYSPARK_PYTHON` (or `spark.pyspark.python`) has to be set before the session is made to "
        "this process' Python: /venv/bin/python"
    )


def test_errors_in_frames(driver: DriverSession) -> None:
    def work(batches: Iterator[pa.RecordBatch], partition: int) -> list[int]:
        for batch in batches:
            if partition == 1:
                raise UnknownFields("field 'x'", "declare it.")
            assert batch.num_rows
        return [partition]

    frame = driver.spark.range(0, 3_000_000, 1, 3)
    dropped: list[int] = []
    with pytest.raises(UnknownFields, match="field 'x'"):
        run_frame(driver, LABEL, frame, work, discard=dropped.extend)
    assert 0 in dropped
    counted = run_frame(driver, LABEL, frame, lambda batches, n: [sum(1 for _ in batches) and n])
    assert counted == ([0, 1, 2], 3)


def test_errors_of_the_plan(driver: DriverSession) -> None:
    driver.spark.conf.set("spark.sql.ansi.enabled", "true")
    frame = driver.spark.createDataFrame([("secret value",)], "a string").selectExpr("int(a)")
    with pytest.raises(InputError) as caught:
        run_frame(driver, LABEL, frame, lambda batches, _: [batch.num_rows for batch in batches])
    assert "secret value" not in str(caught.value)
