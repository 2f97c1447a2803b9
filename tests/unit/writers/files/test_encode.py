from __future__ import annotations

import io
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import ConfigError
from lakeport.writers import parquet
from lakeport.writers.files.encode import Encoder, encoder_for
from lakeport.writers.parquet import repeating_columns
from tests.unit.writers.files.memory import Memory

TS = pa.timestamp("us", "UTC")


def encode(encoder: Any, batches: list[pa.RecordBatch]) -> tuple[bytes, Any]:
    out = Memory()
    file = encoder.open(batches[0].schema, out)
    for batch in batches:
        file.write(batch)
    file.close()
    assert file.bytes_written == len(out.file.getvalue())
    return out.file.getvalue(), file.footer


def nested() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array([9007199254740993, None, 3]),
            "at": pa.array([datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)] * 3, TS),
            "money": pa.array([Decimal("0.10"), None, Decimal("-12.34")], pa.decimal128(38, 2)),
            "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
            "who": pa.array([{"n": "x", "d": 1.5}, None, {"n": None, "d": None}]),
            "kv": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "none": pa.array([None] * 3, pa.bool_()),
        }
    )


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
def test_values_survive(compression: str) -> None:
    data, metadata = encode(encoder_for("parquet", compression), [nested(), nested()])
    table = pq.read_table(io.BytesIO(data))
    assert table.equals(pa.Table.from_batches([nested(), nested()]))
    assert metadata.num_rows == 6
    found = metadata.row_group(0).column(0)
    assert found.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert found.statistics.min == 3


def test_timestamps_are_int64_microseconds_in_utc() -> None:
    _, metadata = encode(Encoder(), [nested()])
    assert metadata.schema.column(1).physical_type == "INT64"
    assert "timeUnit=microseconds" in str(metadata.schema.column(1).logical_type)
    assert "isAdjustedToUTC=true" in str(metadata.schema.column(1).logical_type)
    assert metadata.format_version == "2.6"


def test_small_batches_become_one_row_group() -> None:
    _, metadata = encode(Encoder(), [nested()] * 1000)
    assert (metadata.num_row_groups, metadata.num_rows) == (1, 3000)


def test_row_groups_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"text": ["x" * 1000] * 100})
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_GROUP_ROWS", 150)
        _, by_rows = encode(Encoder(), [batch] * 4)
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 30_000)
    _, by_bytes = encode(Encoder(), [batch])
    assert [by_rows.row_group(i).num_rows for i in range(by_rows.num_row_groups)] == [200, 200]
    assert max(by_bytes.row_group(i).num_rows for i in range(by_bytes.num_row_groups)) < 31


def test_duckdb_reads_it(tmp_path: Any) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(encode(Encoder(), [nested()])[0])
    rows = duckdb.sql(f"select id, tags, who.n from '{path}'").fetchall()
    assert rows == [(9007199254740993, ["a", None], "x"), (None, [], None), (3, None, None)]


def test_dictionaries_only_where_values_repeat() -> None:
    rows = 50_000
    table = pa.table(
        {
            "id": list(range(rows)),
            "city": ["Oslo", "Rome"] * (rows // 2),
            "runs": [i // 4 for i in range(rows)],
            "where": [{"zip": str(i), "land": "NO"} for i in range(rows)],
            "tags": [["a", "b"]] * rows,
            "kv": pa.array([[("k", i)] for i in range(rows)], pa.map_(pa.string(), pa.int64())),
            "flag": [True] * rows,
        }
    )
    chosen = ["city", "runs", "where.land", "tags.list.element", "kv.key_value.key"]
    assert repeating_columns(table) == chosen
    _, metadata = encode(Encoder(), table.combine_chunks().to_batches())
    group = metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert [c.path_in_schema for c in columns if c.has_dictionary_page] == chosen


def test_no_repetition_means_no_dictionary_at_all() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, 3]})
    _, metadata = encode(Encoder(), [batch])
    assert not metadata.row_group(0).column(0).has_dictionary_page


def test_names_of_types_and_files() -> None:
    assert [encoder_for("csv", c).extension for c in (None, "none", "gzip", "zstd")] == [
        "csv",
        "csv",
        "csv.gz",
        "csv.zst",
    ]
    assert encoder_for("parquet") == Encoder()
    assert encoder_for("csv").content_type.startswith("text/csv")
    assert pickle.loads(pickle.dumps(Encoder("csv", "zstd"))) == Encoder("csv", "zstd")


def test_csv_files_have_no_snappy() -> None:
    with pytest.raises(ConfigError, match="snappy"):
        encoder_for("csv", "snappy")
