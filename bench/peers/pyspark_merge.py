"""What a Spark job written by hand does: Delta's MERGE of a Parquet file's rows by `id`.

`CHANGES TABLE_FOLDER JARS`.
"""

import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

changes, target, jars = sys.argv[1:4]
settings = {
    "spark.ui.enabled": "false",
    "spark.jars": jars,
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.v2.enableMode": "NONE",
}
builder = SparkSession.builder.master("local[*]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
merge = DeltaTable.forPath(spark, target).alias("target")
merge = merge.merge(spark.read.parquet(changes).alias("source"), "target.id = source.id")
merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
spark.stop()
