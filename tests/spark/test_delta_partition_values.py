"""Hard partition values: Spark, delta-rs and DuckDB read the same rows; filters find each."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from delta_support import land, session, writer
from deltalake import DeltaTable
from pyspark.sql.functions import col

import lakeport
from lakeport.engine.spark.jvm.versions import installed_build
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.sql.frames import collect_arrow
from lakeport.errors import ConfigError, DestinationError, InputError

HARD = [
    "a b",
    "a:b",
    "a/b",
    "100%",
    "%2F",
    "a=b",
    "é\u00a0",
    "🦀",
    "..",
    "\n",
    "\\",
    "x" * 300,
    None,
]


def test_hard_values_are_read_identically(tmp_path: Path) -> None:
    into = writer(tmp_path)
    at = pa.array([datetime(2024, 1, 1, 10, n, tzinfo=UTC) for n in range(len(HARD) + 1)])
    texts = [*HARD, ""]
    table = pa.table({"p": texts, "at": at.cast(pa.timestamp("us", "UTC")), "n": range(len(texts))})
    landed = land(into, table, keys=["p", "at"])
    assert "1 rows have an empty text" in landed.warnings[0]
    expected = {(n, text or None) for n, text in enumerate(texts)}
    path = str(tmp_path / "t")
    frame = session().read.format("delta").load(path)
    assert {(r.n, r.p) for r in frame.select("n", "p").collect()} == expected
    assert {r.n: r.at for r in frame.collect()}.keys() == set(range(len(texts)))
    arrow = collect_arrow(frame.select("n", "at")).sort_by("n")
    assert arrow.column("at").to_pylist() == table.column("at").to_pylist()
    found = DeltaTable(path).to_pyarrow_table()
    assert {(r["n"], r["p"]) for r in found.to_pylist()} == expected
    assert found.sort_by("n").column("at").to_pylist() == table.column("at").to_pylist()
    assert frame.where(col("p") == "a/b").select("n").collect()[0].n == 2
    files = [uri.removeprefix("file://") for uri in DeltaTable(path).file_uris()]
    total = duckdb.execute(
        "select count(*) from read_parquet(?)", [[f for f in files if Path(f).is_file()]]
    ).fetchone()
    assert total is not None
    assert total[0] >= 1
    again = land(into, table.slice(0, 3), mode="overwrite", keys=["p", "at"])
    assert again.removed_files == 3
    assert DeltaTable(path).to_pyarrow_table().num_rows == len(texts)
    assert session().read.format("delta").load(path).count() == len(texts)


def test_filters_skip_no_row(tmp_path: Path) -> None:
    into = writer(tmp_path)
    texts = ["a" * 40, "a" * 40 + "b", "z\U0010ffff" * 30]
    for n, text in enumerate(texts):
        moment = datetime(2024, 1, 1, 0, 0, 0, 1500 + n, tzinfo=UTC)
        land(
            into,
            pa.table(
                {
                    "t": [text],
                    "at": pa.array([moment], pa.timestamp("us", "UTC")),
                    "f": [float("nan") if n == 1 else 1.0],
                    "s": pa.array([{"x": n}]),
                }
            ),
        )
    frame = session().read.format("delta").load(str(tmp_path / "t"))
    for text in texts:
        assert frame.where(col("t") == text).count() == 1
    assert frame.where("at > timestamp'2024-01-01 00:00:00.001501'").count() == 1
    assert frame.where("f > 5").count() == 1
    assert frame.where("s.x >= 1").count() == 2


@pytest.mark.skipif(installed_build().minor < "4", reason="Delta 3.3 widens no such types")
def test_wider_types_beside_overwritten_partitions(tmp_path: Path) -> None:
    into = writer(tmp_path, type_widening=True)

    def replace(parts: list[Any], part: pa.DataType, number: Any, type_: pa.DataType) -> None:
        numbers = pa.array([number] * len(parts), type_)
        rows = pa.table({"p": pa.array(parts, part), "n": numbers})
        land(into, rows, mode="overwrite", keys=["p"])

    def found() -> list[tuple[Any, ...]]:
        frame = session().read.format("delta").load(str(tmp_path / "t"))
        return sorted(((row.p, row.n) for row in frame.collect()), key=str)

    replace([1, 2, None], pa.int32(), 7, pa.int32())
    replace([1], pa.int32(), 2**40, pa.int64())
    assert found() == [(1, 2**40), (2, 7), (None, 7)]
    with pytest.raises(ConfigError, match="'p' is double, which can't be a partition column"):
        replace([1.0], pa.float64(), 8, pa.int64())
    replace([2, 2**40], pa.int64(), 8, pa.int64())
    assert found() == [(1, 2**40), (2**40, 8), (2, 8), (None, 7)]
    wide = pa.decimal128(24, 2)
    replace([Decimal("2.00"), Decimal("0.25")], wide, 9, pa.int32())
    replace([1, None], pa.int32(), 10, pa.int32())
    replace([Decimal(2**40)], wide, 11, pa.int32())
    quarter, two = Decimal("0.25"), Decimal("2.00")
    assert found() == [(quarter, 9), (1, 10), (2**40, 11), (two, 9), (None, 10)]


def test_spark_makes_no_null_of_the_text_for_one(tmp_path: Path, driver: DriverSession) -> None:
    """Delta's own writer takes partitions from the folders that it writes."""
    text, rows = "__HIVE_DEFAULT_PARTITION__", list[dict[str, Any]]()
    for n in range(2):
        more = [{"id": 10 * n + i, "p": p} for i, p in enumerate((text, None, "x"))]
        lakeport.land(
            more, tmp_path / "lake", table="t", partition_keys="p", internal_columns=False
        )
        rows += more
    place = tmp_path / "lake" / "t"
    done = lakeport.Table(place).optimize()
    assert (done.files_removed, done.files_added) == (4, 2)
    assert lakeport.Table(place).optimize(where="p = 'x' -- all").files_removed == 0
    found = DeltaTable(str(place))
    assert found.to_pyarrow_table().sort_by("id").to_pylist() == rows
    found.alter.add_constraint({"c": "id >= 0"})  # Spark alone commits to it
    # A change of other rows may write these anew.
    change = {"mode": "merge", "merge_keys": "id"}
    for new in ({"id": 0, "p": "x"}, {"id": 99, "p": "x"}):
        with pytest.raises(DestinationError, match="of the table has '__HIVE") as refused:
            lakeport.land([new], tmp_path / "lake", table="t", internal_columns=False, **change)
        assert "nothing was committed" in refused.value.hint
    assert found.to_pyarrow_table().sort_by("id").to_pylist() == rows
    session().sql(f"UPDATE delta.`{place}` SET p = 'y' WHERE p = '{text}'")
    lakeport.land(
        [{"id": 0, "p": "x"}], tmp_path / "lake", table="t", internal_columns=False, **change
    )
    changed = [{**row, "p": "y" if row["p"] == text else row["p"]} for row in rows]
    landed = DeltaTable(str(place)).to_pyarrow_table().sort_by("id").to_pylist()
    assert landed == [{"id": 0, "p": "x"}, *changed[1:]]
    for keys in ({}, {"mode": "merge", "merge_keys": "id"}):
        with pytest.raises(InputError, match="which Spark writes as null"):
            lakeport.land(
                [{"id": 99, "p": text}],
                tmp_path / "lake",
                table="t",
                internal_columns=False,
                **keys,
            )
