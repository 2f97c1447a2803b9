"""Facts for tests of what is drawn of them, with a text of the test's in every place for one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lakeport.html.facts import RunFacts, parse_run_facts
from lakeport.lake.records import ColumnFacts, PartitionFacts, TableFacts, VersionFacts
from lakeport.lake.tables import LakeTable

BEGIN = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)


def version(number: int, text: str = "run", **others: Any) -> VersionFacts:
    known: dict[str, Any] = {
        "number": number,
        "at": BEGIN + timedelta(hours=number),
        "operation": text,
        "rows": number * 100,
        "bytes": number * 1000,
        "files": number,
        "rows_added": 100,
        "rows_removed": 0,
        "files_added": 1,
        "files_removed": 0,
        "columns": (text,),
        "run_id": text,
        "state": text,
    }
    return VersionFacts(**(known | others))


def table(text: str = "t", versions: int = 3, partitions: int = 2, **others: Any) -> TableFacts:
    known: dict[str, Any] = {
        "name": text,
        "uri": f"/lake/{text}",
        "format": "delta",
        "rows": versions * 100,
        "bytes": versions * 1000,
        "files": versions,
        "file_sizes": [1000 << place for place in range(versions)],
        "small_files": versions,
        "small_file_bytes": 32 << 20,
        "target_file_bytes": 256 << 20,
        "warning": text,
        "columns": (ColumnFacts(text, text, "partition", 1, text, text, text),),
        "by_partition": [
            PartitionFacts(f"{text}={n}", 2, 1000 * (n + 1), 10, 1) for n in range(partitions)
        ],
        "partition_columns": (text,),
        "versions": [version(number, text) for number in range(versions)],
        "protocol": text,
        "features": (text,),
        "readers": [(text, text)],
        "properties": {text: text},
        "last_change": BEGIN,
        "notes": (text,),
    }
    return TableFacts(**(known | others))


def lake_table(text: str = "t") -> LakeTable:
    return LakeTable(
        name=text,
        uri=f"/lake/{text}",
        format="delta",
        rows=7,
        bytes=800,
        files=30,
        small_files=30,
        last_change=BEGIN,
        version=3,
        growth=[(0.0, 1), (9.0, 7)],
        problem=text,
    )


def report(text: str = "t", **others: Any) -> dict[str, Any]:
    stream = {
        "stream": text,
        "table": f"/lake/{text}",
        "rows": 5,
        "files": 1,
        "bytes": 900,
        "rejected": 2,
        "seconds": 0.5,
        "first_version": 1,
        "last_version": 3,
        "warnings": [text],
        "notes": [text],
        "columns": {text: text},
        "merged": {"inserted": 3},
        "dropped": {text: 1},
    }
    known = {
        "ok": False,
        "run_id": text,
        "target": f"/lake/{text}",
        "started": BEGIN.isoformat(),
        "seconds": 4.0,
        "rows": 5,
        "rejected": 2,
        "files": 1,
        "bytes": 900,
        "streams": [stream],
        "warnings": [text],
        "quarantine": [text],
        "parser": "native",
        "error": {"type": text, "message": text, "hint": text},
        "spans": [{"stage": text, "stream": text, "start": 0.0, "end": 1.5}],
        "pace": [[0.0, 0, 0], [1.0, 5, 900]],
        "command": ["lakeport", "land", text],
        "reasons": [{"stream": text, "column": text, "reason": text, "count": 2}],
    }
    return known | others


def run(text: str = "t") -> RunFacts:
    found = parse_run_facts(report(text))
    assert found is not None
    return found


def plan(text: str = "t") -> dict[str, Any]:
    stream = {
        "stream": text,
        "table": f"/lake/{text}",
        "exists": True,
        "columns": [{"name": text, "type": text, "change": "new"}],
        "partition_keys": [text],
        "rows": 5,
        "files": 1,
        "version": 2,
        "warnings": [text],
        "notes": [text],
        "bad": 1,
        "first_bad": [text],
    }
    return {
        "target": text,
        "file_type": "delta",
        "mode": "append",
        "streams": [stream],
        "warnings": [text],
        "source": text,
    }
