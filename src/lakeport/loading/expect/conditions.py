"""Expectations as expressions of Spark's, which tell of each row whether it fails.

A frame gets one more column of bits, one bit for each expectation that the row does not meet. Keys
of other rows and tables are joined to it, so that all of them are told in one run of the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.expectations import Expectation
from lakeport.engine.spark.causes import java_messages
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.jvm.classes import java_class
from lakeport.engine.spark.quoting import quoted
from lakeport.engine.spark.sql.query import refused
from lakeport.errors import ConfigError
from lakeport.loading.expect.verdict import no_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["MASK", "masked"]

MASK: Final = "lakeport failed expectations"
"""The column of bits, the last one."""


def masked(
    frame: DataFrame,
    expected: Sequence[Expectation],
    others: Mapping[str, DataFrame],
    known: DataFrame | None,
) -> DataFrame:
    """A frame with a column that tells which expectations each row fails.

    Args:
        frame: not run yet.
        expected: bit 0 is the first one's, and so on.
        others: the tables that `references` name.
        known: the rows that the table has, among which keys are to be unique, too.

    Raises:
        ConfigError: an expectation names what is not there, or is no expression.
    """
    from pyspark.sql import functions as f

    columns, bits = frame.columns, f.lit(0).cast("bigint")
    for number, one in enumerate(expected):
        if one.kind in ("unique", "references"):
            frame, failing = _by_keys(frame, one, number, others, known)
        elif one.row_wise:
            failing = _checked(frame, one)
        else:
            continue
        bits = bits + f.when(failing, f.lit(1 << number)).otherwise(f.lit(0)).cast("bigint")
    return frame.select(*map(quoted, columns), bits.alias(MASK))


def _failing(one: Expectation) -> Column:
    """Whether a row fails; null where nothing tells."""
    from pyspark.sql import functions as f

    match one.kind:
        case "not_null":
            return reduce(or_, [_column(name).isNull() for name in one.not_null])
        case "in":
            return reduce(
                or_,
                [~_column(n).isin(*map(_literal, values)) for n, values in one.one_of.items()],
            )
        case "between":
            return reduce(or_, [_outside(_column(n), *ends) for n, ends in one.between.items()])
        case "matches":
            return reduce(
                or_,
                [~_column(n).rlike(rf"\A(?:{pattern})\z") for n, pattern in one.matches.items()],
            )
        case _:
            return ~f.expr(one.check)


def _outside(column: Column, low: Any, high: Any) -> Column:
    ends = [] if low is None else [column < _literal(low)]
    ends += [] if high is None else [column > _literal(high)]
    return reduce(or_, ends)


def _by_keys(
    frame: DataFrame,
    one: Expectation,
    number: int,
    others: Mapping[str, DataFrame],
    known: DataFrame | None,
) -> tuple[DataFrame, Column]:
    """The frame with what is needed to tell of a key, and whether a row fails by its key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    complete = reduce(lambda a, b: a & b, [_column(name).isNotNull() for name in one.columns])
    if one.kind == "references":
        if one.references_table not in others:
            raise ConfigError(
                f"expectation {one.title}: there is no table {one.references_table!r}",
                f"the tables that it can name are {', '.join(sorted(others)) or 'none'}.",
            )
        frame, found = _joined(frame, one, number, others[one.references_table])
        return frame, complete & found.isNull()
    same = Window.partitionBy(*map(quoted, one.columns))
    count = f"{MASK} {number}"
    frame = frame.withColumn(count, f.count(f.lit(1)).over(same))
    failing = f.col(quoted(count)) > 1
    if known is not None and all(_has(known, name) for name in one.columns):
        frame, found = _joined(frame, one, number, known)
        failing = failing | found.isNotNull()
    return frame, complete & failing


def _joined(
    frame: DataFrame, one: Expectation, number: int, other: DataFrame
) -> tuple[DataFrame, Column]:
    """The frame beside another one's keys, and a column that is null where there is none."""
    from pyspark.sql import functions as f

    found = f"{MASK} {number} found"
    keys = [f"{found} {i}" for i in range(len(one.columns))]
    theirs = one.references_columns or one.columns
    for name in theirs:
        _need(other, name, one)
    there = other.select(*[_column(n).alias(k) for n, k in zip(theirs, keys, strict=True)])
    there = there.distinct().withColumn(found, f.lit(True))
    on = [_column(n) == f.col(quoted(k)) for n, k in zip(one.columns, keys, strict=True)]
    return frame.join(there, on, "left"), f.col(quoted(found))


def _checked(frame: DataFrame, one: Expectation) -> Column:
    """Whether a row fails, an expression that Spark can make sense of."""
    from pyspark.errors import AnalysisException, ParseException

    subject = f"expectation {one.title}"
    for pattern in one.matches.values():
        _check_pattern(frame, pattern, subject)
    known = ", ".join(name for name in frame.columns if not name.startswith(MASK))
    with translated():
        try:
            failing = _failing(one)
            frame.where(failing)  # where nothing can stand that is not of one row
            if one.check:
                _need_boolean(frame, one.check, subject)
            return failing
        except (AnalysisException, ParseException) as error:
            problem = refused(error, f"the columns are {known}.", subject)
    raise problem


def _need_boolean(frame: DataFrame, check: str, subject: str) -> None:
    """Refuse texts, which Spark would take for booleans until one is none."""
    kind = frame.selectExpr(check).schema[0].dataType.typeName()
    if kind not in ("boolean", "void"):
        raise ConfigError(
            f"{subject}: it gives a value of type {kind}, not true or false",
            "compare it with something, such as `id > 0`.",
        )


def _check_pattern(frame: DataFrame, pattern: str, subject: str) -> None:
    jvm: Any = frame.sparkSession._jvm
    try:
        java_class(jvm, "java.util.regex.Pattern").compile(pattern)
    except Exception as error:
        reason = next(iter(java_messages(error)), "").partition(": ")[2].partition("\n")[0]
        problem = f"{subject}: it is no regular expression of Java's: {reason or pattern}"
    else:
        return
    raise ConfigError(problem, "its whole text is to match, such as [A-Z]{3}.")


def _need(frame: DataFrame, name: str, one: Expectation) -> None:
    if not _has(frame, name):
        raise no_column(one, name, frame.columns)


def _has(frame: DataFrame, name: str) -> bool:
    return name.lower() in {column.lower() for column in frame.columns}


def _column(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(quoted(name))


def _literal(value: Any) -> Column:
    from pyspark.sql import functions as f

    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return f.lit(value)
