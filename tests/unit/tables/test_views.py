"""The first rows of tables that others wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lakeport
from tests.unit.sources.parquet.test_values import marks as marked
from tests.unit.sources.parquet.test_values import of, write

COLUMN = {"name": "t", "type": "timestamp", "nullable": True, "metadata": {}}


def log(table: Path, columns: list[Any], reader: int = 1, writer: int = 2) -> None:
    """Make a folder with `part-0.parquet` a Delta table."""
    actions = [
        {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}},
        {
            "metaData": {
                "id": "0",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": columns}),
                "partitionColumns": [],
            }
        },
        {
            "add": {
                "path": "part-0.parquet",
                "partitionValues": {},
                "size": (table / "part-0.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_int96_of_a_delta_table(tmp_path: Path) -> None:
    """Spark writes INT96 with `spark.sql.parquet.outputTimestampType`, and reads microseconds."""
    far, fine = datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1)
    write(tmp_path / "part-0.parquet", marked(2), of(far), of(fine, 900))
    log(tmp_path, [COLUMN])
    rows = lakeport.Table(str(tmp_path)).preview().column("t").to_pylist()
    assert rows == [far.replace(tzinfo=UTC), fine.replace(tzinfo=UTC)]


def test_a_table_with_types_that_can_not_be_written_is_shown(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"")
    nested = {"type": "struct", "fields": [{"name": "a", "type": "variant"}]}
    types = {
        "id": "long",
        "v": "variant",
        "s": nested,
        "l": {"type": "array", "elementType": nested},
        "m": {"type": "map", "keyType": "string", "valueType": "variant"},
    }
    columns = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, type_ in types.items()
    ]
    log(tmp_path, columns, 5, 7)
    facts = lakeport.Table(str(tmp_path)).describe()
    assert facts.protocol == "reader 5, writer 7"
    assert {item.name: item.type for item in facts.columns} == {
        "id": "integer",
        "v": "variant",
        "s": "struct<a: variant>",
        "l": "array<struct<a: variant>>",
        "m": "map<string, variant>",
    }
    assert lakeport.Table(str(tmp_path)).compact_report().files == 1
