"""Checkpoints: what a plain table holds at a version, and which files of its log that makes old.

Source: Delta's protocol, "Checkpoints" (classic, one part) and "Metadata Cleanup". A checkpoint is
made of the one before it and the commits since, as Arrow tables that no Python object is made of:
```
row group 1    protocol, metaData
          2    txn                     an append reads no further
          3    remove
          4    add                     65,536 or more each, as those of `remove`
```

A table's log counts what each run has landed of a stream, and each file that was loaded, in a `txn`
action of its own, which the protocol keeps for good and every append reads. So a checkpoint of ours
keeps the newest 500 of these. The others become small files beside the data, before it:
```
_lakeport/transactions/<xx>/<SHA-256 of the application id>.json
{"app": "lakeport::content:…", "recorded": [[<version of the checkpoint>, <number>], …]}
```
A `txn` action in the checkpoint says that there are such files. Those of bookmarks and of other
programs are not touched.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import DestinationError
from lakeport.model import Storage, StoredObject
from lakeport.writers.delta.log.reader import (
    STATE,
    Contents,
    DataFile,
    LogFiles,
    last_checkpoint,
    log_folder,
    may_have,
    replay,
)

CONTENT: Final = "lakeport::content:"
"""Begins the application id of a file that was loaded."""
_ARCHIVED: Final = "lakeport::archived"
_KEPT: Final = 500
_AT_ONCE: Final = 1000
_READERS: Final = 16

Transactions = Mapping[str, Mapping[str, Any]]
"""Application id -> its `txn` action."""


def last_transactions(
    storage: Storage, folder: str, version: int, known: Transactions, apps: Collection[str]
) -> dict[str, int]:
    """Return the number that each application has come to at a version, -1 for none.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        version: the table's version.
        known: what the log says at that version.
        apps: the applications' ids.

    Raises:
        DestinationError: the store refused, or an archived entry is damaged.
    """
    found = {app: int(known[app]["version"]) for app in apps if app in known}
    away = [app for app in apps if app not in known and _is_archivable(app)]
    if _ARCHIVED in known and away:

        def number(app: str) -> int:
            then = [count for at, count in _read(storage, folder, app) if at <= version]
            return then[-1] if then else -1

        with ThreadPoolExecutor(min(_READERS, len(away))) as pool:
            found.update(zip(away, pool.map(number, away), strict=True))
    return {app: found.get(app, -1) for app in apps}


def archive(
    storage: Storage, folder: str, version: int, known: Transactions
) -> list[Mapping[str, Any]]:
    """Write the entries that a checkpoint leaves out to files; return those that it keeps.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        version: the checkpoint's.
        known: what the log says at that version.

    Raises:
        DestinationError: the store refused: then the checkpoint must not be written.
    """
    ours = [app for app in known if _is_archivable(app)]
    ours.sort(key=lambda app: known[app].get("lastUpdated") or 0)
    going = ours[: max(0, len(ours) - _KEPT)][:_AT_ONCE]
    if not going:
        return list(known.values())

    def write(app: str) -> None:
        number = int(known[app]["version"])
        before = _read(storage, folder, app)
        if not before or before[-1][0] < version:
            body = {"app": app, "recorded": [*before, (version, number)]}
            storage.put(_key(folder, app), json.dumps(body, ensure_ascii=False).encode())

    with ThreadPoolExecutor(_READERS) as pool:
        for _ in pool.map(write, going):
            pass
    left_out = {*going, _ARCHIVED}
    kept = [action for app, action in known.items() if app not in left_out]
    updated = max(known[app].get("lastUpdated") or 0 for app in going)
    return [*kept, {"appId": _ARCHIVED, "version": version, "lastUpdated": updated}]


def _is_archivable(app: str) -> bool:
    """Whether an application id is a run's or a file's; others of ours begin `lakeport::`, too.

    >>> _is_archivable("lakeport:r1:users"), _is_archivable("lakeport::bookmark:files")
    (True, False)
    """
    of_run = app.startswith("lakeport:") and not app.startswith("lakeport::")
    return of_run or app.startswith(CONTENT)


def _key(folder: str, app: str) -> str:
    name = hashlib.sha256(app.encode("utf-8", "surrogatepass")).hexdigest()
    below = f"_lakeport/transactions/{name[:2]}/{name}.json"
    return f"{folder}/{below}" if folder else below


def _read(storage: Storage, folder: str, app: str) -> Sequence[tuple[int, int]]:
    """Read what was archived of an application: versions of checkpoints and its number there."""
    key = _key(folder, app)
    data = storage.get(key)
    if data is None:
        return ()
    try:
        body = json.loads(data)
        if body["app"] == app:
            return [(int(at), int(number)) for at, number in body["recorded"]]
    except (ValueError, KeyError, TypeError):
        pass
    raise DestinationError(
        f"{storage.uri(key)} does not tell how far {app!r} has come in its table",
        "the file is damaged: bring it back from a copy, or delete it to have that forgotten.",
    )


LOG_RETENTION: Final = "delta.logRetentionDuration"
FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
CLEANS_LOG: Final = "delta.enableExpiredLogCleanup"
_INTERVAL: Final = "delta.checkpointInterval"
_DAY: Final = 24 * 3600
_LARGEST: Final = 32 << 20  # bytes of a checkpoint whose files may become Python objects
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


def duration(text: str) -> float | None:
    """Read an interval of a table property as seconds; None where it is none.

    >>> duration("interval 1 week 2 hours"), duration("30 days"), duration("1 month")
    (612000.0, 2592000.0, None)
    """
    match = _DURATION.fullmatch(text)
    words = match[1].lower().split() if match else []
    parts = [
        int(count) * _UNITS.get(unit.removesuffix("s"), float("nan"))
        for count, unit in zip(words[::2], words[1::2], strict=True)
    ]
    total = float(sum(parts))
    return total if parts and total == total else None


def checkpoint_due(version: int, properties: Mapping[str, str]) -> bool:
    """Whether a version gets a checkpoint, by the table's property.

    >>> checkpoint_due(20, {}), checkpoint_due(0, {}), checkpoint_due(5, {_INTERVAL: "5"})
    (True, False, True)
    """
    interval = properties.get(_INTERVAL, "")
    every = int(interval) if interval.isdecimal() else 0
    return version > 0 and version % (every or 10) == 0


def small(log: LogFiles) -> bool:
    """Whether a table has few enough files for one process to look at each."""
    newest = max(log.checkpoints, default=-1)
    return sum(item.bytes for item in log.checkpoints.get(newest, ())) < _LARGEST


def write_checkpoint(storage: Storage, folder: str, version: int) -> None:
    """Write a version's checkpoint, say so in `_last_checkpoint`, and remove what has expired.

    Nothing is written where the log has a newer checkpoint, or does not tell the contents.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        version: one that the table has; its table has no features that checkpoints have to keep
            more for.

    Raises:
        DestinationError: the store refused.
        pyarrow.ArrowException: the checkpoint before it is damaged.
    """
    log = LogFiles.recent(storage, folder)
    since = {} if version in log.checkpoints else log.commits
    changes = replay(storage, log, version, STATE) if version in since else None
    if changes is None:
        return
    now = time.time()
    base = log.checkpoints.get(max((v for v in log.checkpoints if v < version), default=-1), ())
    kept = archive(storage, folder, version, changes.transactions)
    data, rows, files = _parquet(storage, base, changes, kept, now)
    home = log_folder(folder)
    storage.put(f"{home}/{version:020d}.checkpoint.parquet", data)
    hint = last_checkpoint(storage, folder) or {}
    newest = hint.get("version")
    newer = isinstance(newest, int) and newest > version
    if newer and any(storage.list(f"{home}/{newest:020d}.json")):
        return  # a faster writer's
    tags = hint.get("tags")
    cleaned = tags.get(_CLEANED) if isinstance(tags, dict) else None
    today = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
    if cleaned != today and _clean(storage, home, changes.state.properties, now):
        cleaned = today
    told = {"version": version, "size": rows, "sizeInBytes": len(data), "numOfAddFiles": files}
    text = json.dumps({**told, "tags": {_CLEANED: cleaned or ""}}, separators=(",", ":"))
    storage.put(f"{home}/_last_checkpoint", text.encode())


def _clean(storage: Storage, home: str, properties: Mapping[str, str], now: float) -> bool:
    """Remove files from before the newest checkpoint that is older than all versions to be kept.

    Versions are kept for the table's `delta.logRetentionDuration`, in whole days as Delta does.

    Returns:
        Whether no such file is left: a thousand go at once.
    """
    retention = duration(properties.get(LOG_RETENTION, "30 days"))
    if retention is None or properties.get(CLEANS_LOG, "true").lower() != "true":
        return True
    until = (now - retention) // _DAY * _DAY
    found: list[tuple[int, StoredObject]] = []
    expired = -1
    for item in storage.list(home):
        match = _VERSIONED.search(f"/{item.key}")
        if match is None:
            continue
        version = int(match[2])
        if match[3] == "json" and not match[1]:
            if item.modified > until:
                break
            expired = version
        found.append((version, item))
    whole = LogFiles.of_items(item for _, item in found).checkpoints
    stays = max((version for version in whole if version <= expired), default=-1)
    going = [item.key for version, item in found if version < stays]
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(storage.delete, going[:_CLEANED_AT_ONCE]):
            pass
    return len(going) <= _CLEANED_AT_ONCE


def _parquet(
    storage: Storage,
    base: Sequence[StoredObject],
    changes: Contents,
    transactions: Iterable[Mapping[str, Any]],
    now: float,
) -> tuple[bytes, int, int]:
    """Merge a checkpoint with what changed since.

    Args:
        storage: where the table is.
        base: the checkpoint's files.
        changes: what the commits since it say, and the table's state after these.
        transactions: the `txn` actions to keep.
        now: seconds since 1970.

    Returns:
        The new checkpoint's file, how many actions it has, and how many of these are `add`s.
    """
    import pyarrow.parquet as pq

    state = changes.state
    retention = duration(state.properties.get(FILE_RETENTION, "7 days")) or 7 * _DAY
    touched = pa.array([f.path for f in (*changes.files, *changes.removed)], pa.string())
    told = {"protocol": [state.protocol], "metaData": [state.metadata]}
    counts = [*transactions]
    sink = io.BytesIO()
    rows = {"add": 0, "remove": 0, "txn": len(counts)}
    with pq.ParquetWriter(
        sink, pa.schema(_TYPES), compression="snappy", use_dictionary=False, store_schema=False
    ) as writer:
        writer.write_batch(
            pa.concat_batches([_alone(kind, _array(kind, told[kind])) for kind in told])
        )
        if counts:
            writer.write_batch(_alone("txn", _array("txn", counts)))
        for kind, own in (("remove", changes.removed), ("add", changes.files)):
            for files in _merged(storage, base, kind, touched, own):
                if kind == "remove":
                    at = pc.struct_field(files, "deletionTimestamp")
                    files = files.filter(pc.greater(at, int((now - retention) * 1000)))
                if len(files):
                    writer.write_batch(_alone(kind, files))
                rows[kind] += len(files)
    return sink.getvalue(), sum(rows.values()) + 2, rows["add"]


def _merged(
    storage: Storage,
    base: Sequence[StoredObject],
    kind: str,
    touched: pa.Array,
    own: Sequence[DataFile],
) -> Iterator[pa.Array]:
    """Yield a checkpoint's actions of a kind but for the paths `touched`, and then `own` ones."""
    waiting: list[pa.Array] = []
    for files in _actions(storage, base, kind):
        again = pc.is_in(pc.struct_field(files, "path"), value_set=touched)
        waiting.append(files.filter(pc.invert(again)) if pc.any(again).as_py() else files)
        if sum(map(len, waiting)) >= _GROUP:
            yield pa.concat_arrays(waiting)
            waiting = []
    new = _array(kind, [file.body(dataChange=False) for file in own])
    yield pa.concat_arrays([*waiting, new])


def _actions(storage: Storage, base: Sequence[StoredObject], kind: str) -> Iterator[pa.Array]:
    """Yield a checkpoint's actions of a kind, as structs of our type."""
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
                g for g in range(source.num_row_groups) if may_have(source.metadata, g, {kind})
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


def _alone(kind: str, actions: pa.Array) -> pa.RecordBatch:
    """Rows of a checkpoint that have nothing but actions of one kind."""
    columns = [
        actions if name == kind else pa.nulls(len(actions), type_) for name, type_ in _TYPES.items()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(_TYPES))


def _array(kind: str, actions: Iterable[Mapping[str, Any]]) -> pa.Array:
    type_ = _TYPES[kind]
    return pa.array([_value(action, type_) for action in actions], type_)


def _value(value: Any, type_: pa.DataType) -> Any:
    """Arrow takes a map as pairs."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return list(value.items())
    if pa.types.is_struct(type_):
        return {field.name: _value(value.get(field.name), field.type) for field in type_}
    return value
