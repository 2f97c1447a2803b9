"""Arithmetic, with errors where a result does not fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.bound import NeedsSpark

__all__ = [
    "absolute",
    "add",
    "ceiling",
    "divide",
    "floor",
    "integral_divide",
    "multiply",
    "negative",
    "remainder",
    "subtract",
]


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


def _check_not_zero(value: Any) -> None:
    zero = pc.equal(value, pa.scalar(0, value.type))
    if zero.as_py() if isinstance(zero, pa.Scalar) else pc.any(zero).as_py():
        raise NeedsSpark("a division by zero")
