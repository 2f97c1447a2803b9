"""What a Delta table holds at a version: by its log files, or by Spark where these do not tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.delta_log import delta_snapshot
from lakeport.engine.spark.failures import translated
from lakeport.writers.delta.log.snapshot import Contents, LogFiles, replay
from lakeport.writers.delta.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.model import Storage

__all__ = ["read_contents"]


def read_contents(
    storage: Storage,
    folder: str,
    log: LogFiles,
    version: int,
    session: Callable[[], SparkSession],
) -> Contents:
    """The table at a version.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        log: the files of its log.
        version: one that the table has.
        session: gives the Spark session, which is only asked for when it is needed.

    Raises:
        LakeportError: the log can't be read.
    """
    found = replay(storage, log, version)
    return found or _by_spark(session(), storage.hadoop_uri(folder), version)


def _by_spark(spark: SparkSession, uri: str, version: int) -> Contents:
    """The table at a version, by Delta's own view of the log."""
    with translated():
        snapshot = delta_snapshot(spark, uri, version)
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        files = [json.loads(text) for text in snapshot.allFiles().toJSON().collectAsList()]
        domains = json.loads(_domains(snapshot))
    return Contents(TableState(version, metadata, protocol), tuple(files), domains)


def _domains(snapshot: Any) -> str:
    listed = snapshot.domainMetadata()
    found = [listed.apply(index) for index in range(listed.size())]
    return json.dumps({item.domain(): item.configuration() for item in found})
