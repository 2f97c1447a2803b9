"""What lies within structs and lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["field"]


def field(values: Any, place: pa.Scalar) -> Any:
    """A member of a struct, by its place; null where the struct is."""
    return pc.struct_field(values, [place.as_py()])
