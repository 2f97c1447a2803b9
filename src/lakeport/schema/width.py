"""How many columns a table may have: keys that are data would each become one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import pyarrow as pa

from lakeport.errors import InputError


def check_width(stream: str, columns: pa.Schema, most: int, *, every: bool = True) -> None:
    """Refuse more columns and members of objects than a table may have.

    Args:
        stream: the stream's name.
        columns: what the stream has, or the table after it.
        most: the limit, `max_columns`.
        every: whether these are all; else the source may have more.

    Raises:
        InputError: there are more; the hint names the object whose keys they are.
    """
    if len(columns) <= most // 8 and not any(pa.types.is_nested(t) for t in columns.types):
        return
    sizes = {field.name: _width(field.type) for field in columns}
    count = count_columns(columns)
    if count <= most:
        return
    widest = max(sizes, key=lambda name: sizes[name])
    enough = count + count // 10 + 10 if every else max(20 * most, count)
    more = f"`--set max_columns={enough}`"
    if sizes[widest] > len(columns):
        what = f"of which object {widest!r} has {sizes[widest]:,}"
        hint = (
            f"where its keys are data, `--column {shlex.quote(f'{widest}=json')}` keeps it as JSON "
            f"text; {more} takes the keys for columns all the same."
        )
    else:
        what = f"the records' own keys are {len(columns):,} of them"
        hint = (
            f"{more} takes them for columns all the same. Where the keys are data, put them into "
            "one field of the record in the source, and declare that as `json`."
        )
    told = f"{count:,}" if every else f"more than {most:,}"
    raise InputError(
        f"stream {stream!r} has {told} columns "
        f"and members of objects, {what}, and `max_columns` is {most:,}",
        hint,
    )


def count_columns(columns: Iterable[pa.Field]) -> int:
    """Count columns and the members of their objects.

    >>> count_columns([pa.field("a", pa.list_(pa.struct([("b", pa.int64()), ("c", pa.int64())])))])
    3
    """
    return sum(1 + _width(field.type) for field in columns)


def count_leaves(columns: Iterable[pa.Field]) -> int:
    """Count the arrays that hold a batch's values.

    >>> items = pa.list_(pa.struct([("c", pa.int64())]))
    >>> count_leaves(pa.schema([("a", pa.int64()), ("b", items)]))
    2
    """
    return sum(max(1, _width(field.type)) for field in columns)


def _width(type_: pa.DataType) -> int:
    """Count the members of objects within a type."""
    if pa.types.is_struct(type_):
        return sum(1 + _width(member.type) for member in type_)
    if pa.types.is_list(type_):
        return _width(type_.value_type)
    return _width(type_.item_type) if pa.types.is_map(type_) else 0
