"""`python -m bench.delta_s3`: the same stream into Delta tables on MinIO, beside the peers.

Each case is a whole cold process. The Spark job written by hand gets its jars as files, which
spares it the seconds that resolving `spark.jars.packages` takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench import data
from bench.__main__ import PEERS, peer_python
from bench.measure import Run, run
from lakeport.spark.jars import LOG_STORE, ensure
from tests.emulators import Minio

LOCAL, OURS, RUST, SPARK = "lakeport local", "lakeport s3", "delta-rs s3", "pyspark s3"


def main() -> None:
    """Run every size and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.delta_s3", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 2_000_000])
    parser.add_argument("--rounds", type=int, default=1, help="runs of each case, in turn")
    parser.add_argument("--work", type=Path, default=Path("lake-bench"))
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Minio(Path(folder)) as minio:
        minio.create_bucket("bench")
        for records in arguments.records:
            source = data.write(arguments.work / f"events-{records}.singer", records)
            compare(source.resolve(), Path(folder), minio, arguments.rounds)


def compare(source: Path, folder: Path, minio: Minio, rounds: int) -> None:
    """Run every case `rounds` times, in turn, and print medians."""
    runs: dict[str, list[Run]] = {}
    for number in range(rounds):
        for name, command in cases(source, folder, f"{source.stem}-{number}").items():
            result = run(command, environment(minio))
            if not result.ok:
                sys.exit(f"{name} failed: {result.output[-500:]}")
            runs.setdefault(name, []).append(result)
    medians = {name: statistics.median(one.seconds for one in each) for name, each in runs.items()}
    print(f"\n{source.name}: {source.stat().st_size / 1e6:.0f} MB, medians of {rounds}")
    for name, each in runs.items():
        memory = max(one.memory_mb for one in each)
        print(f"{name:<16}{medians[name]:>8.1f} s{memory:>8.0f} MB")
    ratios = (f"{medians[OURS] / medians[peer]:.2f}x {peer}" for peer in (LOCAL, SPARK, RUST))
    print(f"lakeport s3 takes {', '.join(ratios)}")


def cases(source: Path, folder: Path, name: str) -> Mapping[str, tuple[str, ...]]:
    """Commands by the cases' names; each lands in a place of its own."""
    config = folder / f"{name}.json"
    config.write_text(
        json.dumps({"destination": "delta_lake_s3", "bucket": "bench", "object_key_path": name})
    )
    land = (sys.executable, "-m", "lakeport", "land", str(source), "--to")
    jars = ",".join(str(jar) for jar in ensure({"delta", "s3a"}) if jar != LOG_STORE)
    spark = (sys.executable, str(PEERS / "pyspark_s3.py"), str(source))
    return {
        LOCAL: (*land, str(folder / name), "--format", "delta"),
        OURS: (*land, str(config)),
        RUST: (
            peer_python(),
            str(PEERS / "deltars_write.py"),
            str(source),
            f"s3://bench/rs-{name}",
        ),
        SPARK: (*spark, f"s3a://bench/spark-{name}", jars),
    }


def environment(minio: Minio) -> dict[str, str]:
    """How every case reaches the store."""
    return {
        "AWS_ACCESS_KEY_ID": minio.access_key,
        "AWS_SECRET_ACCESS_KEY": minio.secret_key,
        "AWS_ENDPOINT_URL": minio.endpoint,
        "AWS_REGION": minio.region,
        "AWS_ALLOW_HTTP": "true",
        "LAKEPORT_AWS_ENDPOINT": minio.endpoint,
    }


if __name__ == "__main__":
    main()
