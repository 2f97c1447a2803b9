"""`python -m bench.cluster WORKERS FILE TIMES FORMAT FOLDER`: one load on a cluster.

The workers are separate processes of a standalone cluster, each pinned to one core. Spool, source
and lake are folders that all of them see, so that no server competes for the cores. A Singer file
is read by the workers where it lies, once the driver has looked where its records are; one that is
to be landed several times over is a stream, which the driver spools for them. Either is done alike
whatever the number of workers; what they share is the part that is told apart: parsing and writing,
commit included. CSV files of a folder are read by the workers alone. Prints the seconds of that
part, and those of the whole load, as JSON; a small load goes before it.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lakeport
from bench.data import FLAT_PROPERTIES
from tests.cluster.standalone import Standalone, packed_environment

SCHEMA = {"type": "object", "properties": FLAT_PROPERTIES}


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


def land(source: Path, times: int, folder: Path, name: str, spark: Mapping[str, str]) -> Any:
    """Land a file, a stream, or the CSV files of a folder in a lake of this name; what it took."""
    lake, spool = folder / name, source.parent.resolve()
    files = source.is_dir()
    lake.mkdir()
    began = time.monotonic()
    file_type = sys.argv[4]
    report = lakeport.land(
        Repeated(source, times) if times > 1 else str(source.resolve()),
        str(lake),
        file_type=file_type,
        spool_uri=spool.as_uri(),
        spark=spark,
        **({"schema": SCHEMA} if files else {}),
    )
    whole = time.monotonic() - began
    (stream,) = report.streams
    return {"rows": report.rows, "whole": whole, "work": stream.seconds}


def main() -> None:
    """Start the cluster, land twice, and print what the second load took."""
    workers, source, times = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    folder = Path(sys.argv[5])
    folder.mkdir(parents=True)
    cores = sorted(os.sched_getaffinity(0))[:workers]
    archive = packed_environment(folder)
    with Standalone(folder / "cluster", cores) as cluster:
        spark = cluster.settings() | {
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
        land(source, 1, folder, "first", spark)
        print(json.dumps(land(source, times, folder, "lake", spark)), flush=True)


if __name__ == "__main__":
    main()
