"""Write checkpoints of plain tables, and delete files of the log that have expired by them.

Source: Delta's protocol, "Checkpoints" (classic, one part) and "Metadata Cleanup". A checkpoint is
made from the one before it and the commits since, as Arrow tables without Python objects:
```
row group 1    protocol, metaData
          2    txn                     an append reads no further
          3    remove
          4    add                     65,536 or more each, as those of `remove`
```
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.reader import STATE, Contents, DeltaLog, LogFiles, may_have_actions
from lakeport.delta_log.transactions import archive_transactions
from lakeport.model import Storage, StoredObject

LOG_RETENTION: Final = "delta.logRetentionDuration"
FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
CLEANS_LOG: Final = "delta.enableExpiredLogCleanup"
_INTERVAL: Final = "delta.checkpointInterval"
_DAY: Final = 24 * 3600
_GROUP: Final = 65_536
_THREADS: Final = 8
_CLEANED_AT_ONCE: Final = 1000
_CLEANED: Final = "lakeport:cleaned"

_UNITS: Final = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": _DAY,
    "week": 7 * _DAY,
}
_DURATION = re.compile(r"\s*(?:interval\s+)?((?:\d+\s+[a-z]+\s*)+)", re.IGNORECASE)
_VERSIONED = re.compile(
    r"/_delta_log/(\.?)(\d{20})\.(json|crc|checkpoint\.[\w.-]+|\d{20}\.compacted\.json)(\.crc)?$"
)

_TEXTS = pa.map_(pa.string(), pa.string())
_LIST = pa.list_(pa.string())
_VECTOR = {
    "storageType": pa.string(),
    "pathOrInlineDv": pa.string(),
    "offset": pa.int32(),
    "sizeInBytes": pa.int32(),
    "cardinality": pa.int64(),
}
_FILE = {
    "path": pa.string(),
    "partitionValues": _TEXTS,
    "size": pa.int64(),
    "tags": _TEXTS,
    "dataChange": pa.bool_(),
    "deletionVector": pa.struct(_VECTOR),
}
_COLUMNS: Mapping[str, Mapping[str, pa.DataType]] = {
    "txn": {"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()},
    "add": {**_FILE, "modificationTime": pa.int64(), "stats": pa.string()},
    "remove": {**_FILE, "deletionTimestamp": pa.int64(), "extendedFileMetadata": pa.bool_()},
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
_TYPES = {kind: pa.struct(fields) for kind, fields in _COLUMNS.items()}


def parse_duration(text: str) -> float | None:
    """Parse an interval such as `30 days` to seconds; None for months, years or other text.

    >>> [parse_duration(text) for text in ("interval 1 week 2 hours", "30 days", "1 month")]
    [612000.0, 2592000.0, None]
    """
    match = _DURATION.fullmatch(text)
    words = match[1].lower().split() if match else []
    parts = [
        int(count) * _UNITS.get(unit.removesuffix("s"), float("nan"))
        for count, unit in zip(words[::2], words[1::2], strict=True)
    ]
    total = float(sum(parts))
    return total if parts and total == total else None


def is_checkpoint_due(version: int, properties: Mapping[str, str]) -> bool:
    """Whether to write a checkpoint at a version: each tenth, or by `delta.checkpointInterval`.

    >>> is_checkpoint_due(20, {}), is_checkpoint_due(0, {}), is_checkpoint_due(5, {_INTERVAL: "5"})
    (True, False, True)
    """
    interval = properties.get(_INTERVAL, "")
    every = int(interval) if interval.isdecimal() else 0
    return version > 0 and version % (every or 10) == 0


def write_checkpoint(log: DeltaLog, version: int) -> None:
    """Write a version's checkpoint and `_last_checkpoint`, and delete expired log files.

    Does nothing if there is a newer checkpoint, or files of the log are missing. Raises
    pyarrow.ArrowException if the checkpoint before it is damaged.
    """
    storage, files = log.storage, log.list_recent_files()
    since = {} if version in files.checkpoints else files.commits
    changes = files.replay(version, STATE) if version in since else None
    if changes is None:
        return
    now = time.time()
    base = files.checkpoints.get(max((v for v in files.checkpoints if v < version), default=-1), ())
    kept = archive_transactions(storage, log.folder, version, changes.transactions)
    data, actions, adds = _encode(storage, base, changes, kept, now)
    storage.put(f"{log.home}/{version:020d}.checkpoint.parquet", data)
    hint = log.read_last_checkpoint() or {}
    newest = hint.get("version")
    if isinstance(newest, int) and newest > version and any(storage.list(log.commit_key(newest))):
        return  # another writer was faster
    tags = hint.get("tags")
    cleaned = tags.get(_CLEANED) if isinstance(tags, dict) else None
    today = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
    if cleaned != today and _delete_expired(log, changes.state.properties, now):
        cleaned = today
    hint = {"version": version, "size": actions, "sizeInBytes": len(data), "numOfAddFiles": adds}
    text = json.dumps({**hint, "tags": {_CLEANED: cleaned or ""}}, separators=(",", ":"))
    storage.put(f"{log.home}/_last_checkpoint", text.encode())


def _delete_expired(log: DeltaLog, properties: Mapping[str, str], now: float) -> bool:
    """Delete up to 1,000 log files past their retention; return whether no such file is left.

    The table's `delta.logRetentionDuration` is cut to whole days, as by Delta.
    """
    retention = parse_duration(properties.get(LOG_RETENTION, "30 days"))
    if retention is None or properties.get(CLEANS_LOG, "true").lower() != "true":
        return True
    until = (now - retention) // _DAY * _DAY
    found: list[tuple[int, StoredObject]] = []
    expired = -1
    for item in log.storage.list(log.home):
        match = _VERSIONED.search(f"/{item.key}")
        if match is None:
            continue
        version = int(match[2])
        if match[3] == "json" and not match[1]:
            if item.modified > until:
                break
            expired = version
        found.append((version, item))
    whole = LogFiles.of_items(log, (item for _, item in found)).checkpoints
    stays = max((version for version in whole if version <= expired), default=-1)
    deleted = [item.key for version, item in found if version < stays]
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(log.storage.delete, deleted[:_CLEANED_AT_ONCE]):
            pass
    return len(deleted) <= _CLEANED_AT_ONCE


def _encode(
    storage: Storage,
    base: Sequence[StoredObject],
    changes: Contents,
    transactions: Sequence[Mapping[str, Any]],
    now: float,
) -> tuple[bytes, int, int]:
    """Encode a Parquet checkpoint: the earlier checkpoint `base`, merged with later changes.

    Returns:
        The checkpoint's bytes, its number of actions, and its number of `add`s.
    """
    import pyarrow.parquet as pq

    state = changes.state
    retention = parse_duration(state.properties.get(FILE_RETENTION, "7 days")) or 7 * _DAY
    changed_paths = pa.array([f.path for f in (*changes.files, *changes.removed)], pa.string())
    rows = dict.fromkeys(_TYPES, 0)
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink, pa.schema(_TYPES), compression="snappy", use_dictionary=False, store_schema=False
    ) as writer:

        def write(**actions: Any) -> None:
            """Write a row group of actions by kind, one a row, and count them; none: no group."""
            parts = []
            for kind, found in actions.items():
                array, rows[kind] = pa.array(found, _TYPES[kind]), rows[kind] + len(found)
                columns = {name: pa.nulls(len(array), type_) for name, type_ in _TYPES.items()}
                parts.append(pa.RecordBatch.from_pydict({**columns, kind: array}))
            if whole := [part for part in parts if len(part)]:
                writer.write_batch(pa.concat_batches(whole))

        write(protocol=[state.protocol], metaData=[state.metadata])
        write(txn=transactions)
        for removed in _merge_files(storage, base, "remove", changed_paths, changes.removed):
            at = pc.struct_field(removed, "deletionTimestamp")
            write(remove=removed.filter(pc.greater(at, int((now - retention) * 1000))))
        for added in _merge_files(storage, base, "add", changed_paths, changes.files):
            write(add=added)
    return sink.getvalue(), sum(rows.values()), rows["add"]


def _merge_files(
    storage: Storage,
    base: Sequence[StoredObject],
    kind: str,
    changed_paths: pa.Array,
    new: Sequence[DataFile],
) -> Iterator[pa.Array]:
    """Yield the `add`s or `remove`s of checkpoint `base` without changed paths, then new ones."""
    waiting: list[pa.Array] = []
    for files in _read_files(storage, base, kind):
        changed = pc.is_in(pc.struct_field(files, "path"), value_set=changed_paths)
        waiting.append(files.filter(pc.invert(changed)) if pc.any(changed).as_py() else files)
        if sum(map(len, waiting)) >= _GROUP:
            yield pa.concat_arrays(waiting)
            waiting = []
    own = pa.array([file.body(dataChange=False) for file in new], _TYPES[kind])
    yield pa.concat_arrays([*waiting, own])


def _read_files(storage: Storage, base: Sequence[StoredObject], kind: str) -> Iterator[pa.Array]:
    """Yield the `add` or `remove` actions in a checkpoint's Parquet files, as struct arrays."""
    import pyarrow.parquet as pq

    type_ = _TYPES[kind]
    for item in base:
        with storage.open(item.key) as file:
            source = pq.ParquetFile(file)
            schema = source.schema_arrow
            if kind not in schema.names:
                continue
            there = {field.name for field in schema.field(kind).type}
            groups = [
                g
                for g in range(source.num_row_groups)
                if may_have_actions(source.metadata, g, {kind})
            ]
            names = [f"{kind}.{field.name}" for field in type_ if field.name in there]
            for batch in source.iter_batches(_GROUP, groups, names, use_threads=False):
                structs = batch.column(0).drop_null()
                parts = [
                    pc.struct_field(structs, field.name).cast(field.type)
                    if field.name in there
                    else pa.nulls(len(structs), field.type)
                    for field in type_
                ]
                yield pa.StructArray.from_arrays(parts, fields=list(type_))
