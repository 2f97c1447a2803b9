"""What a Spark job written by hand does: a Delta table on S3. `FILE TARGET JARS`."""

import os
import sys

from pyspark.sql import SparkSession

RECORD = (
    "id BIGINT, name STRING, email STRING, amount DOUBLE, active BOOLEAN, created_at TIMESTAMP, "
    "day DATE, tags ARRAY<STRING>, "
    "address STRUCT<city: STRING, zip: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>>, score BIGINT"
)
source, target, jars = sys.argv[1:4]
settings = {
    "spark.ui.enabled": "false",
    "spark.jars": jars,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.v2.enableMode": "NONE",
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
lines = spark.read.schema(f"type STRING, record STRUCT<{RECORD}>").json(source)
lines.where("type = 'RECORD'").select("record.*").write.format("delta").save(target)
spark.stop()
