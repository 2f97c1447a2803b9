"""`python -m bench.merge`: changed rows merged by key into a large Delta table, beside delta-rs.

The keys are scattered over the whole table, so every file of it has to be written anew. A fifth of
the changes are new rows. Each case is a whole cold process; MinIO is the one that the tests build.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.__main__ import PEERS, peer_python
from bench.measure import Run, run
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
    runs: dict[str, list[Run]] = {}
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
        peer = (peer_python(), str(PEERS / "deltars_merge.py"))
        cases = {
            "lakeport local": (lake, (*land, str(changes), "--to", str(lake), *merge)),
            "lakeport s3": (store, (*land, str(changes), "--to", str(store), *merge)),
            "delta-rs local": (lake, (*peer, str(changes), str(lake / "orders"))),
        }
        fresh = (*plain, "--mode", "overwrite")
        for _ in range(arguments.rounds):
            for name, (place, command) in cases.items():
                if arguments.only and not any(part in name for part in arguments.only):
                    continue
                shutil.rmtree(lake, ignore_errors=True)
                made = run((*land, str(source), "--to", str(place), *fresh), env)
                result = run(command, env) if made.ok else made
                if not result.ok:
                    sys.exit(f"{name} failed: {result.output[-500:]}")
                runs.setdefault(name, []).append(result)
    print(f"{arguments.changed} changes into {arguments.rows} rows, medians of {arguments.rounds}")
    for name, each in runs.items():
        seconds = statistics.median(one.seconds for one in each)
        memory = max(one.memory_mb for one in each)
        print(f"{name:<18}{seconds:>8.1f} s{memory:>8.0f} MB")


if __name__ == "__main__":
    main()
