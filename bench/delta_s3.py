"""`python -m bench.delta_s3`: the same stream into Delta tables on MinIO, beside the peers.

Each case is a whole cold process. The Spark job written by hand gets its jars as files, which
spares it the seconds that resolving `spark.jars.packages` takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench import data
from bench.measure import compare, show
from bench.peer import SCRIPTS, peer
from lakeport.spark.jvm.jars import LOG_STORE, ensure
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
            found = compare(
                arguments.rounds,
                partial(cases, source.resolve(), Path(folder)),
                environment(minio),
            )
            size = source.stat().st_size / 1e6
            title = f"{source.name}: {size:.0f} MB, medians of {arguments.rounds}"
            show(title, found, {OURS: (LOCAL, SPARK, RUST)})


def cases(source: Path, folder: Path, number: int) -> Mapping[str, tuple[str, ...]]:
    """A round's commands by the cases' names; each lands in a place of its own."""
    name = f"{source.stem}-{number}"
    config = folder / f"{name}.json"
    config.write_text(
        json.dumps({"destination": "delta_lake_s3", "bucket": "bench", "object_key_path": name})
    )
    land = (sys.executable, "-m", "lakeport", "land", str(source), "--to")
    jars = ",".join(str(jar) for jar in ensure({"delta", "s3a"}) if jar != LOG_STORE)
    spark = (sys.executable, str(SCRIPTS / "pyspark_s3.py"), str(source))
    return {
        LOCAL: (*land, str(folder / name), "--format", "delta"),
        OURS: (*land, str(config)),
        RUST: peer("deltars_write.py", str(source), f"s3://bench/rs-{name}"),
        SPARK: (*spark, f"s3a://bench/spark-{name}", jars),
    }


def environment(minio: Minio) -> dict[str, str]:
    """How every case reaches the store."""
    return {**minio.delta_options, "LAKEPORT_AWS_ENDPOINT": minio.endpoint}


if __name__ == "__main__":
    main()
