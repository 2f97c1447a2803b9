"""Times 50,000 appends of one file each to one local Delta table, by the writer, without Spark.

    python bench/long_log.py [APPENDS] [FOLDER]

Prints, for windows of a hundred appends, the median and p90 in ms, and the tenth ones that write
checkpoints; then has delta-rs read the table.
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

from lakeport.storage.local.store import LocalStorage
from lakeport.writers.delta.writer import DeltaWriter


def no_session() -> Any:
    raise AssertionError("a plain table needs no Spark")


def append(storage: LocalStorage, number: int) -> float:
    """Append a file whose content is known by its own name; return the seconds."""
    begun = time.perf_counter()
    rows = pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 7]})
    writer = DeltaWriter(no_session, storage, "t", "t", without_spark=True)
    plan = writer.plan(rows.schema)
    staged = writer.sink(plan).write(iter(rows.to_batches()), 0)
    content = {f"{number}.csv": hashlib.sha256(str(number).encode()).hexdigest()}
    writer.commit(plan, staged, content=content)
    return time.perf_counter() - begun


def main() -> None:
    """Run the appends and print the table."""
    appends = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else made)
        storage = LocalStorage(str(folder))
        shown = {1, 2, 10, 50, 100, 200, 300, 400, 500, appends // 100}
        print(f"{'appends':>9}  {'median':>7}  {'p90':>7}  {'with a checkpoint':>17}  (ms)")
        window: list[float] = []
        for number in range(appends):
            window.append(1000 * append(storage, number))
            if len(window) == 100:
                if (number + 1) // 100 in shown:
                    tenth = statistics.median(window[(10 - number + 99) % 10 :: 10])
                    p90 = sorted(window)[89]
                    middle = statistics.median(window)
                    print(f"{number + 1:>9,}  {middle:7.1f}  {p90:7.1f}  {tenth:17.1f}", flush=True)
                window = []
        files = len(DeltaTable(folder / "t").file_uris())
        print(f"delta-rs reads {files:,} files")


if __name__ == "__main__":
    main()
