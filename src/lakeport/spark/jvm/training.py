"""A load of each kind in small, for its classes: a Python job, a frame, a Delta commit, a query."""

from __future__ import annotations

import json
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.host.scratch import scratch
from lakeport.spark.failures import translated
from lakeport.spark.jobs import run_frame, run_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lakeport.spark.session import Runtime

__all__ = ["training_load", "warm_commit", "warm_workers"]


def training_load(runtime: Runtime, needs: frozenset[str]) -> None:
    """Run what loads run.

    Raises:
        LakeportError: something of it failed.
    """
    with scratch("training") as own:
        folder = own / "table"
        folder.mkdir()
        files = run_tasks(runtime, partial(_write, str(folder)), [0, 1])
        spark = runtime.spark
        run_frame(runtime, spark.range(10), _count)
        if "delta" not in needs:
            spark.read.parquet(str(folder)).groupBy("name").count().collect()
            return
        for version in range(2):
            _commit(runtime, folder, files if version == 0 else files[:0], version)
        table = spark.read.format("delta").load(str(folder))
        table.groupBy("name").count().collect()
    if "s3a" in needs:
        from lakeport.spark.jvm.training_store import empty_bucket

        with empty_bucket() as endpoint:
            _meet_s3a(runtime, endpoint)


def warm_workers(runtime: Runtime) -> None:
    """Start the Python workers, and let them do for the first time what tasks do.

    Raises:
        LakeportError: it failed.
    """
    run_tasks(runtime, _warm_worker, range(runtime.cores))


def warm_commit(runtime: Runtime, folder: Path) -> None:
    """Commit to a table of its own below `folder`, so that the first real commit is quick.

    Raises:
        LakeportError: it failed.
    """
    with translated(runtime.secrets):
        _commit(runtime, folder, [("none.parquet", 1)], 0)


def _warm_worker(number: int) -> list[int]:
    """Let a worker do for the first time what its tasks will do."""
    import io

    import pyarrow as pa
    import pyarrow.json as pj
    import pyarrow.parquet as pq

    table = pj.read_json(
        io.BytesIO(b'{"a": 1, "b": "x"}\n'), read_options=pj.ReadOptions(use_threads=False)
    )
    pq.write_table(table, pa.BufferOutputStream())
    return [number]


def _write(folder: str, number: int) -> list[tuple[str, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder, f"{number}.parquet")
    pq.write_table(pa.table({"id": [number, 1], "name": ["a", "b"]}), path)
    return [(path.name, path.stat().st_size)]


def _meet_s3a(runtime: Runtime, endpoint: str) -> None:
    """Open a bucket, look for a table's log in it, and write a file there."""
    start = "fs.s3a.bucket.training"
    runtime.configure(
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
    jvm: Any = runtime.spark._jvm
    path = "s3a://training/table"
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(runtime.spark._jsparkSession, path)
    files = log.logPath().getFileSystem(log.newDeltaHadoopConf())
    files.create(jvm.org.apache.hadoop.fs.Path(f"{path}/file"), True).close()


def _count(batches: Iterator[pa.RecordBatch], _: int) -> list[int]:
    return [sum(batch.num_rows for batch in batches)]


def _commit(runtime: Runtime, folder: Path, files: list[tuple[str, int]], version: int) -> None:
    """Commit data files the way loads do, through Delta's own transaction."""
    spark = runtime.spark
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    now = int(time.time() * 1000)
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, str(folder)).startTransaction()
    actions: list[dict[str, Any]] = [
        {
            "add": {
                "path": name,
                "partitionValues": {},
                "size": size,
                "modificationTime": now,
                "dataChange": True,
                "stats": json.dumps({"numRecords": 2}),
            }
        }
        for name, size in files
    ]
    actions.append({"txn": {"appId": "training", "version": version, "lastUpdated": now}})
    if transaction.readVersion() < 0:
        columns = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("name", "string"))
        ]
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": now,
        }
        text = json.dumps({"metaData": metadata})
        transaction.updateMetadata(delta.actions.Action.fromJson(text), False)
    batch = jvm.java.util.ArrayList()
    for action in actions:
        batch.add(delta.actions.Action.fromJson(json.dumps(action)))
    none = jvm.scala.Option.empty()
    # A write: after anything else, Delta works out the table's whole state for its checksum.
    write = getattr(delta, "DeltaOperations$Write")
    operation = write(jvm.org.apache.spark.sql.SaveMode.Append, *[none] * 8)
    transaction.commit(jvm.org.apache.spark.api.python.PythonUtils.toSeq(batch), operation)
