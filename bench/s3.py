"""`python -m bench.s3`: the same stream into MinIO, beside the local folder and dlt.

MinIO is the one that the tests build. Each case is a whole cold process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench import data
from bench.measure import compare, show
from bench.peer import peer
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
    with tempfile.TemporaryDirectory() as folder, Minio(Path(folder)) as minio:
        minio.create_bucket("bench")
        env = {
            "AWS_ACCESS_KEY_ID": minio.access_key,
            "AWS_SECRET_ACCESS_KEY": minio.secret_key,
            "LAKEPORT_AWS_ENDPOINT": minio.endpoint,
            "BENCH_ENDPOINT": minio.endpoint,
        }
        port = (sys.executable, "-m", "lakeport", "land", str(source.resolve()))

        def cases(number: int) -> dict[str, tuple[str, ...]]:
            local = str(Path(folder, f"lake-{number}"))
            return {
                "lakeport local": (*port, "--to", local, "--format", "parquet"),
                "lakeport s3": (*port, "--to", f"s3://bench/lakeport-{number}"),
                "dlt-arrow s3": peer(
                    "dlt_arrow.py", str(source.resolve()), f"s3://bench/dlt-{number}"
                ),
            }

        found = compare(arguments.rounds, cases, env)
    title = f"{source.name}, medians of {arguments.rounds}"
    show(title, found, {"lakeport s3": ["lakeport local", "dlt-arrow s3"]})


if __name__ == "__main__":
    main()
