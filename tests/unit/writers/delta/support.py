"""What a table holds, made up."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.reader import Contents
from lakeport.delta_log.state import TableState, grow_schema

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("p", pa.string())])


def contents(
    files: list[tuple[dict[str, str | None], int]], keys: tuple[str, ...] = ("at", "p"), **more: Any
) -> Contents:
    metadata = {
        "schemaString": json.dumps(grow_schema(None, SCHEMA)),
        "partitionColumns": list(keys),
        "configuration": more.pop("properties", {}),
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    state = TableState(7, metadata, protocol, more.pop("clustering", ()))
    added = [DataFile(f"f{n}", s, v) for n, (v, s) in enumerate(files)]
    return Contents(state, tuple(added), **more)
