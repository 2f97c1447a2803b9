"""What a Spark job written by hand does. `FILE FORM TARGET parquet|delta JARS`.

It gets its jars as files, which spares it the seconds that resolving `spark.jars.packages` takes.
"""

import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

source, form, target, format_, jars = sys.argv[1:6]
BASE = (
    "id BIGINT, name STRING, email STRING, amount DOUBLE, active BOOLEAN, created_at TIMESTAMP, "
    "day DATE"
)
ADDRESS = "STRUCT<city: STRING, zip: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>>"
RECORD = f"{BASE}, tags ARRAY<STRING>, address {ADDRESS}, score BIGINT"
FLAT = f"{BASE}, score BIGINT, city STRING, zip STRING, lat DOUBLE, lon DOUBLE"
settings = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.jars": jars,
    "spark.sql.session.timeZone": "UTC",
}
if format_ == "delta":
    settings |= {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.v2.enableMode": "NONE",
    }
if target.startswith("s3://"):
    target = target.replace("s3://", "s3a://", 1)
    settings |= {
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_REGION"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
    }
builder = SparkSession.builder.master("local[*]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
if form == "singer":
    lines = spark.read.schema(f"type STRING, record STRUCT<{RECORD}>").json(source)
    rows = lines.where("type = 'RECORD'").select("record.*")
elif form == "frame":
    rows = spark.createDataFrame(pa.ipc.open_file(pa.memory_map(source)).read_all())
elif form == "csv declared":
    rows = spark.read.schema(FLAT).csv(source, header=True)
else:
    rows = spark.read.csv(source, header=True, inferSchema=True)
rows.write.format(format_).save(target)
spark.stop()
