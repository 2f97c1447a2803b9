"""Truth of three values, comparisons, and choices."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "both",
    "case",
    "coalesce",
    "either",
    "equal",
    "is_false",
    "is_in",
    "is_null",
    "is_true",
    "is_valid",
    "less",
    "less_equal",
    "negation",
    "null_if",
    "null_safe_equal",
]


def both(left: Any, right: Any) -> Any:
    """`AND`."""
    return pc.and_kleene(left, right)


def either(left: Any, right: Any) -> Any:
    """`OR`."""
    return pc.or_kleene(left, right)


def negation(value: Any) -> Any:
    """`NOT`."""
    return pc.invert(value)


def is_null(value: Any) -> Any:
    """`IS NULL`; a NaN is none."""
    return pc.is_null(value)


def is_valid(value: Any) -> Any:
    """`IS NOT NULL`."""
    return pc.is_valid(value)


def is_true(value: Any) -> Any:
    """`IS TRUE`."""
    return pc.fill_null(value, False)


def is_false(value: Any) -> Any:
    """`IS FALSE`."""
    return pc.fill_null(pc.invert(value), False)


def equal(left: Any, right: Any) -> Any:
    """`=`: a NaN equals itself."""
    found = pc.equal(left, right)
    if _may_be_nan(left) and _may_be_nan(right):
        found = pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return found


def less(left: Any, right: Any) -> Any:
    """`<`: a NaN is larger than any other number."""
    found = pc.less(left, right)
    if _may_be_nan(right):
        found = pc.or_(found, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return found


def less_equal(left: Any, right: Any) -> Any:
    """`<=`."""
    found = pc.less_equal(left, right)
    return pc.or_(found, pc.is_nan(right)) if _may_be_nan(right) else found


def null_safe_equal(left: Any, right: Any) -> Any:
    """`<=>`: two nulls are equal, and a null equals nothing else."""
    nulls = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(nulls, pc.fill_null(equal(left, right), False))


def is_in(value: Any, *items: Any) -> Any:
    """`IN` values that are no nulls and no floats."""
    known = pa.array([item.as_py() for item in items], items[0].type)
    return pc.if_else(pc.is_valid(value), pc.is_in(value, value_set=known), None)


def case(otherwise: Any, *branches: Any) -> Any:
    """`CASE`: conditions and values in turn; a null condition is not met."""
    found = otherwise
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        found = pc.if_else(pc.fill_null(condition, False), value, found)
    return found


def coalesce(*values: Any) -> Any:
    """The first that is no null."""
    return pc.coalesce(*values)


def null_if(value: Any, other: Any) -> Any:
    """`NULLIF`."""
    null = pa.scalar(None, value.type)
    return pc.if_else(pc.fill_null(equal(value, other), False), null, value)


def _may_be_nan(value: Any) -> bool:
    """Whether a number may be none; of a scalar that is known."""
    if value.type != pa.float64():
        return False
    return not isinstance(value, pa.Scalar) or bool(pc.is_nan(value).as_py())
