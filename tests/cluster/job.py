"""A PySpark job that lands its own frame, a stream and a folder: run by `test_submit.py`."""

from __future__ import annotations

import io
import json
import os
import sys

from pyspark.sql import SparkSession

import lakeport
from lakeport.errors import ConfigError

bucket = os.environ["JOB_BUCKET"]
target = {"destination": "amazon_s3", "bucket": bucket, "object_key_path": "lake"}
spool = f"s3://{bucket}/spool"
found = {}

# Nobody has built a session yet: lakeport builds that of `spark-submit`.
files = lakeport.land(f"s3://{bucket}/in/*.csv", to=target, spool_uri=spool, table="files")
found["files"] = files.rows

spark = SparkSession.builder.getOrCreate()
found["name"] = spark.sparkContext.appName
frame = spark.range(1000, numPartitions=3).withColumnRenamed("id", "number")
found["frame"] = lakeport.land(frame, to=target, table="frame").rows

lines = [json.dumps({"type": "SCHEMA", "stream": "s", "schema": {"properties": {"n": {}}}})]
lines += [json.dumps({"type": "RECORD", "stream": "s", "record": {"n": n}}) for n in range(5)]
stream = io.BytesIO("\n".join(lines).encode() + b"\n")
found["stream"] = lakeport.land(stream, to=target, spool_uri=spool).rows

delta = {**target, "destination": "delta_lake_s3"}
found["delta"] = lakeport.land(frame, to=delta, table="delta").rows
try:
    # Only delta-spark does this.
    lakeport.land(frame, to=delta, table="mine", table_properties={"delta.appendOnly": "true"})
except ConfigError as error:
    found["lacks"] = str(error)

# Somebody else's session goes on.
found["after"] = spark.range(7).count()
json.dump(found, sys.stdout)
spark.stop()
