"""The driver's memory does not grow with the input: its peak as the kernel has counted it."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from tests.contract.targets import record, singer
from tests.faults.kit import Lake, Process, land, started, users

MB = 1 << 20
MOST = 300  # MB


def peak(process: Process) -> float:
    """The largest resident size so far, in MB."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def feed(process: Process, block: bytes, times: int) -> float:
    """Write a block again and again, watching; return the peak before the input ended."""
    assert process.popen.stdin is not None
    highest = 0.0
    try:
        for _ in range(times):
            process.popen.stdin.write(block)
            highest = max(highest, peak(process))
        process.popen.stdin.flush()
    except BrokenPipeError:
        return highest
    return max(highest, peak(process))


def test_a_stream_of_300_mb(parquet_lake: Lake) -> None:
    rows = [record("users", id=i, name="n" * 200 + str(i)) for i in range(4000)]
    block = singer(*rows)
    times = 300 * MB // len(block) + 1
    with started(*land(parquet_lake, "--set", "maximum_batch_size_mb=64")) as process:
        feed(process, users(0), 1)
        highest = feed(process, block, times)
        process.feed(b"")
        with suppress(OSError):
            while process.popen.poll() is None:
                highest = max(highest, peak(process))
                time.sleep(0.05)
        assert process.end() == 0, process.words
    assert 20 < highest < MOST
    found = sum(pq.read_metadata(path).num_rows for path in parquet_lake.objects())
    assert found == 4000 * times


def test_a_line_without_end(parquet_lake: Lake) -> None:
    with started(*land(parquet_lake)) as process:
        head = b'{"type": "RECORD", "stream": "users", "record": {"name": "'
        feed(process, users(0) + head, 1)
        highest = feed(process, b"x" * MB, 400)
        assert process.end() == 3, process.words
    assert "100 MB" in process.words
    assert highest < MOST
    assert not parquet_lake.exists()
