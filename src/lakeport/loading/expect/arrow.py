"""Expectations told by Arrow, in the task that reads the rows: where that says what Spark says.

A null passes, a NaN is larger than any number, and a value is compared with one of its own kind;
patterns and conditions are told where they mean the same everywhere. The rest is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.expectations import Expectation
from lakeport.loading.expressions.matching import matching
from lakeport.loading.expressions.patterns import is_portable
from lakeport.loading.expressions.select import Condition, condition, is_condition

__all__ = ["ArrowMask", "arrow_mask", "may_be_told"]

_KINDS: Final[tuple[tuple[Callable[[Any], bool], type], ...]] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_date32, date),
)
_TOLD: Final = frozenset({"not_null", "in", "between", "rows", "fresh"})
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class ArrowMask:
    """Tells of each row of a batch which expectations it fails; pickled into Spark tasks.

    Attributes:
        expected: bit 0 is the first one's, and so on; those of all rows together have none.
        conditions: of those that are a `check` or `matches`, what tells; None for the others.
    """

    expected: tuple[Expectation, ...]
    conditions: tuple[Condition | None, ...]

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The batch, and its rows' bits; None where no row fails."""
        bits = None
        for number, one in enumerate(self.expected):
            condition = self.conditions[number]
            if condition is not None:
                failing = pc.invert(condition(batch))
            else:
                failing = _failing(one, batch) if one.row_wise else None
            if failing is not None and pc.any(failing, min_count=0).as_py():
                mine = pc.if_else(pc.fill_null(failing, False), 1 << number, 0).cast(pa.int64())
                bits = mine if bits is None else pc.bit_wise_or(bits, mine)
        return batch, bits


def arrow_mask(expected: Sequence[Expectation], schema: pa.Schema) -> ArrowMask | None:
    """What tells of rows of these columns; None where it takes Spark to tell."""
    conditions = tuple(_condition(one, schema) for one in expected)
    told = all(c or _told(one, schema) for one, c in zip(expected, conditions, strict=True))
    return ArrowMask(tuple(expected), conditions) if told else None


def may_be_told(one: Expectation) -> bool:
    """Whether Arrow can tell of rows that have the columns for it."""
    if one.check:
        return is_condition(one.check)
    return one.kind in _TOLD or bool(one.matches and all(map(is_portable, one.matches.values())))


def _condition(one: Expectation, schema: pa.Schema) -> Condition | None:
    if one.check:
        return condition(one.check, schema)
    return matching(one.matches, schema) if one.matches else None


def _told(one: Expectation, schema: pa.Schema) -> bool:
    types = {field.name.lower(): field.type for field in schema}
    found = [types.get(name.lower()) for name in one.columns]
    if one.kind not in _TOLD or None in found:
        return False
    values = [*one.one_of.values(), *one.between.values()]
    if not values:
        return True
    return all(
        value is None or _same_kind(type_, value)
        for type_, given in zip(found, values, strict=True)
        for value in given
    )


def _same_kind(type_: Any, value: Any) -> bool:
    if isinstance(value, int) and abs(value) > _LARGEST:
        return False
    kind = next((kind for test, kind in _KINDS if test(type_)), None)
    if kind is float:
        return type(value) in (int, float) and abs(value) < 2**53 and type_ == pa.float64()
    return kind is not None and type(value) is kind and not isinstance(value, datetime)


def _failing(one: Expectation, batch: pa.RecordBatch) -> pa.Array:
    at = {name.lower(): i for i, name in enumerate(batch.schema.names)}
    columns = [batch.column(at[name.lower()]) for name in one.columns]
    if one.kind == "not_null":
        failing = [column.is_null() for column in columns]
    elif one.kind == "in":
        failing = [
            reduce(pc.and_, [_compared(pc.not_equal, c, value) for value in values])
            for c, values in zip(columns, one.one_of.values(), strict=True)
        ]
    else:
        failing = [
            _outside(column, *ends)
            for column, ends in zip(columns, one.between.values(), strict=True)
        ]
    return reduce(pc.or_kleene, failing)


def _outside(column: pa.Array, low: Any, high: Any) -> pa.Array:
    ends = [] if low is None else [_compared(pc.less, column, low)]
    if high is not None:
        above = _compared(pc.greater, column, high)
        ends.append(
            pc.or_(above, pc.is_nan(column)) if pa.types.is_floating(column.type) else above
        )
    return reduce(pc.or_, ends)


def _compared(function: Callable[[Any, Any], Any], column: pa.Array, value: Any) -> Any:
    if pa.types.is_integer(column.type):
        column, value = column.cast(pa.int64()), pa.scalar(value, pa.int64())
    elif pa.types.is_floating(column.type):
        value = pa.scalar(float(value), pa.float64())
    return function(column, value)
