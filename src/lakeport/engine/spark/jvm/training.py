"""The training run that records a class archive: a small load of each kind.

It runs in a process of its own, which outlives the load that found no class archive.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.delta_log.actions import add_action, metadata_action, transaction_action
from lakeport.delta_log.transactions import CommitInfo
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.delta.transaction import DeltaTransaction, delta_log
from lakeport.engine.spark.jobs import run_frame, run_tasks
from lakeport.engine.spark.jvm import archive, jars
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.spark.jvm.gateway import list_class_path
from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.tasks import JobLabel
from lakeport.host.scratch import scratch_folder
from lakeport.schema.spark_schema import to_spark_json

_EXIT_SECONDS: Final = 240.0
_LABEL: Final = JobLabel("record classes")
_NO_ENDPOINT: Final = "http://127.0.0.1:9"
"""An endpoint without a listener: only the classes for the way there matter."""


def record_archive(needs: frozenset[str]) -> bool:
    """Record Java's class archive by a training load of about 20 s; False if it can't be made."""
    needs = jars.with_cached_needs(needs)
    place = archive.archive_path(find_java(), list_class_path(jars.ensure_jars(needs)))
    if place is None or place.is_file():
        return place is not None
    os.environ["LAKEPORT_CDS"] = "off"  # the archive must not build on another one
    place.parent.mkdir(parents=True, exist_ok=True)
    settings = {"spark.driver.extraJavaOptions": shlex.join(archive.record_options(place))}
    session = DriverSession(SessionRequest(needs, settings))
    try:
        run_training_load(session, needs)
        session.stop(fast=False, timeout=_EXIT_SECONDS)
        return archive.publish_archive(place)
    finally:
        session.stop()
        archive.partial_path(place).unlink(missing_ok=True)


def run_training_load(session: DriverSession, needs: frozenset[str]) -> None:
    """Run tasks, a frame, Delta commits and reads once, so that the JVM loads their classes."""
    with scratch_folder("training") as own:
        folder = own / "table"
        folder.mkdir()
        files = run_tasks(session, _LABEL, partial(_write_file, str(folder)), [0, 1])
        spark = session.spark
        run_frame(session, _LABEL, spark.range(10), _count_rows)
        if "delta" not in needs:
            spark.read.parquet(str(folder)).groupBy("name").count().collect()
            return
        for version in range(2):
            _commit_files(session, folder, files if version == 0 else files[:0], version)
        table = spark.read.format("delta").load(str(folder))
        table.groupBy("name").count().collect()
    if "s3a" in needs:
        _try_s3a(session)


def _write_file(folder: str, number: int) -> list[tuple[str, int]]:
    """Write a two-row Parquet file; return its name and its size in bytes, in a list."""
    path = Path(folder, f"{number}.parquet")
    pq.write_table(pa.table({"id": [number, 1], "name": ["a", "b"]}), path)
    return [(path.name, path.stat().st_size)]


def _commit_files(
    session: DriverSession, folder: Path, files: list[tuple[str, int]], version: int
) -> None:
    """Commit data files to a Delta table through delta-spark, with `version` as its txn number."""
    now = int(time.time() * 1000)
    txn = DeltaTransaction(session.spark, str(folder))
    stats = json.dumps({"numRecords": 2})
    actions = [add_action(name, {}, size, now, stats) for name, size in files]
    actions.append(transaction_action("training", version, now))
    if txn.version < 0:
        schema = json.loads(to_spark_json(pa.schema([("id", pa.int64()), ("name", pa.string())])))
        txn.set_metadata(metadata_action(str(uuid.uuid4()), schema, (), {}, now))
    # As a write: for other operations, Delta computes the table's whole state for its checksum.
    txn.commit_actions(actions, CommitInfo())


def _try_s3a(session: DriverSession) -> None:
    """Load S3A's classes by a write to an endpoint where nothing listens; ignore the failure."""
    start = "fs.s3a.bucket.training"
    session.set_hadoop_settings(
        {
            f"{start}.endpoint": _NO_ENDPOINT,
            f"{start}.endpoint.region": "us-west-2",
            f"{start}.path.style.access": "true",
            f"{start}.connection.ssl.enabled": "false",
            f"{start}.attempts.maximum": "1",
            f"{start}.retry.limit": "0",
            f"{start}.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
            ),
            f"{start}.access.key": "training",
            f"{start}.secret.key": "training",
        }
    )
    jvm: Any = session.spark._jvm
    with suppress(Exception):
        log = delta_log(session.spark, "s3a://training/table")
        files = log.logPath().getFileSystem(log.newDeltaHadoopConf())
        files.create(java_class(jvm, "org.apache.hadoop.fs.Path")("s3a://training/file"), True)


def _count_rows(batches: Iterator[pa.RecordBatch], _: int) -> list[int]:
    """Return the number of rows of a partition, in a list."""
    return [sum(batch.num_rows for batch in batches)]


if __name__ == "__main__":
    with suppress(OSError):
        os.nice(19)
    sys.exit(not record_archive(frozenset(sys.argv[1:])))
