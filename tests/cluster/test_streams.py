"""Streams, merges and upkeep of tables on a cluster: work that no task shares a disk with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import lakeport
from lakeport.engine.spark.session import DriverSession
from tests.cluster.conftest import Bucket
from tests.streaming.kit import until

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def rate(spark: Any) -> Any:
    source = spark.readStream.format("rate").option("rowsPerSecond", 200)
    return source.option("numPartitions", 4).load()


def test_streams_go_on_from_checkpoints_in_the_store(bucket: Bucket) -> None:
    def start(destination: str, table: str) -> lakeport.LandingStream:
        place = f"s3://{bucket.name}/checkpoints/{table}"
        target = bucket.target(destination, table=table)
        return lakeport.land_stream(rate, target, checkpoint=place, trigger=0.5)

    def run() -> list[lakeport.LandingStream]:
        streams = [start("delta_lake_s3", "delta"), start("amazon_s3", "files")]
        until(lambda: all(stream.report.rows >= 200 for stream in streams))
        for stream in streams:
            stream.stop()
        return streams

    runs = list(zip(run(), run(), strict=True))
    assert all(first.id == again.id for first, again in runs)
    landed = [first.report.rows + again.report.rows for first, again in runs]
    delta = bucket.delta("delta").to_pyarrow_table()
    for table, rows in zip((delta, bucket.rows("files")), landed, strict=True):
        assert sorted(table["value"].to_pylist()) == list(range(rows))
    for table in ("delta", "files"):
        assert bucket.objects(f"checkpoints/{table}/commits/")

    # The table that the stream left: some of its rows change, then its small files are merged.
    driver = DriverSession._current
    assert driver is not None
    changed = f"{LONG_AGO:%Y-%m-%d %H:%M:%S}"
    frame = driver.spark.range(100, numPartitions=4).selectExpr(
        "CASE WHEN id < 90 THEN id ELSE -id END AS value", f"TIMESTAMP '{changed}' AS timestamp"
    )
    report = bucket.land(frame, "delta_lake_s3", table="delta", mode="merge", merge_keys=["value"])
    assert report.rows == 100
    table = lakeport.Table("delta", to=bucket.target("delta_lake_s3"))
    before = len(bucket.delta("delta").file_uris())
    table.optimize()
    found = bucket.delta("delta")
    assert len(found.file_uris()) < before
    times = {row["value"]: row["timestamp"] for row in found.to_pyarrow_table().to_pylist()}
    assert set(times) == {*range(-99, -89), *range(landed[0])}
    old = {value for value, time in times.items() if time == LONG_AGO}
    assert old == {*range(-99, -89), *range(90)}
    assert found.to_pyarrow_table().num_rows == landed[0] + 10
