"""Spark's types under the names that annotations use; nothing is imported when a program runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext as SparkContext
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.streaming.query import StreamingQuery as StreamingQuery
