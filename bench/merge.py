"""Changed rows merged by key into a large Delta table, beside peers.

The keys are scattered over the whole table, so every file of it has to be written anew. A fifth of
the changes are new rows. The Spark job is delta-spark's own MERGE, which gets its jars as files and
memory enough.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.comparison import Asked
from bench.contestants import COLD, DELTA_RS, ENGINES, LAND, SPARK, THREADS
from bench.environments import script
from bench.measure import run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn
from bench.values import database
from lakeport.engine.spark.jvm.jars import ensure_jars

ROWS, CHANGED = 10_000_000, 100_000
PART = 1_000_000


def orders(ids: np.ndarray, seed: int) -> pa.Table:
    """Rows with these ids."""
    values, count = np.random.default_rng(seed), len(ids)
    status = np.array(["new", "paid", "sent", "returned"])
    return pa.table(
        {
            "id": ids,
            "customer": values.integers(0, 1_000_000, count),
            "status": status[values.integers(0, 4, count)],
            "amount": np.round(values.random(count) * 1000, 2),
            "note": [f"order {number}" for number in values.integers(0, 10**9, count).tolist()],
            "at": pa.array(values.integers(16 * 10**14, 17 * 10**14, count)).cast(
                pa.timestamp("us", "UTC")
            ),
            "quantity": values.integers(1, 50, count).astype("int32"),
        }
    )


def write(work: Path, rows: int, changed: int) -> tuple[Path, Path]:
    """The table's rows as a folder of Parquet files, and the changes; made once."""
    source, changes = work / f"orders-{rows}", work / f"changes-{rows}-{changed}.parquet"
    shuffled = np.random.default_rng(1)
    if not source.exists():
        making = work / f"orders-{rows}.part"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        ids = shuffled.permutation(rows)
        for number, start in enumerate(range(0, rows, PART)):
            pq.write_table(orders(ids[start : start + PART], number), making / f"{number}.parquet")
        making.rename(source)
    if not changes.exists():
        old = np.random.default_rng(2).choice(rows, changed * 4 // 5, replace=False)
        new = np.arange(rows, rows + changed - len(old))
        pq.write_table(orders(np.concatenate([old, new]), 99), changes)
    return source, changes


def measure(asked: Asked, places: Places, results: Results) -> None:
    """Merge with each, in turn, into copies of one table."""
    rows, changed = round(ROWS * asked.scale), round(CHANGED * asked.scale)
    names = [COLD, THREADS, DELTA_RS, SPARK]
    cells = [Cell(name, "merge", rows, "local", "delta") for name in names]
    if not any(results.open(cell, asked.rounds) for cell in cells):
        return
    source, changes = write(asked.work, rows, changed)
    plain = ("--table", "orders", "--set", "internal_columns=false")
    table = places.folder / "merge"
    made = run((*LAND, str(source), "--to", str(table), *plain), ENGINES[COLD])
    if made.failure:
        sys.exit(f"the table to merge into was not made: {made.failure}")
    merge = (*plain, "--mode", "merge", "--set", "merge_keys=id")
    lake = places.folder / "merged"
    spark = ("pyspark", "pyspark_merge.py", str(changes), str(lake / "orders"))
    ours = (*LAND, str(changes), "--to", str(lake), *merge)
    commands = {
        COLD: lambda: ours,
        THREADS: lambda: ours,
        DELTA_RS: lambda: script("deltars", "deltars_merge.py", str(changes), str(lake / "orders")),
        SPARK: lambda: script(*spark, ",".join(map(str, ensure_jars({"delta"})))),
    }

    def once(name: str) -> Run:
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(table, lake)
        os.sync()  # else who makes his own files durable waits for these, too
        took = run(commands[name](), ENGINES.get(name), limit=asked.limit)
        values = "" if took.failure else differences(lake / "orders", source, changes)
        return Run(took.seconds, took.cpu, took.memory_mb, values=values, failure=took.failure)

    in_turn(asked.rounds, results, {cell: partial(once, cell.contestant) for cell in cells})
    shutil.rmtree(table)
    shutil.rmtree(lake, ignore_errors=True)


def differences(table: Path, source: Path, changes: Path) -> str:
    """How many rows of the merged table are not what they should be, in words; "" for none."""
    connection = database()
    files = deltalake.DeltaTable(table).file_uris()
    connection.execute(f"CREATE VIEW changes AS SELECT * FROM '{changes}'")
    connection.execute(
        f"CREATE VIEW wanted AS SELECT * FROM changes UNION ALL BY NAME "
        f"SELECT * FROM '{source}/*.parquet' WHERE id NOT IN (SELECT id FROM changes)"
    )
    ask = 'SELECT count(*), sum(hash(id, customer, status, amount, note, "at", quantity)) FROM '
    found = connection.execute(f"{ask} read_parquet({files})").fetchall()
    wanted = connection.execute(f"{ask} wanted").fetchall()
    return "" if found == wanted else f"{found[0][0]:,} rows of {wanted[0][0]:,}, or other values"
