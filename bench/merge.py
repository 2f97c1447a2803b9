"""`python -m bench.merge`: changed rows merged by key into a large Delta table, beside peers.

The keys are scattered over the whole table, so every file of it has to be written anew. A fifth of
the changes are new rows. Each case is a whole cold process; MinIO is the one that the tests build.
The Spark job is delta-spark's own MERGE, which gets its jars as files and memory enough.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure import compare, run, show
from bench.peer import SCRIPTS, peer
from lakeport.spark.jvm.jars import ensure
from tests.emulators import Minio

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


def main() -> None:
    """Run the cases in turn and print medians."""
    parser = argparse.ArgumentParser(prog="python -m bench.merge", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--changed", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the cases' names")
    parser.add_argument("--work", type=Path, default=Path("lake-bench"))
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    work = arguments.work.resolve()
    source, changes = write(work, arguments.rows, arguments.changed)
    with tempfile.TemporaryDirectory(dir=work) as folder, Minio(Path(folder)) as minio:
        minio.create_bucket("bench")
        lake, store = Path(folder, "lake"), Path(folder, "s3.json")
        keys = {
            "destination": "delta_lake_s3",
            "bucket": "bench",
            "aws_endpoint": minio.endpoint,
        }
        store.write_text(json.dumps(keys))
        env = {
            "AWS_ACCESS_KEY_ID": minio.access_key,
            "AWS_SECRET_ACCESS_KEY": minio.secret_key,
        }
        land = (sys.executable, "-m", "lakeport", "land")
        plain = ("--table", "orders", "--set", "internal_columns=false")
        merge = (*plain, "--mode", "merge", "--set", "merge_keys=id")
        spark = (sys.executable, str(SCRIPTS / "pyspark_merge.py"))
        jars = ",".join(map(str, ensure({"delta"})))
        cases = {
            "lakeport local": (*land, str(changes), "--to", str(lake), *merge),
            "lakeport s3": (*land, str(changes), "--to", str(store), *merge),
            "spark local": (*spark, str(changes), str(lake / "orders"), jars),
            "delta-rs local": peer("deltars_merge.py", str(changes), str(lake / "orders")),
        }
        chosen = {
            name: command
            for name, command in cases.items()
            if not arguments.only or any(part in name for part in arguments.only)
        }
        fresh = (*plain, "--mode", "overwrite")

        def before(name: str) -> None:
            shutil.rmtree(lake, ignore_errors=True)
            place = store if name == "lakeport s3" else lake
            made = run((*land, str(source), "--to", str(place), *fresh), env)
            if not made.ok:
                sys.exit(f"the table for {name} was not made: {made.output[-500:]}")

        found = compare(arguments.rounds, lambda number: chosen, env, before)
    title = f"{arguments.changed} changes into {arguments.rows} rows"
    show(f"{title}, medians of {arguments.rounds}", found)


if __name__ == "__main__":
    main()
