"""`python -m bench.cluster`: one worker beside two of the same size, and growing input.

The workers are separate processes of a standalone cluster, each pinned to one core. Spool and lake
are folders that all of them see, so that no server competes for the cores. The driver reads and
spools the stream in both cases alike; what is compared is the part that workers share: parsing and
writing, commit included.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakeport
from bench import data
from lakeport.spark.session import Runtime
from tests.cluster.standalone import Standalone, packed_environment

RECORDS = 2_000_000  # 741 MB
PART = 135_000  # records of a part: 50 MB


class Repeated(io.RawIOBase):
    """A file, over and over: a Singer stream may declare its stream again."""

    def __init__(self, path: Path, times: int) -> None:
        self._path, self._left = path, times
        self._file: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while True:
            if self._file is None:
                if not self._left:
                    return 0
                self._left -= 1
                self._file = self._path.open("rb", buffering=0)
            count = int(self._file.readinto(target))
            if count:
                return count
            self._file.close()
            self._file = None


@dataclass(frozen=True)
class Result:
    """What one load took: all of it, and the part on the workers, in seconds."""

    rows: int
    whole: float
    work: float
    files: int


def land(source: io.RawIOBase, folder: Path, file_type: str, spark: Mapping[str, str]) -> Result:
    """Land a stream once in an empty lake."""
    lake, spool = folder / "lake", folder / "spool"
    shutil.rmtree(lake, ignore_errors=True)
    lake.mkdir()
    spool.mkdir(exist_ok=True)
    began = time.monotonic()
    report = lakeport.land(
        source, str(lake), file_type=file_type, spool_uri=spool.as_uri(), spark=spark
    )
    whole = time.monotonic() - began
    (stream,) = report.streams
    return Result(report.rows, whole, stream.seconds, stream.files)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=2, help="loads of each case; the best counts")
    parser.add_argument("--sizes", type=float, nargs="*", default=[0.1, 1.0, 10.0], help="in GB")
    parser.add_argument("--format", choices=("parquet", "delta"), default="parquet")
    parser.add_argument("--work", type=Path, default=Path("lake-bench"))
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    source = data.write(arguments.work / f"events-{arguments.records}.singer", arguments.records)
    part = data.write(arguments.work / f"events-{PART}.singer", PART)
    cores = sorted(os.sched_getaffinity(0))[:2]
    results: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        folder = Path(name).resolve()
        archive = packed_environment(folder)
        print(f"{source.name}, {source.stat().st_size / 1e6:.0f} MB as {arguments.format}")
        for number in (1, 2):
            with Standalone(folder / f"cluster-{number}", cores[:number]) as cluster:
                spark = cluster.settings() | {
                    "spark.archives": f"{archive}#environment",
                    "spark.pyspark.python": "./environment/bin/python",
                }
                land(Repeated(part, 1), folder, arguments.format, spark)
                each = [
                    land(Repeated(source, 1), folder, arguments.format, spark)
                    for _ in range(arguments.rounds)
                ]
                results[number] = best = min(each, key=lambda result: result.work)
                print(
                    f"{number} worker{'s' * (number > 1):<2} parse and write {best.work:6.1f} s, "
                    f"whole load {best.whole:6.1f} s, {best.files} files",
                    flush=True,
                )
                if number == 2:
                    print(f"two against one: {results[1].work / results[2].work:.2f}x")
                    growth(part, folder, arguments.format, spark, arguments.sizes)
                if Runtime._current is not None:
                    Runtime._current.stop()


def growth(
    part: Path, folder: Path, file_type: str, spark: Mapping[str, str], sizes: list[float]
) -> None:
    """How the time of a load on two workers grows with its size."""
    for size in sizes:
        times = max(1, round(size * 1e9 / part.stat().st_size))
        result = land(Repeated(part, times), folder, file_type, spark)
        read = times * part.stat().st_size / 1e9
        print(
            f"{read:6.2f} GB {result.rows:>11,} rows: parse and write {result.work:6.1f} s, "
            f"whole load {result.whole:6.1f} s, {result.whole / read:5.1f} s a GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
