"""Nested Arrow types: rebuild them around other children, and fill in types not known yet.

```
no value yet   [] or [null]   {"k": null}       {}
null           list<null>     struct<k: null>   struct<>
```
A place without a value is called untyped. It takes any type that comes later, or was there before;
a struct without members takes only a struct's. Sources read untyped places as text, and list them
beside the schema. Plans for a table, and its own schema, have the types null and `struct<>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

JSON_METADATA = {b"lakeport": b"json"}
"""Arrow metadata of columns, and of parts of lists, maps and structs, whose texts are JSON."""

EMPTY_STRUCT = pa.struct([])
"""Type of an object of which no member is known yet."""


def is_list(t: Any) -> bool:
    """Whether a type is a list: plain, large, of fixed size, or a list view."""
    return bool(
        pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or pa.types.is_list_view(t)
        or pa.types.is_large_list_view(t)
    )


def list_parts(type_: pa.DataType) -> list[tuple[str, pa.Field]]:
    """List (name, field) of the children of a struct, list or map; empty for a flat type.

    >>> [name for name, _ in list_parts(pa.map_(pa.string(), pa.int64()))]
    ['key', 'value']
    """
    if pa.types.is_struct(type_):
        return [(member.name, member) for member in type_]
    if pa.types.is_map(type_):
        return [("key", type_.key_field), ("value", type_.item_field)]
    return [("element", type_.value_field)] if is_list(type_) else []


def list_children(array: Any) -> list[tuple[str, Any]]:
    """List (name, array) of the children of a struct, list or map; empty for a flat array.

    Children leave out values of null rows, and of rows outside the array's slice.
    """
    t = array.type
    if pa.types.is_struct(t):
        children = array.flatten()
    elif pa.types.is_map(t):
        children = pc.list_flatten(_map_entries(array)).flatten()
    else:
        children = [pc.list_flatten(array)] if is_list(t) else []
    return [(name, child) for (name, _), child in zip(list_parts(t), children, strict=True)]


def iterate_leaves(array: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, flat array) for each leaf of a column; decodes no dictionaries."""
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        yield from iterate_leaves(array.storage, path)
    elif pa.types.is_dictionary(t):
        yield from iterate_leaves(array.dictionary, path)
    elif pa.types.is_run_end_encoded(t):
        yield from iterate_leaves(array.values, path)
    elif children := list_children(array):
        for name, part in children:
            yield from iterate_leaves(part, f"{path}.{name}")
    else:
        yield path, array


def rebuild_nested(array: Any, children: list[Any], target: Any) -> Any:
    """Build a nested array of type `target` from children, with `array`'s lengths and nulls.

    The children have the lengths of those in `list_children`, and the types that `target` has.
    """
    nulls = array.is_null()
    if pa.types.is_struct(target):
        return pa.StructArray.from_arrays(children, fields=list(target), mask=nulls)
    as_list = _map_entries(array) if pa.types.is_map(target) else array
    lengths = pc.fill_null(pc.list_value_length(as_list), 0).cast(pa.int32())
    kind = pa.MapArray if pa.types.is_map(target) else pa.ListArray
    return kind.from_arrays(_compute_offsets(lengths), *children, type=target, mask=nulls)


def _map_entries(array: Any) -> Any:
    """Return a map array as a list of structs of key and value."""
    t = array.type
    return array.cast(pa.list_(pa.struct([("key", t.key_type), ("value", t.item_type)])))


def _compute_offsets(lengths: Any) -> Any:
    """Return the offsets of lists with these lengths: 0, then the running sums."""
    sums = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), sums.cast(pa.int32())])


class UnexpectedValue(Exception):
    """Raised when a place that should have no value yet has one."""


def is_json(part: pa.Field) -> bool:
    """Whether a column, or a part of one, holds JSON texts, by its metadata or Arrow type.

    >>> is_json(pa.field("v", pa.string(), metadata=JSON_METADATA))
    True
    >>> is_json(pa.field("v", pa.json_())), is_json(pa.field("v", pa.string()))
    (True, False)
    """
    return (part.metadata or {}).get(b"lakeport") == b"json" or isinstance(part.type, pa.JsonType)


def is_untyped(type_: pa.DataType) -> bool:
    """Whether a type is null or a struct without members, so that no value was seen yet."""
    return bool(pa.types.is_null(type_) or type_ == EMPTY_STRUCT)


def has_untyped(type_: pa.DataType) -> bool:
    """Whether a type is, or has at any depth, a null type or an empty struct.

    >>> has_untyped(pa.list_(pa.null())), has_untyped(pa.list_(pa.int64()))
    (True, False)
    """
    return is_untyped(type_) or any(has_untyped(part.type) for _, part in list_parts(type_))


def _replace_parts(type_: pa.DataType, parts: Sequence[pa.Field]) -> pa.DataType:
    """Return a nested type with other child fields, in order; return a flat type unchanged."""
    if pa.types.is_struct(type_):
        return pa.struct(parts)
    if pa.types.is_map(type_):
        return pa.map_(parts[0].type, parts[1])
    return pa.list_(parts[0]) if is_list(type_) else type_


def change_child_types(type_: pa.DataType, types: Iterable[pa.DataType]) -> pa.DataType:
    """Return a nested type with other types for its children, in `list_parts` order.

    >>> change_child_types(pa.map_(pa.string(), pa.null()), [pa.string(), pa.int64()])
    MapType(map<string, int64>)
    """
    pairs = zip(list_parts(type_), types, strict=True)
    return _replace_parts(type_, [change_field_type(part, new) for (_, part), new in pairs])


def replace_untyped(type_: pa.DataType) -> pa.DataType:
    """Replace null types and empty structs within a type by strings, at any depth.

    >>> replace_untyped(pa.list_(pa.null()))
    ListType(list<item: string>)
    """
    if is_untyped(type_):
        return pa.string()
    return _replace_parts(type_, [_replace_untyped_field(part) for _, part in list_parts(type_)])


def _replace_untyped_field(field: pa.Field) -> pa.Field:
    """Return a field with text in its untyped places; an empty struct becomes marked JSON text."""
    text = field.with_type(replace_untyped(field.type))
    return text.with_metadata(JSON_METADATA) if field.type == EMPTY_STRUCT else text


def replace_untyped_columns(schema: pa.Schema) -> pa.Schema:
    """Replace null types and empty structs in a schema by strings, at any depth.

    >>> replace_untyped_columns(pa.schema([("a", pa.null()), ("b", pa.int64())])).types
    [DataType(string), DataType(int64)]
    """
    return pa.schema([_replace_untyped_field(f) for f in schema])


def to_file_type(type_: pa.DataType) -> pa.DataType:
    """Return a type as data files store it: no members of type null, strings for other nulls.

    What a file lacks is null to every reader, whatever its type will be.

    >>> to_file_type(pa.struct({"a": pa.int64(), "b": pa.null()}))
    StructType(struct<a: int64>)
    """
    if is_untyped(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        type_ = pa.struct([f for f in type_ if not pa.types.is_null(f.type)] or list(type_))
    return _replace_parts(type_, [to_file_field(part) for _, part in list_parts(type_)])


def to_file_field(field: pa.Field) -> pa.Field:
    """Return a column, or a part of one, as data files have it; see `to_file_type`."""
    stored = field.with_type(to_file_type(field.type))
    return stored.with_metadata(JSON_METADATA) if field.type == EMPTY_STRUCT else stored


def fill_untyped(type_: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Replace null types and empty structs in a type by `known`'s types at the same paths.

    >>> fill_untyped(pa.list_(pa.null()), pa.list_(pa.int64()))
    ListType(list<item: int64>)
    """
    if pa.types.is_null(type_) or (type_ == EMPTY_STRUCT and pa.types.is_struct(known)):
        return known
    if type_.id != known.id:
        return type_
    there = {name.lower(): part for name, part in list_parts(known)}
    parts = list_parts(type_)
    filled = [_fill_untyped_field(part, there.get(name.lower(), part)) for name, part in parts]
    return _replace_parts(type_, filled)


def _fill_untyped_field(field: pa.Field, known: pa.Field) -> pa.Field:
    """Replace null types and empty structs in a field by `known`'s at the same paths."""
    found = field.with_type(fill_untyped(field.type, known.type))
    changed = is_untyped(field.type) and found.type != field.type
    return found.with_metadata(known.metadata) if changed else found


def fill_untyped_columns(schema: pa.Schema, known: pa.Schema) -> pa.Schema:
    """Return a schema whose untyped places have the types that `known` has in its columns."""
    there = {f.name.lower(): f for f in known}
    return pa.schema([_fill_untyped_field(f, there.get(f.name.lower(), f)) for f in schema])


def find_untyped_columns(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns that have an untyped place, with their types."""
    return {f.name: f.type for f in schema if has_untyped(f.type)}


def change_field_type(part: pa.Field, type_: pa.DataType) -> pa.Field:
    """Return a field with another type; an untyped field is no longer marked as JSON."""
    field = part.with_type(type_)
    return field.with_metadata(None) if is_untyped(type_) else field


def restore_untyped(array: Any, type_: pa.DataType) -> Any:
    """Cast strings back to the null types and empty structs of `type_`; UnexpectedValue if used.

    The array has the type null, or what `replace_untyped` or `to_file_type` returns for `type_`.
    """
    if array.type == type_:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_)
    if pa.types.is_null(type_):
        if array.null_count < len(array):
            raise UnexpectedValue
        return pa.nulls(len(array))
    if type_ == EMPTY_STRUCT:
        if pa.types.is_string(array.type):
            texts = pc.drop_null(pc.unique(array)).to_pylist()
            if any("".join(text.split()) != "{}" for text in texts):
                raise UnexpectedValue
        valid = array.is_valid()
        return pa.Array.from_buffers(
            EMPTY_STRUCT, len(array), valid.buffers()[1:], offset=valid.offset
        )
    parts = [(name, part.type) for name, part in list_parts(type_)]
    if type_.id != array.type.id or not parts:
        return array
    there = dict(list_children(array))
    children = [
        restore_untyped(there[name], part) if name in there else pa.nulls(len(array), part)
        for name, part in parts
    ]
    return rebuild_nested(array, children, type_)


def restore_untyped_columns(batch: Any, types: Mapping[str, pa.DataType]) -> Any:
    """Cast columns named in `types` by `restore_untyped`; UnexpectedValue for a value."""
    if not types:
        return batch
    names = batch.schema.names
    pairs = zip(names, batch.columns, strict=True)
    arrays = [restore_untyped(array, types.get(name, array.type)) for name, array in pairs]
    return pa.RecordBatch.from_arrays(arrays, names=names)
