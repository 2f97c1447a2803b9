"""A load of each kind in small, whose classes are written down for the JVMs of later starts.

It is run by a process of its own, which outlives the load that found the class archive wanting.
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
from lakeport.delta_log.transactions import Operation
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.delta.transaction import DeltaTransaction, delta_log
from lakeport.engine.spark.jobs import JobLabel, run_frame, run_tasks
from lakeport.engine.spark.jvm import archive, jars
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.spark.jvm.gateway import class_path
from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.session import DriverSession
from lakeport.host.scratch import scratch
from lakeport.schema.spark_schema import to_spark_json

_EXIT_SECONDS: Final = 240.0
_LABEL: Final = JobLabel("record classes")
_NOBODY: Final = "http://127.0.0.1:9"
"""An endpoint at which nobody answers: the way there is what is loaded."""


def train(needs: frozenset[str]) -> bool:
    """Make the class archive now, unless it is there; some twenty seconds.

    Args:
        needs: names of `jars.JARS`.

    Returns:
        Whether it is there.

    Raises:
        LakeportError: Spark does not start.
    """
    needs = jars.with_cached(needs)
    place = archive.place(find_java(), class_path(jars.ensure(needs)))
    if place is None or place.is_file():
        return place is not None
    os.environ["LAKEPORT_CDS"] = "off"  # what is recorded builds on no other archive
    place.parent.mkdir(parents=True, exist_ok=True)
    settings = {"spark.driver.extraJavaOptions": shlex.join(archive.recording(place))}
    session = DriverSession(SessionRequest(needs, settings))
    try:
        training_load(session, needs)
        session.stop(fast=False, timeout=_EXIT_SECONDS)
        return archive.publish(place)
    finally:
        session.stop()
        archive.part(place).unlink(missing_ok=True)


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
            _commit(session, folder, files if version == 0 else files[:0], version)
        table = spark.read.format("delta").load(str(folder))
        table.groupBy("name").count().collect()
    if "s3a" in needs:
        _meet_s3a(session)


def _write(folder: str, number: int) -> list[tuple[str, int]]:
    path = Path(folder, f"{number}.parquet")
    pq.write_table(pa.table({"id": [number, 1], "name": ["a", "b"]}), path)
    return [(path.name, path.stat().st_size)]


def _commit(
    session: DriverSession, folder: Path, files: list[tuple[str, int]], version: int
) -> None:
    """Commit data files the way loads do, through Delta's own transaction."""
    now = int(time.time() * 1000)
    txn = DeltaTransaction(session.spark, str(folder))
    stats = json.dumps({"numRecords": 2})
    actions = [add_action(name, {}, size, now, stats) for name, size in files]
    actions.append(transaction_action("training", version, now))
    if txn.version < 0:
        schema = json.loads(to_spark_json(pa.schema([("id", pa.int64()), ("name", pa.string())])))
        txn.set_metadata(metadata_action(str(uuid.uuid4()), schema, (), {}, now))
    # A write: after anything else, Delta works out the table's whole state for its checksum.
    txn.commit_actions(actions, Operation())


def _meet_s3a(session: DriverSession) -> None:
    """Open a bucket that is out of reach, and try to write a file there."""
    start = "fs.s3a.bucket.training"
    session.configure(
        {
            f"{start}.endpoint": _NOBODY,
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


def _count(batches: Iterator[pa.RecordBatch], _: int) -> list[int]:
    return [sum(batch.num_rows for batch in batches)]


if __name__ == "__main__":
    with suppress(OSError):
        os.nice(19)
    sys.exit(not train(frozenset(sys.argv[1:])))
