"""An expression with its types, and how Arrow computes it over a batch; pickled into tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakeport.errors import LakeportError

__all__ = ["Bound", "Call", "Column", "Constant", "NeedsSpark", "computed"]

Datum = Any
"""A `pa.Array`, or a `pa.Scalar` that stands for each row's value."""


class NeedsSpark(LakeportError):
    """A value that fails, or that Arrow and Spark might tell differently: Spark is to compute it.

    Never reaches a user.
    """


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the batch, by its place."""

    index: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written out.

    Attributes:
        value: a Python value of the type; None for a null.
        type: `pa.null()` for `NULL`, which takes the type of what it stands beside.
        exact: what it is where it is written with a point, which Spark takes for a decimal; its
            type is a double's then, which it becomes beside one.
    """

    value: Any
    type: pa.DataType
    exact: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel over other expressions, which gives the type exactly."""

    kernel: Callable[..., Datum]
    arguments: tuple[Bound, ...]
    type: pa.DataType


Bound = Column | Constant | Call


def computed(expression: Bound, batch: pa.RecordBatch) -> pa.Array:
    """The values of an expression, one for each row.

    Raises:
        NeedsSpark: see there.
    """
    try:
        found = _computed(expression, batch)
    except (pa.ArrowException, OverflowError) as error:
        raise NeedsSpark(str(error)) from None
    return pa.repeat(found, batch.num_rows) if isinstance(found, pa.Scalar) else found


def _computed(expression: Bound, batch: pa.RecordBatch) -> Datum:
    if isinstance(expression, Column):
        return batch.column(expression.index)
    if isinstance(expression, Constant):
        return pa.scalar(expression.value, expression.type)
    arguments = (_computed(argument, batch) for argument in expression.arguments)
    return expression.kernel(*arguments)
