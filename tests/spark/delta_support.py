"""One Spark session with Delta for the tests of tables, and the short way to land rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from lakeport.config.destinations.local import LocalConfig
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.delta.session import DeltaSession
from lakeport.engine.spark.engine import SparkEngine
from lakeport.engine.spark.session import DriverSession
from lakeport.model import Landed
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.writer import DeltaWriter


@cache
def driver() -> DriverSession:
    """The process's own session."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return DriverSession.acquire(SessionRequest({"delta", "s3a", "azure"}))


def engine() -> SparkEngine:
    """An engine on that session."""
    return SparkEngine(SessionRequest(driver().needs))


def session() -> Any:
    return driver().spark


def writer(root: Any, folder: str = "t", stream: str = "t", **more: Any) -> DeltaWriter:
    config = LocalConfig(path=root, **more)
    return DeltaWriter(
        lambda: DeltaSession(session()), LocalStorage(str(root)), folder, stream, config
    )


def aligned(plan: DeltaPlan, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows with the planned columns."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in plan.schema
    ]
    yield from pa.table(columns, schema=plan.schema).to_batches()


def land(
    into: DeltaWriter,
    table: pa.Table,
    *,
    mode: str = "append",
    keys: Sequence[str] = (),
    policy: str = "evolve",
    split: int = 0,
    **more: Any,
) -> Landed:
    plan = into.plan(table.schema, mode=mode, partition_keys=keys, policy=policy)
    staged = into.sink(plan).write(aligned(plan, table), split)
    return into.commit(plan, staged, into.mark(**more))
