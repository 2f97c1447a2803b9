"""Land a Kafka topic of JSON values in a Delta table, with Spark's own connector.

    python examples/streaming/kafka.py BROKER:9092 TOPIC ./lake ./checkpoint

Spark fetches the connector when the session starts. Each record keeps its place in the topic
(`partition`, `offset`), so that readers can tell where a row came from.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import lakeport

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
VALUE = "id LONG, name STRING"
ROWS_AT_ONCE = 100_000


def topic(brokers: str, name: str) -> Any:
    """What `land_stream` takes: a function that makes the stream in a session."""

    def frame(spark: Any) -> Any:
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", brokers)
            .option("subscribe", name)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", ROWS_AT_ONCE)
            .load()
        )
        return records.selectExpr(
            f"from_json(CAST(value AS STRING), '{VALUE}') AS v", "partition", "offset", "timestamp"
        ).select("v.*", "partition", "offset", "timestamp")

    return frame


def main(brokers: str, name: str, lake: str, checkpoint: str) -> None:
    """Land what is in the topic now."""
    jars = os.environ.get("KAFKA_JARS")  # files, with commas: for machines without a network
    spark = {"spark.jars": jars} if jars else {"spark.jars.packages": CONNECTOR}
    stream = lakeport.land_stream(
        topic(brokers, name),
        lake,
        table=name,
        file_type="delta",
        checkpoint=checkpoint,
        available_now=True,
        spark=spark,
    )
    stream.wait()
    print(f"{stream.report.rows} rows in {stream.report.seconds:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
