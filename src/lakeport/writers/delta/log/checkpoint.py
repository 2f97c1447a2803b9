"""Checkpoints of small tables: what a table holds at a version, in one Parquet file.

Source: Delta's protocol, "Checkpoints" (classic, one part). Without them whoever opens a table
reads each commit that there ever was.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from lakeport.model import Storage
from lakeport.writers.delta.log.actions import log_folder
from lakeport.writers.delta.log.snapshot import CHECKPOINT_COLUMNS, Contents, LogFiles, replay

__all__ = ["bounded", "checkpoint_due", "small", "write_checkpoint"]

_LARGEST: Final = 4 << 20  # bytes of a checkpoint: some 20,000 files, as Python objects 50 MB
_MANY_COMMITS: Final = 1000
_RETENTION_MS: Final = 7 * 24 * 3600 * 1000  # `delta.deletedFileRetentionDuration`, if not set
_INTERVAL = "delta.checkpointInterval"

_TEXTS = pa.map_(pa.string(), pa.string())
_LIST = pa.list_(pa.string())
_FILE = {"path": pa.string(), "partitionValues": _TEXTS, "size": pa.int64(), "tags": _TEXTS}
_COLUMNS: Mapping[str, Mapping[str, pa.DataType]] = {
    "txn": {"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()},
    "add": {
        **_FILE,
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats": pa.string(),
    },
    "remove": {
        **_FILE,
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
    },
    "metaData": {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
        "schemaString": pa.string(),
        "partitionColumns": _LIST,
        "configuration": _TEXTS,
        "createdTime": pa.int64(),
    },
    "protocol": {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": _LIST,
        "writerFeatures": _LIST,
    },
}


def checkpoint_due(version: int, properties: Mapping[str, str]) -> bool:
    """Whether a version gets a checkpoint, by the table's property.

    >>> checkpoint_due(20, {}), checkpoint_due(0, {})
    (True, False)
    """
    interval = properties.get(_INTERVAL, "")
    return version > 0 and version % (int(interval) if interval.isdecimal() else 10) == 0


def small(log: LogFiles) -> bool:
    """Whether a table has few enough files for one process to look at each."""
    newest = max(log.checkpoints, default=-1)
    return sum(item.bytes for item in log.checkpoints.get(newest, ())) < _LARGEST


def bounded(log: LogFiles) -> bool:
    """Whether a checkpoint may be ours.

    Those of large tables are delta-spark's, which writes them with Spark's tasks. So are those of
    long logs, as delta-spark takes away the commits that are past their time with each.
    """
    return small(log) and len(log.commits) < _MANY_COMMITS


def write_checkpoint(storage: Storage, folder: str, version: int) -> None:
    """Write a version's checkpoint, and say so in `_last_checkpoint`.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        version: one that the table has; its table has no features that checkpoints have to keep
            more for.

    Raises:
        DestinationError: the store refused.
    """
    log = LogFiles.of(storage, folder)
    contents = replay(storage, log, version, CHECKPOINT_COLUMNS) if bounded(log) else None
    if contents is None:
        return
    rows = _rows(contents, int(time.time() * 1000) - _RETENTION_MS)
    data = _parquet(rows)
    home = log_folder(folder)
    storage.put(f"{home}/{version:020d}.checkpoint.parquet", data)
    hint = {"version": version, "size": len(rows), "sizeInBytes": len(data)}
    hint["numOfAddFiles"] = len(contents.files)
    storage.put(f"{home}/_last_checkpoint", json.dumps(hint, separators=(",", ":")).encode())


def _rows(contents: Contents, oldest_ms: int) -> list[tuple[str, Mapping[str, Any]]]:
    """The actions that a checkpoint has: removals only as long as VACUUM has to know of them."""
    removed = [r for r in contents.removed if (r.get("deletionTimestamp") or 0) > oldest_ms]
    return [
        ("protocol", contents.state.protocol),
        ("metaData", contents.state.metadata),
        *(("txn", action) for action in contents.transactions.values()),
        *(("remove", {**action, "dataChange": False}) for action in removed),
        *(("add", {**action, "dataChange": False}) for action in contents.files),
    ]


def _parquet(rows: list[tuple[str, Mapping[str, Any]]]) -> bytes:
    import pyarrow.parquet as pq

    columns = {
        kind: pa.array(
            [_value(action, pa.struct(fields)) if kind == own else None for own, action in rows],
            pa.struct(fields),
        )
        for kind, fields in _COLUMNS.items()
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="snappy", store_schema=False)
    return sink.getvalue()


def _value(value: Any, type_: pa.DataType) -> Any:
    """Arrow takes a map as pairs."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return list(value.items())
    if pa.types.is_struct(type_):
        return {field.name: _value(value.get(field.name), field.type) for field in type_}
    return value
