"""Folders of Parquet and CSV files, told by footers and manifests."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import lakeport
from lakeport.errors import SourceError
from tests.unit.lake.facts.kit import facts


def rows(start: int, count: int, **more: Any) -> pa.Table:
    numbers = range(start, start + count)
    at = datetime(2024, 5, 1, 10, tzinfo=UTC)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "text": pa.array([None if n % 5 == 0 else str(n) for n in numbers]),
        "amount": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
        "at": pa.array([at + timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
        "on": pa.array([date(1969, 12, 30) + timedelta(days=n) for n in numbers]),
        "inner": pa.array([{"a": n} for n in numbers]),
        "list": pa.array([[n] for n in numbers]),
        "never": pa.array([None] * count, pa.string()),
    }
    return pa.table({**columns, **{name: pa.array([v] * count) for name, v in more.items()}})


def test_parquet_footers_tell_what_duckdb_counts(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(rows(3, 30), tmp_path / "t" / "a.parquet", row_group_size=7)
    pq.write_table(rows(33, 10, extra=1.5), tmp_path / "t" / "b.parquet")
    told = facts(tmp_path / "t")
    data = f"read_parquet('{tmp_path}/t/*.parquet', union_by_name = true)"
    assert [c.name for c in told.columns][-4:] == ["inner.a", "list", "never", "extra"]
    for column in told.columns:
        if column.name == "list":
            assert (column.nulls, column.minimum) == (None, None)
            continue
        path = ".".join(f'"{part}"' for part in column.name.split("."))
        ((nulls, least, greatest),) = duckdb.sql(
            f"SELECT count(*) - count({path}), min({path}), max({path}) FROM {data}"
        ).fetchall()
        assert (column.nulls, column.minimum, column.maximum) == (
            nulls,
            text(least),
            text(greatest),
        ), column
    assert (told.format, told.rows, len(told.file_sizes), told.small_files) == ("parquet", 40, 2, 2)
    assert (told.versions, told.protocol) == ((), None)


def test_dates_of_the_hybrid_calendar_have_no_bounds(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    at = pa.array([-30_578_095_926_000_000, 0], pa.timestamp("us", "UTC"))
    old = pa.table({"d": [date(1001, 1, 7), date(2024, 1, 1)], "at": at})
    keys = {b"org.apache.spark.version": b"2.4.8"}
    pq.write_table(old.replace_schema_metadata(keys), tmp_path / "t" / "a.parquet")
    assert [(c.nulls, c.minimum) for c in facts(tmp_path / "t").columns] == [(0, None)] * 2


def test_bounds_that_footers_cut_or_leave_out_say_so(tmp_path: Path) -> None:
    data = pa.table({"long": ["x" * 100], "short": ["x" * 20], "number": [1.5]})
    write_deltalake(tmp_path / "t", data)  # arrow-rs cuts texts
    shutil.rmtree(tmp_path / "t" / "_delta_log")
    long, short, number = facts(tmp_path / "t").columns
    assert long.maximum != "x" * 100 and "cut" in long.approximate
    assert (short.maximum, short.approximate) == ("x" * 20, "")
    assert "NaN" in number.approximate


def text(value: Any) -> str | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return None if value is None else str(value)


def test_manifests_tell_how_files_came(tmp_path: Path) -> None:
    for number, kind in enumerate(("csv", "csv", "parquet")):
        records = [{"id": n, "day": "2024-05-01"} for n in range(number + 3)]
        lakeport.land(records, tmp_path, table=f"raw/{kind}", file_type=kind)
    texts, parquet = facts_below(tmp_path, "raw/csv"), facts_below(tmp_path, "raw/parquet")
    assert (texts.format, texts.rows, [n for _, n in texts.growth]) == ("csv", 7, [3, 7])
    assert (parquet.rows, [n for _, n in parquet.growth]) == (5, [5])
    assert texts.growth[0][0] <= texts.growth[1][0]
    assert [c.type for c in texts.columns][:2] == ["string", "string"]
    assert "CSV files do not say" in texts.notes[0]


def facts_below(root: Path, name: str) -> Any:
    from lakeport.lake.facts import read_table_facts
    from lakeport.storage.local import LocalStorage

    return read_table_facts(LocalStorage(str(root)), name, name)[0]


def test_files_by_partition(tmp_path: Path) -> None:
    for day, count in (("2024-05-01", 3), ("2024-05-02", 4), ("__HIVE_DEFAULT_PARTITION__", 1)):
        folder = tmp_path / "t" / f"day={day}" / "of=a%2Fb"
        folder.mkdir(parents=True)
        pq.write_table(rows(0, count), folder / "a.parquet")
    told = facts(tmp_path / "t")
    assert told.partition_columns == ("day", "of")
    assert [(p.name, p.rows, p.files, p.small_files) for p in told.by_partition] == [
        ("day=2024-05-01/of=a/b", 3, 1, 1),
        ("day=2024-05-02/of=a/b", 4, 1, 1),
        ("day=null/of=a/b", 1, 1, 1),
    ]
    assert [(c.name, c.role) for c in told.columns][-2:] == [
        ("day", "partition"),
        ("of", "partition"),
    ]


def test_what_is_no_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"a\.parquet is damaged"):
        facts(tmp_path / "half")
    with pytest.raises(SourceError, match="there is no table"):
        facts(tmp_path / "none")
