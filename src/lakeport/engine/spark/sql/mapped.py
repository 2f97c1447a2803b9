"""Frames whose rows a Python function makes, batch by batch of Arrow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["mapped"]


def mapped(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """What `DataFrame.mapInArrow` gives, which asks for pandas and makes no use of it.

    The function gets the columns under their numbers.
    """
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    # A dot or backtick in a name would be taken for a part of an expression.
    numbers = [str(number) for number in range(len(frame.columns))]
    plain = frame.toDF(*numbers) if numbers else frame
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column: Any = UserDefinedFunction(function, schema, evalType=kind)(
        *map(plain.__getitem__, numbers)
    )
    return DataFrame(plain._jdf.mapInArrow(column._jc, False, None), plain.sparkSession)
