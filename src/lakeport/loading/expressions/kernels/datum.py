"""Arrays, and scalars that stand for each row's value, looked at alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["any_true", "array_of"]


def array_of(values: Any) -> pa.Array:
    """An array; of one value where it is a scalar."""
    return pa.array([values.as_py()], values.type) if isinstance(values, pa.Scalar) else values


def any_true(found: Any) -> bool:
    """Whether a boolean is true for some row; nulls are not."""
    return bool(pc.any(array_of(found), min_count=0).as_py())
