"""Expectations as expressions of Spark's, which tell of each row whether it fails.

A frame gets one more column of bits, one bit for each expectation that the row does not meet. Keys
of other rows and tables are joined to it, so that all of them are told in one run of the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.expectations import Expectation
from lakeport.engine.spark.sql import quoted
from lakeport.engine.spark.sql.frames import (
    bits,
    column,
    count_of_key,
    expression,
    literal,
    pattern_problem,
)
from lakeport.engine.spark.sql.query import refusing
from lakeport.errors import ConfigError
from lakeport.loading.expect.verdict import no_column

if TYPE_CHECKING:
    from lakeport.engine.types import Column, DataFrame

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
    columns = frame.columns
    told: list[tuple[int, Column]] = []
    for number, one in enumerate(expected):
        if one.kind in ("unique", "references"):
            frame, failing = _by_keys(frame, one, number, others, known)
        elif one.row_wise:
            failing = _checked(frame, one)
        else:
            continue
        told.append((number, failing))
    return frame.select(*map(quoted, columns), bits(told).alias(MASK))


def _failing(one: Expectation) -> Column:
    """Whether a row fails; null where nothing tells."""
    match one.kind:
        case "not_null":
            return reduce(or_, [column(name).isNull() for name in one.not_null])
        case "in":
            return reduce(
                or_,
                [~column(n).isin(*map(literal, values)) for n, values in one.one_of.items()],
            )
        case "between":
            return reduce(or_, [_outside(column(n), *ends) for n, ends in one.between.items()])
        case "matches":
            return reduce(
                or_,
                [~column(n).rlike(rf"\A(?:{pattern})\z") for n, pattern in one.matches.items()],
            )
        case _:
            return ~expression(one.check)


def _outside(value: Column, low: Any, high: Any) -> Column:
    ends = [] if low is None else [value < literal(low)]
    ends += [] if high is None else [value > literal(high)]
    return reduce(or_, ends)


def _by_keys(
    frame: DataFrame,
    one: Expectation,
    number: int,
    others: Mapping[str, DataFrame],
    known: DataFrame | None,
) -> tuple[DataFrame, Column]:
    """The frame with what is needed to tell of a key, and whether a row fails by its key."""
    complete = reduce(lambda a, b: a & b, [column(name).isNotNull() for name in one.columns])
    if one.kind == "references":
        if one.references_table not in others:
            raise ConfigError(
                f"expectation {one.title}: there is no table {one.references_table!r}",
                f"the tables that it can name are {', '.join(sorted(others)) or 'none'}.",
            )
        frame, found = _joined(frame, one, number, others[one.references_table])
        return frame, complete & found.isNull()
    count = f"{MASK} {number}"
    frame = frame.withColumn(count, count_of_key(one.columns))
    failing = column(count) > 1
    if known is not None and all(_has(known, name) for name in one.columns):
        frame, found = _joined(frame, one, number, known)
        failing = failing | found.isNotNull()
    return frame, complete & failing


def _joined(
    frame: DataFrame, one: Expectation, number: int, other: DataFrame
) -> tuple[DataFrame, Column]:
    """The frame beside another one's keys, and a column that is null where there is none."""
    found = f"{MASK} {number} found"
    keys = [f"{found} {i}" for i in range(len(one.columns))]
    theirs = one.references_columns or one.columns
    for name in theirs:
        _need(other, name, one)
    there = other.select(*[column(n).alias(k) for n, k in zip(theirs, keys, strict=True)])
    there = there.distinct().withColumn(found, literal(True))
    on = [column(n) == column(k) for n, k in zip(one.columns, keys, strict=True)]
    return frame.join(there, on, "left"), column(found)


def _checked(frame: DataFrame, one: Expectation) -> Column:
    """Whether a row fails, an expression that Spark can make sense of."""
    subject = f"expectation {one.title}"
    for pattern in one.matches.values():
        if problem := pattern_problem(frame.sparkSession, pattern):
            raise ConfigError(
                f"{subject}: it is no regular expression of Java's: {problem}",
                "its whole text is to match, such as [A-Z]{3}.",
            )
    known = ", ".join(name for name in frame.columns if not name.startswith(MASK))
    with refusing(f"the columns are {known}.", subject):
        failing = _failing(one)
        frame.where(failing)  # where nothing can stand that is not of one row
        if one.check:
            _need_boolean(frame, one.check, subject)
        return failing


def _need_boolean(frame: DataFrame, check: str, subject: str) -> None:
    """Refuse texts, which Spark would take for booleans until one is none."""
    kind = frame.selectExpr(check).schema[0].dataType.typeName()
    if kind not in ("boolean", "void"):
        raise ConfigError(
            f"{subject}: it gives a value of type {kind}, not true or false",
            "compare it with something, such as `id > 0`.",
        )


def _need(frame: DataFrame, name: str, one: Expectation) -> None:
    if not _has(frame, name):
        raise no_column(one, name, frame.columns)


def _has(frame: DataFrame, name: str) -> bool:
    return name.lower() in {column.lower() for column in frame.columns}
