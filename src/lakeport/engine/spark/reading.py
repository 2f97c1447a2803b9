"""A Spark frame over what a function reads in its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from lakeport.engine.spark.jobs import attempt_number, mapped
from lakeport.engine.sql.frames import spark_schema
from lakeport.engine.tasks import Outcome, Policy

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.engine.spark.session import DriverSession

T = TypeVar("T")


class Reading(Generic[T]):
    """A frame whose tasks read one item each.

    A task that fails ends as if there were no more rows, as Spark would log whatever it raises:
    ask `check` once the frame was run, and before anything is made of its rows.

    Args:
        session: Spark.
        spark: the session that the frame is to be of.
        schema: the columns, of types that tables have.
        items: pickled into the tasks.
        read: pickled into the tasks; gives an item's rows, of just these columns.

    Attributes:
        frame: not run yet.
    """

    def __init__(
        self,
        session: DriverSession,
        spark: SparkSession,
        schema: pa.Schema,
        items: Sequence[T],
        read: Callable[[T], Iterator[pa.RecordBatch]],
    ) -> None:
        from pyspark.accumulators import AccumulatorParam

        class Outcomes(AccumulatorParam[list[Outcome]]):
            def zero(self, value: list[Outcome]) -> list[Outcome]:
                return []

            def addInPlace(  # noqa: N802  # as pyspark calls it
                self, one: list[Outcome], other: list[Outcome]
            ) -> list[Outcome]:
                return one + other

        self._failed: Accumulator[list[Outcome]] = session.context.accumulator([], Outcomes())
        policy = Policy(session.attempts, surroundings=session.surroundings)
        task = partial(_read, read, list(items), policy, self._failed)
        count = max(1, len(items))
        columns = spark_schema(schema)
        self.frame: DataFrame = mapped(spark.range(0, count, 1, count), task, columns)

    def check(self) -> None:
        """See that all tasks so far have read their items.

        Raises:
            LakeportError: what the first of those that failed raised.
        """
        for outcome in sorted(self._failed.value, key=lambda outcome: outcome.task):
            outcome.check()

    def close(self) -> None:
        """Let go of what tasks report to; the frame is not run any more."""
        from pyspark.accumulators import _accumulatorRegistry

        _accumulatorRegistry.pop(self._failed.aid, None)


def _read(
    read: Callable[[T], Iterator[pa.RecordBatch]],
    items: list[T],
    policy: Policy,
    failed: Accumulator[list[Outcome]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    if policy.surroundings is not None:
        policy.surroundings.take()
    for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
        if number >= len(items):
            return
        try:
            yield from read(items[number])
        except Exception as error:
            failed += [policy.failed(number, attempt_number(), error)]
            return
