"""Spark's settings for a session that lakeport builds."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakeport.engine.spark.jvm.versions import installed_build
from lakeport.errors import ConfigError
from lakeport.host.process import available_cores
from lakeport.scrub import REDACTION, is_secret_name
from lakeport.units import parse_size

DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings by which a session reads and writes Delta tables."""

COMMIT_SETTINGS: Final = {
    # Without it, Delta takes an existing version for another writer's.
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
    # Delta would retry for ever if a listing does not show the version in its way.
    "spark.databricks.delta.maxCommitAttempts": "30",
}
"""Settings by which a session recognises its own commit after a lost answer, and gives up."""

LOG_STORE: Final = "io.lakeport.delta.ConditionalS3LogStore"
LOG_STORE_SETTINGS: Final = {
    "spark.delta.logStore.s3a.impl": LOG_STORE,
    "spark.delta.logStore.s3.impl": LOG_STORE,
    "spark.hadoop.io.delta.kernel.logStore.s3a.impl": LOG_STORE,
    "spark.hadoop.io.delta.kernel.logStore.s3.impl": LOG_STORE,
}
"""Settings by which several writers can share a Delta table on S3."""

OPTION_SOURCE: Final = "lakeport"
"""Source that Hadoop keeps for the options that lakeport sets in a running session."""

_CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"

_AZURE_TUNING: Final = {
    # Metrics are sent when the JVM ends, for minutes if the account can't be reached any more.
    "spark.hadoop.fs.azure.metrics.collection.enabled": "false",
}

_HEAP: Final = "1g"
_BASE: Final = {
    "spark.app.name": "lakeport",
    # Concurrent loads share the cores; the jobs of one load run in their order.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark 3.5 would make null of a text that is no number, and refuse dates before 1582.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # glibc keeps the memory of a block of lines for the next one.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(128 << 20),
}
_LOCAL: Final = {
    # Hadoop would start a process for each permission that it sets, and for possible links.
    "spark.hadoop.fs.file.impl": "io.lakeport.local.LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "io.lakeport.local.LocalContext",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "lakeport.engine.spark.daemon",
}
_DELTA_TUNING: Final = {
    # Fifty partitions, Delta's default, cost seconds on tables of ordinary size.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Listing every file in the checksum costs a job of two seconds on the first commit.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    "spark.databricks.delta.v2.enableMode": "NONE",
}


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process, and with it a JVM that PySpark may join."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def session_settings(
    needs: frozenset[str], settings: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return all Spark settings of a new session, lakeport's under the user's.

    Raises:
        ConfigError: a key of the mapping looks like a secret, or is not Spark's.
    """
    check_settings(settings)
    master = master_url(settings)
    result = {"spark.master": master, **_BASE}
    if is_local_master(master):
        cores = local_cores(master)
        result |= _LOCAL | {
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores * 4),
        }
    if "delta" in needs:
        result |= _DELTA_TUNING
    return add_settings(result | lake_settings(needs), settings)


def lake_settings(needs: frozenset[str]) -> dict[str, str]:
    """Return the settings by which a session reads and writes lakes in stores of these needs."""
    result: dict[str, str] = {}
    if "delta" in needs:
        result |= DELTA_SETTINGS | COMMIT_SETTINGS
    if "s3a" in needs:
        result |= LOG_STORE_SETTINGS | {_CHECKPOINT_FILES: _whole_files_class()}
    if "azure" in needs:
        result |= _AZURE_TUNING
    return result | {"spark.redaction.regex": REDACTION}


def add_settings(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Return lakeport's settings updated by a user's, with the SQL extensions of both."""
    result = dict(ours)
    for key, value in theirs.items():
        known = result.get(key, "")
        if key == "spark.sql.extensions" and known and known not in value:
            value = f"{known},{value}"
        result[key] = value
    return result


def _whole_files_class() -> str:
    """Return the Java class that writes checkpoint files on S3 by one put, for this Spark.

    Spark renames a temporary file by default, which is a copy and a delete there.
    """
    old = installed_build().minor in ("3.5", "4.0")  # whose interface has another package
    return f"io.lakeport.delta.{'spark40.' if old else ''}WholeFiles"


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ConfigError for a setting that looks like a secret or does not begin with `spark.`."""
    for key in settings:
        if is_secret_name(key):
            raise ConfigError(
                f"`spark:` must not hold {key!r}: Spark would show it",
                "give credentials through the destination's own keys or the environment; lakeport "
                "hands them over where no log, command line or web page shows them.",
            )
        if not key.startswith("spark."):
            raise ConfigError(
                f"`spark:` holds {key!r}, which is no setting of Spark's",
                f"did you mean 'spark.hadoop.{key}'?"
                if key.startswith("fs.")
                else "Spark's settings begin with 'spark.'.",
            )


def master_url(settings: Mapping[str, str]) -> str:
    """Return Spark's master URL: all cores of this machine, unless the user sets another."""
    return settings.get("spark.master", "local[*]")


def is_local_master(master: str) -> bool:
    """Whether a Spark master URL is `local` or `local[...]`, so that tasks run in the driver.

    >>> [is_local_master(each) for each in ("local[*]", "local", "local-cluster[2,1,1024]")]
    [True, True, False]
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def local_cores(master: str) -> int:
    """Return the number of task slots of a local master URL.

    >>> local_cores("local[3]"), local_cores("local"), local_cores("local[4,2]")
    (3, 1, 4)
    """
    match = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*(?:,.*)?\])?", master)
    if match is None or match[1] is None:
        return 1
    return available_cores() if match[1] == "*" else max(1, int(match[1]))


def task_attempts(settings: Mapping[str, str]) -> int:
    """Return how often Spark tries a task: once by default if local, else four times."""
    match = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\s*\])?", settings["spark.master"])
    if match is not None:
        return int(match[1] or 1)
    return int(settings.get("spark.task.maxFailures", "4"))


def heap_mb(settings: Mapping[str, str]) -> int:
    """Return `spark.driver.memory` in MiB, 1024 by default; ConfigError if it is no size.

    >>> heap_mb({}), heap_mb({"spark.driver.memory": "2500m"})
    (1024, 2500)
    """
    text = settings.get("spark.driver.memory", _HEAP)
    size = (parse_size(text) or 0) >> 20
    if size < 1:
        raise ConfigError(
            f"`spark.driver.memory` is {text!r}, which is no size", "write it like '2g' or '1500m'."
        )
    return size
