from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lakeport.errors import InputError, SourceError
from lakeport.model import Batch
from lakeport.sources.frames import frame_flushes
from tests.unit.sources.file_batch import read_table

ZONED = datetime(2024, 3, 4, 12, tzinfo=timezone(timedelta(hours=2)))


def load(tmp_path: Path, frame: Any, **settings: Any) -> Batch:
    spool = tmp_path / f"spool{len(list(tmp_path.iterdir()))}"
    spool.mkdir()
    (flush,) = frame_flushes(frame, "t", spool, **settings)
    assert flush.last
    return flush.batches[0]


DATA = {"id": [1, 2, 3], "name": ["a", None, "ç"], "x": [0.5, None, 2.0]}


def frames(tmp_path: Path) -> dict[str, Any]:
    table = pa.table(DATA)
    pq.write_table(table, tmp_path / "t.parquet")
    return {
        "pandas": pd.DataFrame(DATA),
        "polars": pl.DataFrame(DATA),
        "lazy": pl.LazyFrame(DATA),
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "dataset": ds.dataset(tmp_path / "t.parquet"),
        "scanner": ds.dataset(tmp_path / "t.parquet").scanner(),
        "duckdb": duckdb.connect().sql(f"select * from '{tmp_path}/t.parquet'"),
    }


@pytest.mark.parametrize(
    "kind",
    ["pandas", "polars", "lazy", "table", "batch", "reader", "dataset", "scanner", "duckdb"],
)
def test_every_kind_of_frame_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    frame = frames(tmp_path)[kind]
    batch = load(tmp_path, frame)
    assert read_table(batch).equals(pa.table(DATA))
    assert (batch.records, batch.output_ratio, batch.digest) == (3, 0.4, "")
    assert batch.bytes > 0
    assert batch.reader is not None
    assert sum(batch.reader.scan(split).rows for split in batch.splits) == 3


def test_what_is_no_frame(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="'dict' is not a frame"):
        load(tmp_path, {"a": 1})


def test_no_library_is_imported_to_find_out() -> None:
    code = (
        "import sys; from lakeport.sources.frames import is_spark_frame; "
        "is_spark_frame(1); is_spark_frame(object);"
        "assert not {'pandas', 'polars', 'pyspark', 'duckdb'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("library", [pd, pl])
def test_big_frames_are_cut_into_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Any
) -> None:
    monkeypatch.setattr("lakeport.sources.frames._SPLIT_BYTES", 1 << 20)
    numbers = np.arange(300_000)
    batch = load(tmp_path, library.DataFrame({"a": numbers}))
    assert len(batch.splits) == 3
    assert read_table(batch).column("a").to_numpy().tolist() == numbers.tolist()


def test_the_digest_does_not_depend_on_chunks(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(100_000)), "b": ["x", None] * 50_000})
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=777))
    digest = load(tmp_path, table, digest=True).digest
    assert len(digest) == 64
    assert load(tmp_path, chunked, digest=True).digest == digest
    assert load(tmp_path, table.slice(1), digest=True).digest != digest


def test_nan_is_null_in_pandas_only(tmp_path: Path) -> None:
    assert read_table(load(tmp_path, pd.DataFrame({"x": [np.nan, 1]})))["x"].null_count == 1
    for frame in (pl.DataFrame({"x": [float("nan"), 1]}), pa.table({"x": [float("nan"), 1]})):
        column = read_table(load(tmp_path, frame))["x"]
        assert column.null_count == 0
        assert str(column[0]) == "nan"


def test_pandas_types(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "big": pd.array([2**53 + 1, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "text": pd.array(["x", None], dtype="string"),
            "kind": pd.Categorical(["x", None]),
            "when": pd.to_datetime(["2020-01-02T03:04:05.123456", None]),
            "zoned": pd.to_datetime(["2020-01-02T03:00:00+02:00", None], utc=True),
            "money": [Decimal("1.10"), None],
            "items": [[1, 2], None],
            "none": [None, None],
            1: [1, 2],
        }
    )
    table = read_table(load(tmp_path, frame))
    assert table.to_pylist()[0] == {
        "big": 2**53 + 1,
        "flag": True,
        "text": "x",
        "kind": "x",
        "when": datetime(2020, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
        "zoned": datetime(2020, 1, 2, 1, tzinfo=UTC),
        "money": Decimal("1.10"),
        "items": [1, 2],
        "none": None,
        "1": 1,
    }
    assert set(list(table.to_pylist()[1].values())[:-1]) == {None}
    assert table.schema.field("big").type == pa.int64()
    assert table.schema.field("none").type == pa.string()


def test_a_pandas_index_is_kept_if_it_has_a_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    assert read_table(load(tmp_path, frame)).column_names == ["a"]
    named = frame.rename_axis("key")
    assert read_table(load(tmp_path, named)).to_pydict() == {"key": ["x", "y"], "a": [1, 2]}
    with pytest.raises(SourceError, match="two columns with the name 'a'"):
        load(tmp_path, frame.rename_axis("a"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.5, None, True], "mixes values"),
        ([1, np.bool_(True)], "mixes values"),
        ([1, "x"], "mixes values"),
        ([date(2024, 3, 4), datetime(2024, 3, 4, 5)], "mixes values"),
        ([[date(2024, 3, 4)], None, [datetime(2024, 3, 4, 5)]], "mixes values"),
        ([{"d": date(2024, 3, 4)}, {"d": datetime(2024, 3, 4, 5)}], "mixes values"),
        ([{"d": [1.5]}, {"d": [True]}], "mixes values"),
        (["x", b"y"], "mixes values"),
        ([datetime(2024, 3, 4, tzinfo=UTC), datetime(2024, 3, 4)], "times with and without a zone"),
        ([{"d": [datetime(2024, 3, 4)]}, {"d": [ZONED]}], "times with and without a zone"),
        ([pd.Timestamp(2024, 3, 4), None, ZONED], "times with and without a zone"),
        ([datetime(2024, 3, 4), 5], "mixes values"),
        ([time(12), 1.5], "mixes values"),
        ([time(12, tzinfo=UTC)], "times of day with a zone"),
        ([pd.Timestamp("2024-03-04T00:00:00.000000001")], "microseconds can't hold"),
        ([np.datetime64("2024-03-04")], "mixes values"),
        ([2**70, 1], "more than 64 bits"),
        (pd.Categorical([date(2024, 3, 4), datetime(2024, 3, 4, 5)]), "mixes values"),
        (["\ud800"], "no Unicode"),
        (pd.period_range("2024-01", periods=2, freq="M"), "periods"),
        (pd.interval_range(0, 2), "intervals"),
        (pd.cut([1, 5], [0, 3, 6]), "intervals"),
    ],
)
def test_pandas_values_are_never_taken_for_others(
    tmp_path: Path, values: Any, message: str
) -> None:
    """Arrow makes 1 of true, a day of a date-time and a number of a month."""
    kind = object if isinstance(values, list) else None
    with pytest.raises(SourceError, match=f"column 'a.*{message}"):
        load(tmp_path, pd.DataFrame({"a": pd.Series(values, dtype=kind)}))


def test_moments_of_several_zones_are_moments(tmp_path: Path) -> None:
    times = pd.Series([datetime(2024, 3, 4, 12, tzinfo=UTC), ZONED, pd.NaT], dtype=object)
    found = read_table(load(tmp_path, pd.DataFrame({"a": times})))["a"]
    assert found.type == pa.timestamp("us", "UTC")
    assert found.to_pylist() == [datetime(2024, 3, 4, 12, tzinfo=UTC), ZONED, None]


@pytest.mark.parametrize("kind", ["pandas", "polars", "table", "records"])
def test_times_without_a_zone_are_told(tmp_path: Path, kind: str) -> None:
    rows = [{"a": datetime(2024, 3, 10, 2, 30), "s": [{"x": datetime(1900, 1, 1)}], "z": ZONED}]
    table = pa.Table.from_pylist(rows)
    frame = {"pandas": pd.DataFrame(rows), "polars": pl.from_arrow(table), "table": table}
    batch = load(tmp_path, frame.get(kind, rows))
    assert batch.notes == ("timestamps without a zone are taken as UTC: 'a', 's.element.x'",)
    found = read_table(batch)["a"].to_pylist()
    assert found == [datetime(2024, 3, 10, 2, 30, tzinfo=UTC)]
    assert load(tmp_path, pa.table({"z": [ZONED]})).notes == ()


def test_days_with_a_missing_one_stay_days(tmp_path: Path) -> None:
    days = [date(2024, 3, 4), pd.NaT]
    frame = pd.DataFrame({"a": pd.Series(days, dtype=object), "l": [days, None]})
    found = read_table(load(tmp_path, frame))
    assert found["a"].to_pylist() == [date(2024, 3, 4), None]
    assert found["l"].to_pylist() == [[date(2024, 3, 4), None], None]


def test_nanoseconds_are_not_cut_off(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": pd.to_datetime(["2020-01-01T00:00:00.123456789"])})
    with pytest.raises(SourceError, match="column 't'"):
        read_table(load(tmp_path, frame))


def test_dictionaries_that_change_between_chunks(tmp_path: Path) -> None:
    parts = [pa.table({"a": pa.array([v]).dictionary_encode()}) for v in ("x", "y")]
    table = pa.concat_tables(parts)
    assert read_table(load(tmp_path, table))["a"].to_pylist() == ["x", "y"]


def test_polars_categories_become_text(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "kind": pl.Series(["x", None], dtype=pl.Categorical),
            "size": pl.Series(["S", "M"], dtype=pl.Enum(["S", "M"])),
            "kinds": pl.Series([["x", None], None], dtype=pl.List(pl.Categorical)),
        }
    )
    assert read_table(load(tmp_path, frame)).to_pylist() == [
        {"kind": "x", "size": "S", "kinds": ["x", None]},
        {"kind": None, "size": "M", "kinds": None},
    ]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"p": [1j]}), "'p'.*complex128"),
        (pl.DataFrame({"p": pl.Series([object()], dtype=pl.Object)}), "'p'.*Python objects"),
        (pl.DataFrame({"p": pl.Series([1], dtype=pl.Int128)}), "'DataFrame' can't be read"),
        (pl.Series("p", [1]), "'Series' can't be read"),
    ],
)
def test_what_arrow_does_not_hold_is_refused(tmp_path: Path, frame: Any, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        load(tmp_path, frame)


def test_empty_frames_keep_their_columns(tmp_path: Path) -> None:
    for frame in (
        pd.DataFrame({"a": pd.array([], "int64")}),
        pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)}),
    ):
        batch = load(tmp_path, frame)
        assert batch.records == 0
        assert read_table(batch).schema == pa.schema([("a", pa.int64())])


def test_names_and_types_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="'d'"):
        load(tmp_path, pa.table({"d": pa.array([1], pa.duration("s"))}))
    double = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InputError, match="'a'"):
        load(tmp_path, double)


def test_a_spool_that_a_task_can_not_see(tmp_path: Path) -> None:
    batch = load(tmp_path, pa.table({"a": [1]}))
    Path(batch.splits[0].uri).unlink()
    with pytest.raises(SourceError, match="spool_uri"):
        read_table(batch)
