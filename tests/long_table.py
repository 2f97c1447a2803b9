"""The log of a table with many versions and files, as loads would leave it; without the files.

Pages and lists of tables read logs only, and a thousand real loads take minutes.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from lakeport.delta_log.actions import add_action, format_action, metadata_action
from lakeport.delta_log.checkpoint import write_checkpoint
from lakeport.delta_log.reader import DeltaLog
from lakeport.delta_log.transactions import CommitMark
from lakeport.storage.local import LocalStorage

_START = datetime(2024, 1, 1, tzinfo=UTC)
_TYPES = {
    "id": "long",
    "customer": "string",
    "email": "string",
    "amount": "decimal(12,2)",
    "ratio": "double",
    "placed_at": "timestamp",
    "shipped": "date",
    "paid": "boolean",
    "items": "integer",
    "note": "string",
    "country": "string",
    "updated_at": "timestamp",
    "day": "date",
}


def write_long_table(
    folder: Path, versions: int = 1000, files: int = 10, checkpoints: int = 100
) -> None:
    """Write a partitioned table of so many versions, with that many files added by each.

    Args:
        folder: the table's.
        versions: how many; each fiftieth rewrites the files of the one before it.
        files: how many each adds.
        checkpoints: one for so many versions.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    storage = LocalStorage(str(folder))
    chance = random.Random(7)
    last: list[tuple[str, dict[str, str | None], int]] = []
    for version in range(versions):
        lines, last = _commit(version, files, last, chance)
        data = "".join(f"{line}\n" for line in lines)
        (log / f"{version:020d}.json").write_text(data, "utf-8")
        if version and version % checkpoints == 0:
            write_checkpoint(DeltaLog(storage, ""), version)


def _commit(
    version: int,
    files: int,
    last: list[tuple[str, dict[str, str | None], int]],
    chance: random.Random,
) -> tuple[list[str], list[tuple[str, dict[str, str | None], int]]]:
    moment = _START + timedelta(hours=version)
    now = int(moment.timestamp() * 1000)
    optimizes = version > 0 and version % 50 == 0
    lines = [format_action("commitInfo", _info(version, now, optimizes=optimizes))]
    if version == 0:
        lines.append(format_action("protocol", {"minReaderVersion": 1, "minWriterVersion": 2}))
        fields = [
            {"name": name, "type": type_, "nullable": True, "metadata": {}}
            for name, type_ in _TYPES.items()
        ]
        schema = {"type": "struct", "fields": fields}
        lines.append(metadata_action("7f1d3c52-0000", schema, ["day"], {}, now))
    added = []
    for number in range(files):
        day = date(2024, 1, 1) + timedelta(days=(version * files + number) % 50)
        path = f"day={day}/part-{version:05d}-{number:03d}.zstd.parquet"
        partition: dict[str, str | None] = {"day": str(day)}
        if optimizes:
            path, partition = last[number][0].replace("part-", "whole-"), last[number][1]
        size = chance.randrange(1 << 20, 300 << 20)
        stats = json.dumps(_stats(version * files + number, chance), separators=(",", ":"))
        lines.append(add_action(path, partition, size, now, stats))
        added.append((path, partition, size))
    for path, partition, size in last if optimizes else ():
        body = {"path": path, "deletionTimestamp": now, "dataChange": False}
        known = {"extendedFileMetadata": True, "partitionValues": partition, "size": size}
        lines.append(format_action("remove", {**body, **known}))
    return lines, added


def _info(version: int, now: int, *, optimizes: bool) -> dict[str, Any]:
    mark = CommitMark(
        f"run-{version}", "orders", 0, "ab" * 32, "", f"commit-{version}", b'{"at":1}'
    )
    named = {} if optimizes else {"userMetadata": mark.format()}
    return {
        "timestamp": now,
        "operation": "OPTIMIZE" if optimizes else "WRITE",
        "operationParameters": {} if optimizes else {"mode": "Append", "partitionBy": '["day"]'},
        "isBlindAppend": not optimizes,
        "operationMetrics": {},
        "engineInfo": "lakeport/0",
        "txnId": f"txn-{version}",
        **named,
    }


def _stats(number: int, chance: random.Random) -> dict[str, Any]:
    rows = chance.randrange(1_000, 2_000)
    bounds = _bounds(number, chance)
    low = {name: least for name, (least, _) in bounds.items()}
    high = {name: greatest for name, (_, greatest) in bounds.items()}
    nulls = {name: chance.randrange(10) for name in _TYPES if name != "day"}
    return {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bounds(number: int, chance: random.Random) -> dict[str, tuple[Any, Any]]:
    at = _START + timedelta(minutes=6 * number)

    def moment(minutes: int) -> str:
        text = (at + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    return {
        "id": (number * 2000, number * 2000 + 1999),
        "customer": (f"customer {chance.random():.6f}", f"customer {chance.random() + 1:.6f}"),
        "email": (f"a{chance.random():.9f}@example.com", f"z{chance.random():.9f}@example.com"),
        "amount": (round(chance.random(), 2), round(1000 * chance.random() + 1, 2)),
        "ratio": (-chance.random(), chance.random()),
        "placed_at": (moment(0), moment(6)),
        "shipped": (str(at.date()), str(at.date() + timedelta(days=9))),
        "items": (1, 1 + chance.randrange(40)),
        "note": ("a long note that is cut at letter 32"[:32], "z"),
        "country": ("AT", "ZA"),
        "updated_at": (moment(1), moment(90)),
    }
