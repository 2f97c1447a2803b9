"""Structs, lists and maps of Arrow: their children, and the same with other children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def is_list(t: Any) -> bool:
    """Tell whether a type is a list of any kind."""
    return bool(
        pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or pa.types.is_list_view(t)
        or pa.types.is_large_list_view(t)
    )


def parts(array: Any) -> list[tuple[str, Any]]:
    """List the children of a struct, list or map with their names; none of a flat array.

    What is null, or outside of a slice, is left out of the children.
    """
    t = array.type
    if pa.types.is_struct(t):
        return list(zip((f.name for f in t), array.flatten(), strict=True))
    if pa.types.is_map(t):
        return list(zip(("key", "value"), pc.list_flatten(_entries(array)).flatten(), strict=True))
    return [("element", pc.list_flatten(array))] if is_list(t) else []


def leaves(array: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the flat arrays below a column with their dotted paths; see `parts`."""
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        yield from leaves(array.storage, path)
    elif pa.types.is_dictionary(t):
        yield from leaves(array.dictionary, path)
    elif pa.types.is_run_end_encoded(t):
        yield from leaves(array.values, path)
    elif children := parts(array):
        for name, part in children:
            yield from leaves(part, f"{path}.{name}")
    else:
        yield path, array


def assembled(array: Any, children: list[Any], target: Any) -> Any:
    """Return a struct, list or map of type `target` with these children in place of its own.

    Args:
        array: has the lengths and the nulls.
        children: as many values as `parts` lists, in the types of `target`.
        target: a struct, list or map.
    """
    nulls = array.is_null()
    if pa.types.is_struct(target):
        return pa.StructArray.from_arrays(children, fields=list(target), mask=nulls)
    as_list = _entries(array) if pa.types.is_map(target) else array
    lengths = pc.fill_null(pc.list_value_length(as_list), 0).cast(pa.int32())
    kind = pa.MapArray if pa.types.is_map(target) else pa.ListArray
    return kind.from_arrays(_offsets(lengths), *children, type=target, mask=nulls)


def _entries(array: Any) -> Any:
    t = array.type
    return array.cast(pa.list_(pa.struct([("key", t.key_type), ("value", t.item_type)])))


def _offsets(lengths: Any) -> Any:
    sums = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), sums.cast(pa.int32())])
