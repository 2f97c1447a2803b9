"""Turn columns that the kernel filled into Arrow arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from lakeport.native._kernel import Parts


def array_of(type_: pa.DataType, parts: Parts) -> pa.Array:
    """Return a column of the kernel as an Arrow array of `type_`, without a copy."""
    rows, nulls, buffers, children = parts
    own = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    inner = [array_of(type_.field(i).type, child) for i, child in enumerate(children)]
    return pa.Array.from_buffers(type_, rows, own, nulls, 0, inner or None)
