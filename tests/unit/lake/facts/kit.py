"""Logs of Delta tables, written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakeport.lake.facts import read_table_facts
from lakeport.lake.records import TableFacts
from lakeport.storage.local import LocalStorage

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def metadata(columns: Mapping[str, Any], *by: str, **properties: str) -> dict[str, Any]:
    """The action that gives a table columns: name -> type, or a whole field."""
    fields = [
        {"name": name, "nullable": True, "metadata": {}, "type": type_}
        if not isinstance(type_, dict) or "name" not in type_
        else type_
        for name, type_ in columns.items()
    ]
    return {
        "metaData": {
            "id": "4f6d2f7c-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(by),
            "configuration": properties,
        }
    }


def add(path: str, rows: int | None = 1, **more: Any) -> dict[str, Any]:
    """A file that comes; `low`, `high` and `nulls` are its statistics, `values` its partition."""
    stats = {
        "numRecords": rows,
        "minValues": more.pop("low", {}),
        "maxValues": more.pop("high", {}),
        "nullCount": more.pop("nulls", {}),
    }
    told = {} if rows is None else {"stats": json.dumps(stats)}
    body = {"path": path, "partitionValues": more.pop("values", {}), "size": 10, **told, **more}
    return {"add": {**body, "modificationTime": 0, "dataChange": True}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    """A file that goes."""
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True, **more}}


def did(operation: str, **parameters: Any) -> dict[str, Any]:
    """What a commit says of itself."""
    return {"commitInfo": {"operation": operation, "operationParameters": parameters}}


def write(table: Path, commits: Sequence[Sequence[Mapping[str, Any]]], since: int = 0) -> Path:
    """Write commits of a table, and say where its log is."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for number, actions in enumerate(commits, since):
        lines = "".join(f"{json.dumps(action)}\n" for action in actions)
        (log / f"{number:020d}.json").write_text(lines, "utf-8")
    return log


def facts(table: Path) -> TableFacts:
    """What its log tells."""
    return read_table_facts(LocalStorage(str(table.parent)), table.name, table.name)[0]
