"""What a load into a local folder leaves, read by pyarrow or delta-rs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

import lakeport

_OURS = ("_mage_created_at", "_mage_updated_at")


def landed(source: Any, lake: Path, *, file_type: str = "parquet", **keys: Any) -> pa.Table:
    """Land a source in a new table and read it back."""
    report = lakeport.land(source, lake, file_type=file_type, table="t", **keys)
    if file_type == "delta":
        table = pa.table(DeltaTable(lake / "t").to_pyarrow_table())
    else:
        files = sorted((lake / "t").rglob("*.parquet"))
        tables = [pq.read_table(path, partitioning=None) for path in files]
        table = pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
    assert report.rows == table.num_rows
    return table.select([name for name in table.column_names if name not in _OURS])
