"""`python -m bench.s3`: the same stream into MinIO, beside the local folder and dlt.

MinIO is the one that the tests build. Each case is a whole cold process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench import data
from bench.__main__ import PEERS, peer_python
from bench.measure import Run, run
from tests.emulators import Minio


def main() -> None:
    """Run the cases in turn and print medians."""
    parser = argparse.ArgumentParser(prog="python -m bench.s3", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("lake-bench"))
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    source = data.write(arguments.work / f"events-{arguments.records}.singer", arguments.records)
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as folder, Minio(Path(folder)) as minio:
        minio.create_bucket("bench")
        env = {
            "AWS_ACCESS_KEY_ID": minio.access_key,
            "AWS_SECRET_ACCESS_KEY": minio.secret_key,
            "LAKEPORT_AWS_ENDPOINT": minio.endpoint,
            "BENCH_ENDPOINT": minio.endpoint,
        }
        port = (sys.executable, "-m", "lakeport", "land", str(source.resolve()))
        for number in range(arguments.rounds):
            local = str(Path(folder, f"lake-{number}"))
            cases = {
                "lakeport local": (*port, "--to", local, "--format", "parquet"),
                "lakeport s3": (*port, "--to", f"s3://bench/lakeport-{number}"),
                "dlt-arrow s3": (
                    peer_python(),
                    str(PEERS / "dlt_arrow.py"),
                    str(source.resolve()),
                    f"s3://bench/dlt-{number}",
                ),
            }
            for name, command in cases.items():
                result = run(command, env)
                if not result.ok:
                    sys.exit(f"{name} failed: {result.output[-500:]}")
                runs.setdefault(name, []).append(result)
    medians = {name: statistics.median(one.seconds for one in each) for name, each in runs.items()}
    print(f"{source.name}, medians of {arguments.rounds}")
    for name, each in runs.items():
        memory = max(one.memory_mb for one in each)
        print(f"{name:<18}{medians[name]:>8.1f} s{memory:>8.0f} MB")
    ours = medians["lakeport s3"]
    print(f"s3 against local {ours / medians['lakeport local']:.2f}x, ", end="")
    print(f"against dlt {ours / medians['dlt-arrow s3']:.2f}x")


if __name__ == "__main__":
    main()
