"""Arithmetic, with errors where a result does not fit."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.bound import NeedsSpark
from lakeport.loading.expressions.kernels.datum import any_true

__all__ = [
    "MOST_PLACES",
    "absolute",
    "add",
    "ceiling",
    "divide",
    "floor",
    "greatest",
    "integral_divide",
    "least",
    "multiply",
    "negative",
    "remainder",
    "root",
    "rounded",
    "subtract",
    "units",
]


MOST_PLACES: Final = 9
_WITHOUT_GAPS: Final = 1e15  # below, decimals of as many digits are doubles of their own


def add(left: Any, right: Any) -> Any:
    """`+`."""
    return pc.add_checked(left, right)


def subtract(left: Any, right: Any) -> Any:
    """`-`."""
    return pc.subtract_checked(left, right)


def multiply(left: Any, right: Any) -> Any:
    """`*`."""
    return pc.multiply_checked(left, right)


def divide(left: Any, right: Any) -> Any:
    """`/` of doubles."""
    _check_not_zero(right)
    return pc.divide(left, right)


def integral_divide(left: Any, right: Any) -> Any:
    """`DIV` of 64 bits, towards zero."""
    _check_not_zero(right)
    return pc.divide_checked(left, right)


def remainder(left: Any, right: Any) -> Any:
    """`%`, with the sign of what is divided."""
    _check_not_zero(right)
    whole = pc.divide_checked(left, right)
    return pc.subtract_checked(left, pc.multiply_checked(whole, right))


def negative(value: Any) -> Any:
    """`-` before a number."""
    return pc.negate_checked(value)


def absolute(value: Any) -> Any:
    """`abs`."""
    return pc.abs_checked(value)


def floor(value: Any) -> Any:
    """The integer of 64 bits that is not above a double."""
    return pc.floor(value).cast(pa.int64())


def ceiling(value: Any) -> Any:
    """The integer of 64 bits that is not below a double."""
    return pc.ceil(value).cast(pa.int64())


def rounded(value: Any, places: pa.Scalar) -> Any:
    """`round` of doubles to decimal places, halves away from zero, as they are written."""
    found = pc.divide(units(value, places), pa.scalar(10.0 ** places.as_py()))
    # There is no negative zero among decimals.
    return pc.if_else(pc.is_finite(value), pc.add(found, 0.0), value)


def units(value: Any, places: pa.Scalar) -> Any:
    """Doubles in whole units of a decimal place, halves away from zero.

    A double is compared with the one that is nearest to the half, so that 0.285, which lies a
    little below, counts as what it is written as.
    """
    power = pa.scalar(10.0 ** places.as_py())
    size = pc.abs(value)
    whole = pc.floor(pc.multiply(size, power))
    if any_true(pc.greater_equal(whole, _WITHOUT_GAPS)):
        raise NeedsSpark("a number with more digits than a double has")
    half = pc.divide(pc.add(whole, 0.5), power)
    found = pc.add(whole, pc.if_else(pc.greater_equal(size, half), 1.0, 0.0))
    return pc.if_else(pc.less(value, 0.0), pc.negate(found), found)


def root(value: Any) -> Any:
    """`sqrt`, which is exact to the last bit everywhere."""
    return pc.sqrt(value)


def greatest(*values: Any) -> Any:
    """The greatest that is no null."""
    return pc.max_element_wise(*values)


def least(*values: Any) -> Any:
    """The least that is no null."""
    return pc.min_element_wise(*values)


def _check_not_zero(value: Any) -> None:
    if any_true(pc.equal(value, pa.scalar(0, value.type))):
        raise NeedsSpark("a division by zero")
