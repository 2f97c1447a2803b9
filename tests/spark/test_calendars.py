"""Files of the hybrid calendar, as Spark writes them, are read as Spark's own reader has them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeport
from lakeport.config.sources import TablesSource
from lakeport.errors import DestinationError, SourceError
from lakeport.schema.rebase import HybridCalendar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.engine.spark.session import DriverSession

ZONES = ["UTC", "America/Los_Angeles", "Asia/Kathmandu"]
DAYS = ["0001-01-01", "1001-01-01", "1500-02-28", "1582-10-04", "1582-10-15", "1600-02-29"]
DAYS += ["1850-06-01", "1899-12-31", "1969-12-31", "2024-05-01", "9999-12-31"]
COLUMNS = """SELECT id, d, t, array(d, NULL) ds, named_struct('d', d, 't', array(t)) s,
    map('k', t) mt, map(d, 'k') md, local FROM days"""
PARQUET = {
    "micros": {"outputTimestampType": "TIMESTAMP_MICROS", "datetimeRebaseModeInWrite": "LEGACY"},
    "millis": {"outputTimestampType": "TIMESTAMP_MILLIS", "datetimeRebaseModeInWrite": "LEGACY"},
    "int96": {
        "outputTimestampType": "INT96",
        "int96RebaseModeInWrite": "LEGACY",
        "datetimeRebaseModeInWrite": "LEGACY",
    },
    "int96 alone": {
        "outputTimestampType": "INT96",
        "int96RebaseModeInWrite": "LEGACY",
        "datetimeRebaseModeInWrite": "CORRECTED",
    },
    "dates alone": {
        "outputTimestampType": "INT96",
        "int96RebaseModeInWrite": "CORRECTED",
        "datetimeRebaseModeInWrite": "LEGACY",
    },
}
_VERSION = b"org.apache.spark.version"

day_numbers = st.integers(-719_164, -130_000) | st.integers(-719_164, 2_932_896)


@pytest.fixture
def legacy(driver: DriverSession) -> Callable[..., SparkSession]:
    """Make a session with a time zone and settings of Parquet."""

    def session(zone: str, **parquet: str) -> SparkSession:
        own = driver.spark.newSession()
        own.conf.set("spark.sql.session.timeZone", zone)
        own.conf.set("spark.sql.avro.datetimeRebaseModeInWrite", "LEGACY")
        for name, value in parquet.items():
            own.conf.set(f"spark.sql.parquet.{name}", value)
        rows = ", ".join(f"({i}, '{day}')" for i, day in enumerate(DAYS))
        own.sql(
            f"""SELECT id, CAST(x AS DATE) d,
            CAST(IF(x < '1900', NULL, x || ' 12:34:56.123456') AS TIMESTAMP) t,
            CAST(x || ' 12:34:56.123456' AS TIMESTAMP_NTZ) local FROM VALUES {rows} AS v(id, x)"""
        ).createOrReplaceTempView("days")
        return own

    return session


def by_spark(session: SparkSession, format_: str, path: str) -> list[dict[str, Any]]:
    """The rows as Spark's own reader has them, by way of a plain file that needs no rebasing."""
    own = session.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    own.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    own.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
    plain = f"{path}-plain"
    own.read.format(format_).load(path).coalesce(1).write.mode("overwrite").parquet(plain)
    rows: list[dict[str, Any]] = pq.read_table(plain).sort_by("id").to_pylist()
    return rows


def landed(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table in `lake/t`, of the source's columns."""
    place = folder / "lake" / "t"
    is_delta = (place / "_delta_log").exists()
    table = deltalake.DeltaTable(place).to_pyarrow_table() if is_delta else pq.read_table(place)
    own = [name for name in table.column_names if not name.startswith("_mage_")]
    rows: list[dict[str, Any]] = table.select(own).sort_by("id").to_pylist()
    return rows


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Local timestamps as lakeport takes them: in UTC."""
    return [row | {"local": row["local"].replace(tzinfo=dt.UTC)} for row in rows]


@pytest.mark.parametrize(
    ("kind", "zone", "file_type"),
    [
        *zip(PARQUET, [*ZONES[1:], *ZONES], cycle(["parquet", "delta"])),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in product(PARQUET, ZONES, ["parquet", "delta"])
        ),
    ],
)
def test_parquet(
    legacy: Callable[..., SparkSession], tmp_path: Path, kind: str, zone: str, file_type: str
) -> None:
    session = legacy(zone, **PARQUET[kind])
    source = str(tmp_path / "in")
    session.sql(COLUMNS).coalesce(1).write.parquet(source)
    lakeport.land(source, tmp_path / "lake", table="t", file_type=file_type)
    rows = landed(tmp_path)
    assert rows == comparable(by_spark(session, "parquet", source))
    assert [row["d"].isoformat() for row in rows] == DAYS
    assert [row["ds"][0].isoformat() for row in rows] == DAYS
    assert [row["md"][0][0].isoformat() for row in rows] == DAYS


@settings(max_examples=4, deadline=None, suppress_health_check=[*HealthCheck])
@given(days=st.lists(day_numbers, min_size=80, max_size=80))
def test_any_day_of_spark_2(driver: DriverSession, tmp_path: Path, days: list[int]) -> None:
    days = [*days, 0, -141_427, -141_428, -719_164, -171_595, -171_596]
    table = pa.table({"d": pa.array(days, pa.int32()).view(pa.date32())})
    path = tmp_path / "t.parquet"
    pq.write_table(table.replace_schema_metadata({_VERSION: b"2.4.8"}), path)
    expected = driver.spark.read.parquet(str(path)).selectExpr("unix_date(d)").collect()
    calendar = HybridCalendar.of_parquet(pq.read_metadata(path))
    assert calendar is not None
    (batch,) = pq.ParquetFile(path).iter_batches()
    rebased = calendar.rebase(batch)
    assert [day for (day,) in expected] == rebased["d"].view(pa.int32()).to_pylist()


def test_a_delta_table_is_merged_shown_and_read(
    legacy: Callable[..., SparkSession], tmp_path: Path
) -> None:
    session = legacy("America/Los_Angeles", **PARQUET["micros"])
    place = tmp_path / "lake" / "t"
    session.sql("SELECT id, d, t FROM days").coalesce(1).write.format("delta").save(str(place))
    expected = {row["id"]: row for row in by_spark(session, "delta", str(place))}
    shown = lakeport.Table(place).preview(100).to_pylist()
    assert {row["id"]: row for row in shown} == expected
    change = pa.table({"id": pa.array([0], pa.int32()), "d": [dt.date(1002, 2, 3)], "t": [None]})
    change = change.set_column(2, "t", pa.array([None], pa.timestamp("us", "UTC")))
    lakeport.land(
        change, tmp_path / "lake", table="t", file_type="delta", mode="merge", merge_keys=["id"]
    )
    expected[0] = {"id": 0, "d": dt.date(1002, 2, 3), "t": None}
    assert {row["id"]: row for row in landed(tmp_path)} == expected


@pytest.mark.parametrize(
    ("kind", "incremental"),
    [("micros", True), pytest.param("int96", False, marks=pytest.mark.soak)],
)
def test_a_delta_table_is_a_source(
    legacy: Callable[..., SparkSession], tmp_path: Path, kind: str, incremental: bool
) -> None:
    """As a whole, and by what changes in it."""
    session = legacy("America/Los_Angeles", **PARQUET[kind])
    place = str(tmp_path / "from")
    session.sql(
        f"CREATE TABLE delta.`{place}` (id INT, d DATE, t TIMESTAMP, s STRUCT<d: DATE>) "
        "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    rows_of = "SELECT id, d, t, named_struct('d', d) FROM days WHERE id"
    keys: Any = {"mode": "merge", "merge_keys": ["id"]} if incremental else {"mode": "overwrite"}
    for change in (
        f"INSERT INTO {{}} {rows_of} < 5",
        f"INSERT INTO {{}} {rows_of} >= 5",
        "UPDATE {} SET t = t + INTERVAL 1 DAY WHERE id < 3",
    ):
        session.sql(change.format(f"delta.`{place}`"))
        source = TablesSource(tables=[place], incremental=incremental)
        lakeport.land(source, tmp_path / "lake", table="t", **keys)
        rows = landed(tmp_path)
        assert rows == by_spark(session, "delta", place)
    assert [row["d"].isoformat() for row in rows] == DAYS
    assert [row["s"]["d"].isoformat() for row in rows] == DAYS


def test_a_merge_refuses_old_timestamps(tmp_path: Path) -> None:
    place = tmp_path / "t"
    rows = pa.table({"id": [1], "t": pa.array([-(10**16)], pa.timestamp("us", "UTC"))})
    lakeport.land(rows, tmp_path, table="t", file_type="delta")
    (file,) = place.glob("*.parquet")
    size = file.stat().st_size
    old = rows.replace_schema_metadata({_VERSION: b"2.4.8"})
    pq.write_table(old, file)
    log = place / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))
    with pytest.raises(DestinationError, match="'t' holds timestamps before 1900"):
        lakeport.land(rows, tmp_path, table="t", file_type="delta", mode="merge", merge_keys=["id"])


def test_files_with_old_timestamps_are_refused(tmp_path: Path) -> None:
    old = pa.table({"t": pa.array([[-(10**16)]], pa.list_(pa.timestamp("us", "UTC")))})
    pq.write_table(old.replace_schema_metadata({_VERSION: b"2.4.8"}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match=r"column 't\.element' holds timestamps before 1900"):
        lakeport.land(tmp_path / "t.parquet", tmp_path / "lake", table="t")


def test_orc(legacy: Callable[..., SparkSession], tmp_path: Path) -> None:
    session = legacy("UTC")
    new, old = str(tmp_path / "new"), str(tmp_path / "old")
    columns = "id, d, array(d, NULL) ds, timestamp '1953-06-01 12:34:56.123456' local"
    frame = session.sql(f"SELECT {columns} FROM days").coalesce(1)
    frame.where("d >= '1582-10-15'").write.orc(new)
    lakeport.land(new, tmp_path / "lake", table="t")
    rows = landed(tmp_path)
    assert rows == by_spark(session, "orc", new)
    assert [row["d"].isoformat() for row in rows] == DAYS[4:]
    frame.write.orc(old)
    with pytest.raises(SourceError, match="column 'd' holds dates before 1582-10-15"):
        lakeport.land(old, tmp_path / "lake", table="t")
