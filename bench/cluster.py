"""`python -m bench.cluster WORKERS SOURCE FORMAT FOLDER`: one load on a cluster.

The workers are separate processes of a standalone cluster, each pinned to one core. Spool, source
and lake are folders that all of them see, so that no server competes for the cores; with `--to` and
`--spool` lake and spool are in a store. A Singer file is read by the workers where it lies, once
the driver has looked where its records are; with `--times` it is a stream, which the driver spools
for them. Either is done alike whatever the number of workers; what they share is the part that is
told apart: parsing and writing, commit included. CSV files of a folder and files of a store are
read by the workers alone.

Prints as JSON the seconds of that part and those of the whole load, and what the driver and the
executors used in it. The driver is this process and its JVM. Another load goes before it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import lakeport
from bench.data import FLAT_PROPERTIES
from bench.runner import processor_seconds, stats, tree
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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="python -m bench.cluster")
    found.add_argument("workers", type=int)
    found.add_argument("source", help="a file, a folder, or a URI")
    found.add_argument("format", choices=("parquet", "delta"))
    found.add_argument("folder", type=Path)
    found.add_argument("--times", type=int, default=0, help="land the file as a stream, repeated")
    found.add_argument("--first", help="what is landed before; default: the source")
    found.add_argument("--to", help="an s3:// URI for the lakes; default: the folder")
    found.add_argument("--spool", help="default: the source's folder")
    return found


def land(asked: argparse.Namespace, source: str, times: int, lake: str, spark: Any) -> Any:
    """Land a source in a lake of this name, and return the report."""
    path = Path(source)
    in_store = asked.to and asked.format == "delta"
    return lakeport.land(
        Repeated(path, times) if times else source if "://" in source else str(path.resolve()),
        f"{asked.to or asked.folder}/{lake}",
        **{"destination": "delta_lake_s3"} if in_store else {"file_type": asked.format},
        spool_uri=asked.spool or path.parent.resolve().as_uri(),
        spark=spark,
        **({"schema": SCHEMA} if path.is_dir() else {}),
    )


def processor_use(cluster: Standalone) -> dict[str, float]:
    """Processor seconds so far of the driver's Python, its JVM, and the workers' processes."""
    workers = tree([process.pid for process in cluster.workers.values()])
    return {
        "Python CPU": processor_seconds(os.getpid(), reaped=False),
        "JVM CPU": processor_seconds(jvm(cluster)),
        "executors CPU": sum(map(processor_seconds, workers)),
    }


def jvm(cluster: Standalone) -> int:
    """The driver's JVM: the child that is none of the cluster's."""
    children = [pid for pid, fields in stats() if int(fields[1]) == os.getpid()]
    (found,) = set(children) - set(cluster.processes)
    return found


def peak_mb(pid: int) -> float:
    """The most memory that a process has had so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Start the cluster, land twice, and print what the second load took."""
    asked = parser().parse_args()
    asked.folder.mkdir(parents=True)
    cores = sorted(os.sched_getaffinity(0))[: asked.workers]
    archive = packed_environment(asked.folder)
    with Standalone(asked.folder / "cluster", cores) as cluster:
        spark = cluster.settings() | {
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
        land(asked, asked.first or asked.source, min(asked.times, 1), "first", spark)
        before, began = processor_use(cluster), time.monotonic()
        report = land(asked, asked.source, asked.times, "lake", spark)
        found = {"rows": report.rows, "whole": time.monotonic() - began}
        after = processor_use(cluster)
        (stream,) = report.streams
        found |= {"work": stream.seconds, **{name: after[name] - before[name] for name in after}}
        found |= {"Python MB": peak_mb(os.getpid()), "JVM MB": peak_mb(jvm(cluster))}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
