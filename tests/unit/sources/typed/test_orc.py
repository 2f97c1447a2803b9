from __future__ import annotations

import base64
import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

import lakeport
from lakeport.errors import MissingDependency, SourceError
from tests.unit.sources.file_batch import planned, read_table
from tests.unit.sources.landed import landed

MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 500000), None, dt.datetime(2024, 1, 1, 2, 3, 4, 5)]
TABLE = pa.table(
    {
        "i8": pa.array([-128, None, 127], pa.int8()),
        "i64": pa.array([-(2**63), None, 2**63 - 1]),
        "f": pa.array([1.5, None, float("inf")], pa.float32()),
        "b": [True, None, False],
        "s": ["", None, "é€😀"],
        "raw": [b"\0\xff", None, b""],
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "at": pa.array(MOMENTS, pa.timestamp("us")),
        "d": pa.array([Decimal("1.20"), None, Decimal("9" * 36 + ".99")], pa.decimal128(38, 2)),
        "l": pa.array([[1, None], None, []], pa.list_(pa.int32())),
        "m": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
        "st": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
    }
)


def as_orc(table: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    orc.write_table(table, target, **options)
    return target.getvalue()


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_types_and_values(tmp_path: Path, compression: str) -> None:
    (tmp_path / "t.orc").write_bytes(as_orc(TABLE, compression=compression))
    expected = TABLE.to_pydict()
    expected["at"] = [at and at.replace(tzinfo=dt.UTC) for at in MOMENTS]
    for file_type in ("parquet", "delta"):
        table = landed(tmp_path / "t.orc", tmp_path / file_type, file_type=file_type)
        assert table.to_pydict() == expected


def test_stripes_are_split(tmp_path: Path) -> None:
    table = pa.table({"n": range(200_000), "s": [str(n * 7919) for n in range(200_000)]})
    path = tmp_path / "t.orc"
    path.write_bytes(as_orc(table, stripe_size=1 << 16, compression="uncompressed"))
    assert orc.ORCFile(path).nstripes > 2
    batch = planned(path, split_bytes=1 << 16)
    assert len(batch.splits) > 2 and batch.records == 200_000
    assert read_table(batch) == table


def test_zero_rows_keep_their_columns(tmp_path: Path) -> None:
    (tmp_path / "t.orc").write_bytes(as_orc(TABLE.slice(0, 0)))
    lakeport.land(tmp_path / "t.orc", tmp_path / "lake", table="t")
    columns = lakeport.Table(tmp_path / "lake/t").preview(1).column_names
    assert columns[: len(TABLE.column_names)] == TABLE.column_names


WHOLE = as_orc(TABLE)
FAR = pa.table({"at": pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("us"))})
FINE = pa.table({"at": pa.array([1], pa.timestamp("ns"))})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t\.orc' can't be read as ORC"),
        (b"ORC", r"t\.orc' can't be read as ORC"),
        (b"PAX1" * 50, r"t\.orc' can't be read as ORC"),
        (WHOLE[:-10], r"t\.orc' can't be read as ORC"),
        (WHOLE[: len(WHOLE) // 2], r"t\.orc' can't be read as ORC"),
        (as_orc(FAR), r"t\.orc': column 'at' holds timestamps before 1677 or after 2262"),
        (as_orc(FINE), "column 'at' holds a value that"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.orc").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        lakeport.land(tmp_path / "t.orc", tmp_path / "lake")


KATHMANDU = base64.b64decode(
    "T1JDEQAACgYSBAgIUAAtAAAKFAoDAAAAEg0ICBIHCAoQHBiUAVAANwAAChkKBwAAAAAAAAASDggHOggI7YQMEPi9DF"
    "ABXQAACiwKCgAAAAAAAAAAAAASHggHShgYiei0jvnvAyD2592qqYIEKMHqGzDB6htQAQ0AAMIHCgJXUAUAAP/3LwAA"
    "bgYDAm0BVTsA4W0AjyIDHvgAx70AAAEFAAD/90sAAHgGBKD7vx0CayZUHQHSej8dABNrmOADdAw54AGwnLVdAKlKVh"
    "UJAAAUDxICvgAAKLUv/SBwtQIAgoQQF3Bl2vaJgftvzd+fIQxIFtUDBIuSSiE7AQZqTwNoC9KcSCEYLq5bXMGz1Sof"
    "z2RHdexbZeGp0yonT+NYPA2/1lUOBwB3JIAUoI0zJYBzoLkJJQ6bAAAKSwoECAhQAAoPCAgSBwgKEBwYlAFQAFgJCh"
    "AIBzoICO2EDBD4vQxQAVgfCiAIB0oYGInotI757wMg9ufdqqmCBCjB6hswweobUAFYNKkBAAgDELQCGgoIAxBzGFwg"
    "YigIIhEIDBIDAQIDGgJpZBoBZBoBdCICCAMiAggPIigICTokChdzcGFyay5zcWwuY2F0YWx5c3QudHlwZRIJdGltZX"
    "N0YW1wKiEKGG9yZy5hcGFjaGUuc3BhcmsudmVyc2lvbhIFNC4yLjAwCDoECAhQADoPCAgSBwgKEBwYlAFQAFgJOhAI"
    "BzoICO2EDBD4vQxQAVgfOiAIB0oYGInotI757wMg9ufdqqmCBCjB6hswweobUAFYNECQTkgAWAFiBTIuMy4wCNcBEA"
    "UYgIAQIgIADChQMAmC9AMDT1JDGA=="
)
"""Spark's: timestamps from 1700 to 2250, written in the time zone Asia/Kathmandu."""


def test_times_are_refused_that_arrow_and_java_may_shift_differently(tmp_path: Path) -> None:
    (tmp_path / "t.orc").write_bytes(KATHMANDU)
    with pytest.raises(SourceError, match="column 't' holds timestamps before 1953"):
        lakeport.land(tmp_path / "t.orc", tmp_path / "lake", table="t")


def test_times_are_refused_that_this_arrow_wraps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.orc").write_bytes(WHOLE)
    batch = planned(tmp_path / "t.orc")
    monkeypatch.setattr(pa, "__version__", "24.0.0")  # here: a task may run in another process
    with pytest.raises(MissingDependency, match=r"pyarrow 24\.0\.0 reads those of ORC"):
        read_table(batch)
