"""Types of Spark and of our engine on it, for annotations; a program that runs imports none."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext as SparkContext
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.streaming.query import StreamingQuery as StreamingQuery

    from lakeport.engine.spark.delta.rows import DeltaRows as DeltaRows
    from lakeport.engine.spark.delta.session import DeltaSession as DeltaSession
    from lakeport.engine.spark.delta.session import LogStoreProbe as LogStoreProbe
    from lakeport.engine.spark.engine import SparkEngine as SparkEngine
    from lakeport.engine.spark.jobs import Reading as Reading
