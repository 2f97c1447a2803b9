"""A load of each kind in small, whose classes are written down for the JVMs of later starts.

It is run by a process of its own, which outlives the load that found the class archive wanting.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.delta.transaction import delta_log
from lakeport.engine.spark.jobs import JobLabel, run_frame, run_tasks
from lakeport.engine.spark.jvm import archive
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.spark.warmup.first_use import commit
from lakeport.engine.spark.warmup.training_store import empty_bucket
from lakeport.host.scratch import scratch

if TYPE_CHECKING:
    import pyarrow as pa

_EXIT_SECONDS = 240.0
_LABEL = JobLabel("record classes")


def train(needs: Iterable[str]) -> Path | None:
    """Make the class archive now; some twenty seconds.

    Returns:
        The archive, or None if it can't be made here or another process is making it.

    Raises:
        LakeportError: Spark does not start.
    """
    return archive.make(frozenset(needs), _record)


def _record(needs: frozenset[str], options: Sequence[str]) -> None:
    """Run what loads run, in a JVM that writes its classes down when it ends."""
    session = DriverSession(needs, {}, small=True, options=options)
    try:
        training_load(session, needs)
        session.stop(fast=False, timeout=_EXIT_SECONDS)
    finally:
        session.stop()


def training_load(session: DriverSession, needs: frozenset[str]) -> None:
    """Run what loads run.

    Raises:
        LakeportError: something of it failed.
    """
    with scratch("training") as own:
        folder = own / "table"
        folder.mkdir()
        files = run_tasks(session, _LABEL, partial(_write, str(folder)), [0, 1])
        spark = session.spark
        run_frame(session, _LABEL, spark.range(10), _count)
        if "delta" not in needs:
            spark.read.parquet(str(folder)).groupBy("name").count().collect()
            return
        for version in range(2):
            commit(session, folder, files if version == 0 else files[:0], version)
        table = spark.read.format("delta").load(str(folder))
        table.groupBy("name").count().collect()
    if "s3a" in needs:
        with empty_bucket() as endpoint:
            _meet_s3a(session, endpoint)


def _write(folder: str, number: int) -> list[tuple[str, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder, f"{number}.parquet")
    pq.write_table(pa.table({"id": [number, 1], "name": ["a", "b"]}), path)
    return [(path.name, path.stat().st_size)]


def _meet_s3a(session: DriverSession, endpoint: str) -> None:
    """Open a bucket, look for a table's log in it, and write a file there."""
    start = "fs.s3a.bucket.training"
    session.configure(
        {
            f"{start}.endpoint": endpoint,
            f"{start}.endpoint.region": "us-west-2",
            f"{start}.path.style.access": "true",
            f"{start}.connection.ssl.enabled": "false",
            f"{start}.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
            ),
            f"{start}.access.key": "training",
            f"{start}.secret.key": "training",
        }
    )
    jvm: Any = session.spark._jvm
    path = "s3a://training/table"
    log = delta_log(session.spark, path)
    files = log.logPath().getFileSystem(log.newDeltaHadoopConf())
    files.create(java_class(jvm, "org.apache.hadoop.fs.Path")(f"{path}/file"), True).close()


def _count(batches: Iterator[pa.RecordBatch], _: int) -> list[int]:
    return [sum(batch.num_rows for batch in batches)]


if __name__ == "__main__":
    with suppress(OSError):
        os.nice(19)
    train(sys.argv[1:])
