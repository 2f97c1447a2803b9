"""Times appends to a local Delta table of 50,000 commits, by the writer, without Spark.

    python bench/long_log.py [APPENDS] [FOLDER]

Appends one file each to the table in FOLDER, which goes on where an earlier run has ended. At some
lengths a hundred appends are timed in turn with a hundred to another table, from its hundredth on,
so that what else the machine does slows both.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from lakeport.config.destinations.local import LocalConfig
from lakeport.delta_log.reader import DeltaLog
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.writer import DeltaWriter

MARKS = (1_000, 5_000, 10_000, 20_000, 30_000, 40_000)


def no_session() -> Any:
    raise AssertionError("a plain table needs no Spark")


def append(storage: LocalStorage, number: int, folder: str = "t") -> tuple[float, float]:
    """Append a file whose content is known by its own name; return ms, and ms of the processor."""
    begun, worked = time.perf_counter(), time.process_time()
    rows = pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 7]})
    config = LocalConfig(path=storage.root)
    writer = DeltaWriter(no_session, storage, folder, folder, config, by_log=True)
    plan = writer.plan(rows.schema)
    staged = writer.sink(plan).write(iter(rows.to_batches()), 0)
    content = {f"{number}.csv": hashlib.sha256(str(number).encode()).hexdigest()}
    writer.commit(plan, staged, content=content)
    return 1000 * (time.perf_counter() - begun), 1000 * (time.process_time() - worked)


def compared(storage: LocalStorage, number: int) -> None:
    """Print what a hundred appends take, beside a hundred to a table of a hundred."""
    short = f"short{number}"
    for one in range(100):
        append(storage, one, short)
    pairs = [
        (append(storage, number + one), append(storage, 100 + one, short)) for one in range(100)
    ]
    for name, place in (("wall", 0), ("cpu", 1)):
        here, there = ([pair[table][place] for pair in pairs] for table in (0, 1))
        tenth = statistics.median(value for n, value in enumerate(here) if (number + n) % 10 == 0)
        median, p90 = statistics.median(here), sorted(here)[89]
        base, base90 = statistics.median(there), sorted(there)[89]
        print(
            f"{number:>7,}  {name:>4}  {base:7.1f}  {median:7.1f} ({median / base:.2f}x)"
            f"  {base90:7.1f}  {p90:7.1f} ({p90 / base90:.2f}x)  {tenth:7.1f}",
            flush=True,
        )


def main() -> None:
    """Run the appends and print the table."""
    appends = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else made)
        storage = LocalStorage(str(folder))
        print("commits  (ms)  100th: median  here  100th: p90  here  here, with a checkpoint")
        number = DeltaLog(storage, "t").list_files().newest + 1
        while number < appends:
            append(storage, number)
            number += 1
            if number in MARKS or number == appends:
                compared(storage, number)
                number += 100
        files = len(DeltaTable(folder / "t").file_uris())
        print(f"delta-rs reads {files:,} files")


if __name__ == "__main__":
    main()
