from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

import lakeport
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


ZONELESS = """
    select timestamp_ntz'2024-03-10 02:30:00.123456' as `w.x`, null as n,
        named_struct('at', timestamp_ntz'1899-12-31 23:59:59.999999', 'n', 1) as s,
        array(array(timestamp_ntz'0001-01-01 00:00:00', null), null) as l,
        map(timestamp_ntz'2024-11-03 01:30:00', struct(timestamp_ntz'9999-12-31 23:59:59')) as m,
        map('k', null) as v, timestamp'2024-03-10 10:00:00Z' as seen
    union all select null, null, null, null, null, null, null
"""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_naive_timestamps_are_utc_in_every_session(
    driver: DriverSession, zone: str, tmp_path: Path
) -> None:
    spark = driver.spark
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        # 02:30 does not exist on that day in New York, and 01:30 twice in November
        frame = spark.sql(ZONELESS)
        (flush,) = frame_flushes(frame, "t", Path("unused"))
        batch = flush.batches[0]
        assert "ntz" not in normal(frame).schema.simpleString()
        report = lakeport.land(frame, tmp_path, table="t", internal_columns=False)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    told = "timestamps without a zone are taken as UTC: 'w.x', 's.at', 'l.element.element', "
    assert batch.notes == (told + "'m.key', 'm.value.col1'",)
    assert report.streams[0].notes == batch.notes
    assert {*batch.untyped} == {"n", "v"}
    row, nulls = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by("seen").to_pylist()
    assert {*nulls.values()} == {None}
    assert row["w.x"] == datetime(2024, 3, 10, 2, 30, 0, 123456, tzinfo=UTC)
    assert row["s"] == {"at": datetime(1899, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "n": 1}
    assert row["l"] == [[datetime(1, 1, 1, tzinfo=UTC), None], None]
    last = {"col1": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)}
    assert row["m"] == [(datetime(2024, 11, 3, 1, 30, tzinfo=UTC), last)]
    assert row["seen"] == datetime(2024, 3, 10, 10, tzinfo=UTC)


def test_what_no_table_stores_is_refused_by_name(driver: DriverSession) -> None:
    with pytest.raises(SourceError, match="column 'gap' has the Spark type interval"):
        normal(driver.spark.sql("select interval 1 day as gap, 1 as id"))
    with pytest.raises(InputError, match="'id'"):
        normal(driver.spark.sql("select 1 as id, 2 as id"))
    with pytest.raises(InputError, match="'Id'"):
        normal(driver.spark.sql("select 1 as id, 2 as Id"))
