"""What lies within structs and lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["field", "size"]


def size(values: Any) -> Any:
    """How many items a list has; null where there is none."""
    return pc.list_value_length(values).cast(pa.int32())


def field(values: Any, place: pa.Scalar) -> Any:
    """A member of a struct, by its place; null where the struct is."""
    return pc.struct_field(values, [place.as_py()])
