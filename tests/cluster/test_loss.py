"""Workers that are lost or slow in the middle of a load cost time and nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lakeport.engine.spark.session import DriverSession
from tests.cluster.conftest import Bucket
from tests.cluster.standalone import Standalone

PARTITIONS = 6
ROWS = PARTITIONS * 10 * 65_536


def slow_frame(gate: Path) -> Any:
    """A frame whose partitions come in ten pieces, the last ones when the gate's file is there."""
    driver = DriverSession._current
    assert driver is not None
    path = str(gate)

    def slowly(batches: Any) -> Any:
        end = time.monotonic() + 120
        for number, batch in enumerate(batches):
            while number == 5 and not Path(path).exists() and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(0.06)
            yield batch

    return driver.spark.range(ROWS, numPartitions=PARTITIONS).mapInArrow(slowly, "id long")


def python_workers(cluster: Standalone) -> tuple[int, list[int]]:
    """A worker that tasks run on, and what the Python daemon of one executor there has forked."""
    for number in cluster.workers:
        executors: dict[Path, list[int]] = {}
        for pid in cluster.executors(number):
            with suppress(OSError):
                parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
                if b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes():
                    executors.setdefault(Path(f"/proc/{pid}/cwd").readlink(), []).append(pid)
        for pids in executors.values():
            return number, pids
    return -1, []


@contextmanager
def halted_midway(
    bucket: Bucket,
    cluster: Standalone,
    gate: Path,
    then: Callable[[int], None] = lambda number: None,
) -> Iterator[list[int]]:
    """Freeze an executor's Python processes in the middle, and do something to its worker.

    No task gets through before: then the gate opens for the others.
    """
    frozen: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.01) and not frozen:
            # One of each of the two tasks that run at a time.
            if len(bucket.uploads()) >= 2:
                number, pids = python_workers(cluster)
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                        frozen.append(pid)
                if frozen:
                    then(number)
                    gate.touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield frozen
    finally:
        ended.set()
        watcher.join()
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_a_lost_worker_costs_no_rows_and_no_doubles(
    bucket: Bucket, cluster: Standalone, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with halted_midway(bucket, cluster, gate, cluster.kill_worker) as frozen:
        report = bucket.land(slow_frame(gate), "delta_lake_s3", table="numbers")
    assert frozen, "the load ended before the worker was lost"
    assert report.rows == ROWS
    table = bucket.delta("numbers")
    assert len(table.to_pyarrow_table(columns=["id"])["id"].unique()) == ROWS
    named = {uri.rpartition("/")[2] for uri in table.file_uris()}
    seen = [key for key in bucket.objects("lake/numbers/") if key.endswith(".parquet")]
    assert {key.rpartition("/")[2] for key in seen} == named
    assert len(seen) == PARTITIONS
    (lost,) = set(range(2)) - set(cluster.workers)
    cluster.start_worker(lost)
    cluster.wait(2)
    cluster.even_out(lost)


@pytest.mark.soak
def test_speculation_changes_nothing(bucket: Bucket, cluster: Standalone, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with halted_midway(bucket, cluster, gate) as frozen:
        report = bucket.land(slow_frame(gate), table="numbers")
    assert frozen, "the load ended before a task was slow"
    assert report.rows == ROWS
    rows = bucket.rows("numbers")
    assert rows.num_rows == len(rows["id"].unique()) == ROWS
    assert len(bucket.files("numbers")) == PARTITIONS
