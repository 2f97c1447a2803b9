"""How data files are read."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.writers.delta import files
from lakeport.writers.delta.files import read_in_parts


@pytest.mark.parametrize("ahead", [1, 200, 1 << 20])
@pytest.mark.parametrize("rows", [0, 1, 100])
def test_each_row_is_read_once_however_far_ahead(
    monkeypatch: pytest.MonkeyPatch, ahead: int, rows: int
) -> None:
    monkeypatch.setattr(files, "_AHEAD_BYTES", ahead)
    held = io.BytesIO()
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "name": ["n"] * rows})
    pq.write_table(table, held, row_group_size=7)
    read = list(read_in_parts(pq.ParquetFile(held), 5, ["id"]))
    assert [value for batch in read for value in batch.column("id").to_pylist()] == [*range(rows)]
    assert all(batch.schema.names == ["id"] and 0 < len(batch) <= 5 for batch in read)
