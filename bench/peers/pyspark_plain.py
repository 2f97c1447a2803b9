"""What a Spark job written by hand does. `FILE TARGET parquet|delta`."""

import sys

from pyspark.sql import SparkSession

RECORD = (
    "id BIGINT, name STRING, email STRING, amount DOUBLE, active BOOLEAN, created_at TIMESTAMP, "
    "day DATE, tags ARRAY<STRING>, "
    "address STRUCT<city: STRING, zip: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>>, score BIGINT"
)
source, target, format_ = sys.argv[1:4]
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
if format_ == "delta":
    from delta import configure_spark_with_delta_pip

    builder = configure_spark_with_delta_pip(
        builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
            "spark.sql.catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        )
    )
spark = builder.getOrCreate()
lines = spark.read.schema(f"type STRING, record STRUCT<{RECORD}>").json(source)
lines.where("type = 'RECORD'").select("record.*").write.format(format_).save(target)
spark.stop()
