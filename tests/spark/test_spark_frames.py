from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeport.engine.sql.frames import collect_arrow
from lakeport.errors import InputError, SourceError
from lakeport.sources.frames import frame_flushes, is_spark_frame

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession


def normal(frame: Any) -> Any:
    (flush,) = frame_flushes(frame, "t", Path("unused"))
    batch = flush.batches[0]
    assert batch.reader is None
    return batch.frame


def test_a_frame_of_plain_types_is_handed_on_as_it_is(driver: DriverSession) -> None:
    frame = driver.spark.sql("select 1 as id, 'x' as `a.b`, array(map('k', 1.5d)) as l")
    assert is_spark_frame(frame)
    assert normal(frame) is frame


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_naive_timestamps_are_utc_in_every_session(driver: DriverSession, zone: str) -> None:
    spark = driver.spark
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        # 02:30 does not exist on that day in New York
        frame = spark.sql("select timestamp_ntz'2024-03-10 02:30:00.123456' as `w.x`, null as n")
        assert normal(frame).schema.simpleString() == "struct<w.x:timestamp,n:string>"
        table: pa.Table = collect_arrow(normal(frame))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    (row,) = table.cast(
        pa.schema([("w.x", pa.timestamp("us", "UTC")), ("n", pa.string())])
    ).to_pylist()
    assert row == {"w.x": datetime(2024, 3, 10, 2, 30, 0, 123456, tzinfo=UTC), "n": None}


def test_what_no_table_stores_is_refused_by_name(driver: DriverSession) -> None:
    with pytest.raises(SourceError, match="column 'gap' has the Spark type interval"):
        normal(driver.spark.sql("select interval 1 day as gap, 1 as id"))
    with pytest.raises(InputError, match="'id'"):
        normal(driver.spark.sql("select 1 as id, 2 as id"))
    with pytest.raises(InputError, match="'Id'"):
        normal(driver.spark.sql("select 1 as id, 2 as Id"))
