"""When a row meets an expectation, as an expression that Arrow computes.

A null passes, a NaN is larger than any number, and a value is compared with one of its own kind;
patterns and conditions are told where they mean the same everywhere. The rest is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from lakeport.config.expectations import Expectation
from lakeport.loading.expressions.binding import Binder, compared
from lakeport.loading.expressions.bound import Bound, Call, Column, Constant
from lakeport.loading.expressions.coercion import need
from lakeport.loading.expressions.kernels import logic, texts
from lakeport.loading.expressions.patterns import is_portable
from lakeport.loading.expressions.select import Condition, condition, is_condition
from lakeport.loading.expressions.tokens import Beyond

__all__ = ["may_be_met", "met"]

_KINDS: Final[tuple[tuple[Callable[[Any], bool], type, pa.DataType], ...]] = (
    (pa.types.is_boolean, bool, pa.bool_()),
    (pa.types.is_integer, int, pa.int64()),
    (pa.types.is_string, str, pa.string()),
    (pa.types.is_date32, date, pa.date32()),
)
_LARGEST: Final = 2**63 - 1


def may_be_met(one: Expectation) -> bool:
    """Whether Arrow can tell of rows that have the columns for it."""
    if one.check:
        return is_condition(one.check)
    if one.matches:
        return all(map(is_portable, one.matches.values()))
    return one.kind in ("not_null", "in", "between")


def met(one: Expectation, schema: pa.Schema) -> Condition | None:
    """What tells of rows of these columns; None where Spark is to tell."""
    if one.check:
        return condition(one.check, schema)
    try:
        binder = Binder(schema)
        columns = [binder.column(name) for name in one.columns]
        return Condition(_all(logic.both, _by_columns(one, columns)))
    except Beyond:
        return None


def _by_columns(one: Expectation, columns: Sequence[Column]) -> list[Bound]:
    """When the value of each column is as expected."""
    if one.kind == "not_null":
        return [Call(logic.is_valid, (column,), pa.bool_()) for column in columns]
    if one.kind == "in":
        return [_among(*each) for each in zip(columns, one.one_of.values(), strict=True)]
    if one.kind == "between":
        return [_within(*each) for each in zip(columns, one.between.values(), strict=True)]
    if one.kind == "matches":
        return [_matching(*each) for each in zip(columns, one.matches.values(), strict=True)]
    raise Beyond


def _all(kernel: Callable[..., Any], parts: Iterable[Bound]) -> Bound:
    return reduce(lambda a, b: Call(kernel, (a, b), pa.bool_()), parts)


def _among(column: Column, values: Iterable[Any]) -> Bound:
    equal = (compared("=", column, _written(value, column)) for value in values)
    return _all(logic.either, equal)


def _within(column: Column, ends: Sequence[Any]) -> Bound:
    low, high = ends
    met = [] if low is None else [compared("<=", _written(low, column), column)]
    met += [] if high is None else [compared("<=", column, _written(high, column))]
    return _all(logic.both, met)


def _matching(column: Column, pattern: str) -> Bound:
    if not is_portable(pattern):
        raise Beyond
    text = need(column, pa.string())
    return Call(texts.matches, (text, Constant(pattern, pa.string())), pa.bool_())


def _written(value: Any, column: Column) -> Constant:
    """A value to compare a column with, which is of its kind."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise Beyond
    if column.type == pa.float64() and type(value) in (int, float) and abs(value) < 2**53:
        return Constant(float(value), pa.float64())
    for test, kind, type_ in _KINDS:
        if test(column.type) and type(value) is kind and not isinstance(value, datetime):
            return Constant(value, type_)
    raise Beyond
