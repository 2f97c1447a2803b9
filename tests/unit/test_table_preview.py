"""The first rows of tables that others wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import lakeport
from tests.unit.test_parquet_values import marks as marked
from tests.unit.test_parquet_values import of, write

COLUMN = {"name": "t", "type": "timestamp", "nullable": True, "metadata": {}}


def test_int96_of_a_delta_table(tmp_path: Path) -> None:
    """Spark writes INT96 with `spark.sql.parquet.outputTimestampType`, and reads microseconds."""
    far, fine = datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1)
    write(tmp_path / "part-0.parquet", marked(2), of(far), of(fine, 900))
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "0",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [COLUMN]}),
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {
            "add": {
                "path": "part-0.parquet",
                "partitionValues": {},
                "size": (tmp_path / "part-0.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    rows = lakeport.Table(str(tmp_path)).preview().column("t").to_pylist()
    assert rows == [far.replace(tzinfo=UTC), fine.replace(tzinfo=UTC)]
