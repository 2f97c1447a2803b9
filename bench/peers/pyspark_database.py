"""What a Spark job written by hand does, over one connection. `URI TABLE TARGET JARS`.

It resolves PostgreSQL's driver by `spark.jars.packages`, as most jobs do.
"""

import sys

from pyspark.sql import SparkSession

uri, table, target, jars = sys.argv[1:5]
settings = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.jars": jars,
    "spark.jars.packages": "org.postgresql:postgresql:42.7.7",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.v2.enableMode": "NONE",
}
builder = SparkSession.builder.master("local[*]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
options = {"url": uri, "dbtable": table, "driver": "org.postgresql.Driver", "fetchsize": "10000"}
rows = spark.read.format("jdbc").options(**options).load()
rows.write.format("delta").save(target)
spark.stop()
