"""Which programs can't read a table is claimed as those that are installed really do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeport.writers.delta.plain import LACKING_READERS, lacking_readers

MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
PHYSICAL = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
LISTED = {"minReaderVersion": 3, "minWriterVersion": 7}
PROTOCOLS: list[dict[str, Any]] = [
    {"minReaderVersion": 2, "minWriterVersion": 5},
    *({**LISTED, "readerFeatures": [name], "writerFeatures": [name]} for name in LACKING_READERS),
]
READERS: dict[str, Callable[[str], pa.Table]] = {
    "delta-rs": lambda path: DeltaTable(path).to_pyarrow_table(),
    "Polars": lambda path: pl.read_delta(path).to_arrow(),
}


def make_table(folder: Path, protocol: dict[str, Any], *, mapped: bool) -> None:
    """Write a table of one column, `id`, with a log by hand."""
    stored = "col-1" if mapped else "id"
    field = pa.field(stored, pa.int32(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([[1, 2]], schema=pa.schema([field])), folder / "a.parquet")
    meta = PHYSICAL if mapped else {}
    column = {"name": "id", "type": "integer", "nullable": True, "metadata": meta}
    metadata = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [column]}),
        "partitionColumns": [],
        "configuration": MAPPED if mapped else {},
        "createdTime": 0,
    }
    size = (folder / "a.parquet").stat().st_size
    add = {"path": "a.parquet", "size": size, "partitionValues": {}, "modificationTime": 0}
    actions = {"protocol": protocol, "metaData": metadata, "add": {**add, "dataChange": True}}
    log = folder / "_delta_log" / f"{0:020}.json"
    log.parent.mkdir()
    log.write_text("".join(json.dumps({name: one}) + "\n" for name, one in actions.items()))


def reads(read: Callable[[str], pa.Table], folder: Path) -> bool:
    """Whether a program reads the table's values."""
    try:
        return read(str(folder))["id"].to_pylist() == [1, 2]
    except Exception:
        return False


@pytest.mark.parametrize(
    "protocol", PROTOCOLS, ids=lambda protocol: protocol.get("readerFeatures", ["version 2"])[0]
)
def test_who_can_not_read_a_table(tmp_path: Path, protocol: dict[str, Any]) -> None:
    features = protocol.get("readerFeatures", ["columnMapping"])
    make_table(tmp_path, protocol, mapped=features == ["columnMapping"])
    claimed = str(lacking_readers(protocol))
    for name, read in READERS.items():
        assert reads(read, tmp_path) == (name not in claimed), name
