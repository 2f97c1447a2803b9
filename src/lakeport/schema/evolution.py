"""Schema evolution: which columns a table has after a batch.

```
table     id int64  name string  address struct<city>
incoming  ID int32  address struct<city, zip>  note string
result    id int64  name string  address struct<city, zip>  note string
```
The table's order, spelling and types stay; new columns go to the end; what a batch lacks is null.
A place without a value so far (null, or a struct without members) takes the other side's type, at
every depth; see `lakeport.schema.nested`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from lakeport.errors import SchemaConflict
from lakeport.model import Mode
from lakeport.schema.nested import (
    EMPTY_STRUCT,
    JSON_METADATA,
    fill_untyped_columns,
    has_untyped,
    is_json,
)
from lakeport.schema.types import MAX_PRECISION, TIMESTAMP, format_type, get_logical_type, is_number
from lakeport.units import pluralize

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MOST_SHOWN = 10  # names in a list of changed columns


class EvolutionPolicy(StrEnum):
    """Whether a load may add columns to a table (`evolve`) or not (`strict`)."""

    EVOLVE = "evolve"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class Evolution:
    """Result of schema evolution: a table's new columns, and the changes from the old ones.

    Attributes:
        schema: the table's columns after the batch.
        added: dotted paths of columns and members that the table does not have yet.
        missing: dotted paths of columns and members that the batch lacks.
        dropped: columns that a replaced schema lacks.
        respelled: the batch's name of a column -> the table's, which differs in case alone.
        cast: dotted paths of columns that are cast up to the table's wider type.
        widened: dotted path of a column that gets a wider type -> the table's type before.
        retyped: column that has another type in a replaced schema -> its type before, in words.
        typed: dotted paths of the table's untyped places that get a type now.
        plain: dotted paths of columns with plain text in the table and JSON in the batch.
        json: dotted paths of columns with JSON in the table and something else in the batch.
        created: whether there was no table.
        replaced: whether the schema replaces the table's, whatever that was.
    """

    schema: pa.Schema
    added: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    respelled: Mapping[str, str] = field(default_factory=dict)
    cast: tuple[str, ...] = ()
    widened: Mapping[str, pa.DataType] = field(default_factory=dict)
    retyped: Mapping[str, str] = field(default_factory=dict)
    typed: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    created: bool = False
    replaced: bool = False

    @property
    def untyped(self) -> tuple[str, ...]:
        """Names of the columns that have an untyped place: one without a value so far."""
        return tuple(item.name for item in self.schema if has_untyped(item.type))


class TypeConflict(SchemaConflict):
    """Raised when a column's types in the table and in the stream are incompatible.

    `path` is the column's name, or a dotted path; `new` is the type in the stream.
    """

    def __init__(self, path: str, table: pa.DataType, new: pa.DataType, hint: str) -> None:
        there, here = format_type(table), format_type(new)
        if there == here or (pa.types.is_integer(table) and pa.types.is_integer(new)):
            there, here = str(table), str(new)  # the types' exact names differ
        super().__init__(f"column {path!r} is {there} in the table and {here} in the stream", hint)
        self.path = path
        self.table = table
        self.new = new

    def __reduce__(self) -> tuple[object, ...]:
        return (TypeConflict, (self.path, self.table, self.new, self.hint))


@dataclass(slots=True)
class _MergeNotes:
    """Options of one schema merge, and the changes that it has found so far.

    Attributes:
        widen: whether the table's columns may get wider types.
        between_batches: whether both sides are batches that land together: plain text and JSON
            become JSON.
        added: dotted paths, as the attributes below have them; see `Evolution`.
    """

    widen: bool
    between_batches: bool = False
    added: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    respelled: dict[str, str] = field(default_factory=dict)
    cast: list[str] = field(default_factory=list)
    widened: dict[str, pa.DataType] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    json: list[str] = field(default_factory=list)


def plan_evolution(
    table: pa.Schema | None,
    incoming: pa.Schema,
    policy: EvolutionPolicy | str = EvolutionPolicy.EVOLVE,
    mode: Mode | str = Mode.APPEND,
    *,
    partial: bool = False,
    widen: bool = False,
    between_batches: bool = False,
) -> Evolution:
    """Plan a table's columns after a batch; raise SchemaConflict if the batch does not fit.

    Args:
        table: the table's columns; None when there is no table.
        policy: `strict` refuses every new column.
        mode: a full overwrite that may evolve takes the incoming schema as it is, but for columns
            without a value, which keep the table's type.
        partial: whether an overwrite replaces some partitions only, so the table's columns stay.
        widen: whether the table's columns may get wider types.
        between_batches: whether `table` are the columns of another batch that lands with this one.

    Raises:
        SchemaConflict: two columns differ only in case, a type does not fit, or the policy is
            `strict` and there is a new column or a wider type.

    >>> table = pa.schema([("id", pa.int64()), ("name", pa.string())])
    >>> plan_evolution(table, pa.schema([("ID", pa.int32()), ("age", pa.int64())])).schema.names
    ['id', 'name', 'age']
    """
    _check_twins(incoming)
    if table is None:
        return Evolution(incoming, created=True)
    strict = EvolutionPolicy(policy) is EvolutionPolicy.STRICT
    if Mode(mode) is Mode.OVERWRITE and not partial and not strict:
        return _replace_schema(table, fill_untyped_columns(incoming, table))
    notes = _MergeNotes(widen and not strict, between_batches)
    fields = _merge_fields(list(table), list(incoming), "", notes)
    if strict and notes.added:
        lacking = ", ".join(map(repr, notes.added))
        raise SchemaConflict(
            f"the table lacks column {lacking}, and `schema_evolution` is `strict`",
            "set `schema_evolution: evolve` to add them, or leave them out of the source.",
        )
    return Evolution(
        pa.schema(fields),
        added=tuple(notes.added),
        missing=tuple(notes.missing),
        respelled=notes.respelled,
        cast=tuple(notes.cast),
        widened=notes.widened,
        typed=tuple(notes.typed),
        plain=tuple(notes.plain),
        json=tuple(notes.json),
    )


def _replace_schema(table: pa.Schema, new: pa.Schema) -> Evolution:
    """Return the evolution to a schema that replaces the table's, with the columns that differ."""
    before, after = ({f.name.lower(): f for f in schema} for schema in (table, new))
    kept = [(item, before[name]) for name, item in after.items() if name in before]
    return Evolution(
        new,
        added=tuple(item.name for name, item in after.items() if name not in before),
        dropped=tuple(item.name for name, item in before.items() if name not in after),
        retyped={
            item.name: format_type(get_logical_type(old))
            for item, old in kept
            if get_logical_type(item) != get_logical_type(old)
        },
        replaced=not new.equals(table),
    )


def can_store(incoming: pa.DataType, table: pa.DataType) -> bool:
    """Whether a column of flat type `table` can store every `incoming` value without loss.

    An int64 in a float64 column passes, too: the cast checks each value, and refuses those that a
    double can't hold exactly. A timestamp in a column without a zone is written as it reads in UTC,
    a date in a timestamp column as its midnight in UTC.

    >>> can_store(pa.int32(), pa.int64()), can_store(pa.float64(), pa.float32())
    (True, False)
    """
    if incoming.equals(table):
        return True
    if pa.types.is_timestamp(incoming) and pa.types.is_timestamp(table):
        return incoming.tz is not None and table.tz is None
    if pa.types.is_date32(incoming):
        return bool(pa.types.is_timestamp(table))
    if pa.types.is_integer(incoming):
        if pa.types.is_integer(table):
            return bool(incoming.bit_width <= table.bit_width)
        if pa.types.is_decimal(table):
            return bool(table.precision - table.scale >= _DIGITS[incoming.bit_width])
        return bool(table.equals(pa.float64())) or (
            bool(table.equals(pa.float32())) and incoming.bit_width <= 16
        )
    if pa.types.is_decimal(incoming) and pa.types.is_decimal(table):
        whole = incoming.precision - incoming.scale <= table.precision - table.scale
        return bool(whole and incoming.scale <= table.scale)
    return bool(incoming.equals(pa.float32()) and table.equals(pa.float64()))


def can_widen(table: pa.DataType, new: pa.DataType) -> bool:
    """Whether Delta can widen a column's type without rewriting data files.

    See "Type Widening" in Delta's protocol.

    >>> can_widen(pa.int32(), pa.decimal128(12, 2)), can_widen(pa.int64(), pa.decimal128(21, 2))
    (True, False)
    """
    if pa.types.is_integer(table):
        if pa.types.is_integer(new):
            return bool(new.bit_width > table.bit_width)
        if pa.types.is_decimal(new):
            return bool(new.precision - new.scale >= (20 if table.bit_width == 64 else 10))
        return bool(new.equals(pa.float64()) and table.bit_width <= 32)
    if pa.types.is_decimal(table) and pa.types.is_decimal(new):
        whole = new.precision - new.scale >= table.precision - table.scale
        return bool(whole and new.scale >= table.scale and not new.equals(table))
    return bool(table.equals(pa.float32()) and new.equals(pa.float64()))


def find_wider_type(table: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type for both that Delta can widen `table` to; None if there is none.

    A date becomes a timestamp without a zone, to which the batch's timestamps are written as they
    read in UTC.

    >>> find_wider_type(pa.int64(), pa.decimal128(10, 2)), find_wider_type(pa.int64(), pa.float64())
    (Decimal128Type(decimal128(22, 2)), None)
    """
    if can_widen(table, new):
        return new
    if pa.types.is_date32(table) and pa.types.is_timestamp(new):
        return pa.timestamp("us")
    whole = [_count_whole_digits(table, widened=True), _count_whole_digits(new)]
    scale = max(t.scale if pa.types.is_decimal(t) else 0 for t in (table, new))
    if 0 in whole or not (pa.types.is_decimal(table) or pa.types.is_decimal(new)):
        return None
    return pa.decimal128(max(whole) + scale, scale) if max(whole) + scale <= MAX_PRECISION else None


def find_common_type(table: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """Return a type for the values of both, string if need be; None if nested or binary.

    >>> find_common_type(pa.int64(), pa.float64()), find_common_type(pa.date32(), pa.int64())
    (DataType(double), DataType(string))
    """
    if any(pa.types.is_nested(t) or pa.types.is_binary(t) for t in (table, new)):
        return None
    if pa.types.is_timestamp(table) or pa.types.is_timestamp(new):
        times = all(pa.types.is_date32(t) or pa.types.is_timestamp(t) for t in (table, new))
        return TIMESTAMP if times else pa.string()
    found = find_wider_type(table, new)
    if found is not None:
        return found
    return pa.float64() if is_number(table) and is_number(new) else pa.string()


def _count_whole_digits(type_: pa.DataType, *, widened: bool = False) -> int:
    """Return the digits before the point that integers or decimals need; 0 for other types."""
    if pa.types.is_decimal(type_):
        return int(type_.precision - type_.scale)
    if not pa.types.is_integer(type_):
        return 0
    if widened:  # digits that Delta's protocol asks for
        return 20 if type_.bit_width == 64 else 10
    return _DIGITS[type_.bit_width]


def _merge_fields(
    table: list[pa.Field], incoming: list[pa.Field], above: str, notes: _MergeNotes
) -> list[pa.Field]:
    """Merge lists of columns or members: the table's with their spelling, then new ones."""
    coming = {item.name.lower(): item for item in incoming}
    known = {item.name.lower() for item in table}
    merged = []
    for item in table:
        new = coming.get(item.name.lower())
        path = f"{above}{item.name}"
        if new is None:
            notes.missing.append(path)
        elif new.name != item.name:
            notes.respelled[f"{above}{new.name}"] = path
        merged.append(item if new is None else _merge_field(item, new, path, notes))
    for item in incoming:
        if item.name.lower() not in known:
            notes.added.append(f"{above}{item.name}")
            merged.append(item)
    return merged


def _merge_field(table: pa.Field, new: pa.Field, path: str, notes: _MergeNotes) -> pa.Field:
    """Merge a table's column, or a part of it, with the batch's; add changes to `notes`.

    TypeConflict if they are incompatible.
    """
    if pa.types.is_null(new.type) or (is_json(table) and is_json(new)):
        return table
    object_ = is_json(new) or pa.types.is_struct(new.type)
    if pa.types.is_null(table.type) or (table.type == EMPTY_STRUCT and object_):
        if new.type != table.type:
            notes.typed.append(path)
        return new.with_name(table.name)
    if new.type == EMPTY_STRUCT and pa.types.is_struct(table.type):
        return table
    if is_json(table):
        notes.json.append(path)
        return table
    if (
        is_json(new)
        or new.type == EMPTY_STRUCT
        or (table.type == EMPTY_STRUCT and notes.between_batches)
    ):
        if notes.between_batches:
            return pa.field(table.name, pa.string(), metadata=JSON_METADATA)
        if not pa.types.is_string(table.type):
            kind = pa.json_() if is_json(new) else new.type
            raise TypeConflict(path, table.type, kind, _hint_conflict(table.type, new.type))
        notes.plain.append(path)
        return table
    return table.with_type(_merge_types(table.type, new.type, path, notes))


def _merge_types(
    table: pa.DataType, new: pa.DataType, path: str, notes: _MergeNotes
) -> pa.DataType:
    """Return the type for both sides of a column; add changes to `notes`, or TypeConflict."""
    if table.equals(new, check_metadata=True):
        return table
    if pa.types.is_struct(table) and pa.types.is_struct(new):
        return pa.struct(_merge_fields(list(table), list(new), f"{path}.", notes))
    if pa.types.is_list(table) and pa.types.is_list(new):
        return pa.list_(_merge_field(table.value_field, new.value_field, f"{path}.element", notes))
    if pa.types.is_map(table) and pa.types.is_map(new):
        key = _merge_types(table.key_type, new.key_type, f"{path}.key", notes)
        return pa.map_(key, _merge_field(table.item_field, new.item_field, f"{path}.value", notes))
    if not pa.types.is_nested(table) and not pa.types.is_nested(new) and can_store(new, table):
        notes.cast.append(path)
        return table
    larger = find_wider_type(table, new) if notes.widen else None
    if larger is not None:
        notes.widened[path] = table
        return larger
    raise TypeConflict(path, table, new, _hint_conflict(table, new))


def _hint_conflict(table: pa.DataType, new: pa.DataType) -> str:
    """Return the hint for incompatible types: widen the column, or use another table."""
    if find_wider_type(table, new) is not None:
        return (
            "set `type_widening: true` (and `schema_evolution: evolve`) to widen a Delta table's "
            "column, if delta-rs and Athena need not read it; or land in another table, overwrite "
            "this one, or cast the column in the source."
        )
    return "land in another table, overwrite this one, or correct the column's type."


def _check_twins(schema: pa.Schema) -> None:
    """Raise SchemaConflict if two columns, or members of a struct, differ only in case."""
    for path, names in _group_names(list(schema), ""):
        seen: dict[str, str] = {}
        for name in names:
            other = seen.get(name.lower())
            if other is not None:
                raise SchemaConflict(
                    f"column {path + name!r} appears twice"
                    if other == name
                    else f"columns {path + other!r} and {path + name!r} differ only in case",
                    "rename one of them in the source: a table takes them for the same column.",
                )
            seen[name.lower()] = name


def describe_changes(changes: Evolution, mode: Mode | str, known: Collection[str] = ()) -> str:
    """Describe added, absent, dropped, retyped and respelled columns; empty if there are none.

    Columns in `known` are left out.

    >>> table = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    >>> batch = pa.schema([("ID", pa.int64()), ("V2", pa.int64()), ("extra", pa.int64())])
    >>> print(describe_changes(plan_evolution(table, batch), "append"))
    2 columns added: V2, extra; 1 absent, null in these rows: v; 1 in another case: ID (id)
    """
    absent = "absent" if Mode(mode) is Mode.MERGE else "absent, null in these rows"
    kinds: Mapping[str, Mapping[str, str]] = {
        "added": dict.fromkeys(changes.added, ""),
        absent: dict.fromkeys(changes.missing, ""),
        "dropped": dict.fromkeys(changes.dropped, ""),
        "of another type": {name: f" (was {old})" for name, old in changes.retyped.items()},
        "in another case": {name: f" ({table})" for name, table in changes.respelled.items()},
    }
    parts: list[str] = []
    for kind, columns in kinds.items():
        names = [_show_name(name) + more for name, more in columns.items() if name not in known]
        if names:
            count = str(len(names)) if parts else pluralize(len(names), "column")
            rest = len(names) - _MOST_SHOWN
            more = f" and {rest} more" if rest > 0 else ""
            parts.append(f"{count} {kind}: {', '.join(names[:_MOST_SHOWN])}{more}")
    return "; ".join(parts)


def _show_name(name: str) -> str:
    """Return a column's name as it is, or quoted if it has other characters than `a-z_.0-9`."""
    return name if re.fullmatch(r"[\w.]+", name) else repr(name)


def list_change_warnings(changes: Evolution, json_advice: Callable[[str], str]) -> Iterator[str]:
    """Yield warnings of text columns that get JSON values, and of similar column names.

    `json_advice` returns, for a column's path, how to have the table hold JSON there.
    """
    for path in changes.plain:
        yield (
            f"column {path!r} is plain text in the table, and the source has values of several "
            "kinds for it: strings land as they are, other values as the text of their JSON; "
            f"{json_advice(path)}."
        )
    new = None if changes.created or changes.replaced else changes.added
    if new is None or new:
        yield from _warn_of_lookalikes(changes.schema, new)


def _warn_of_lookalikes(schema: pa.Schema, new: Collection[str] | None = None) -> Iterator[str]:
    """Yield a warning for each pair of columns with different names that look the same.

    `new` are dotted paths of columns, one of which is in each pair; None: of any columns.

    >>> [*_warn_of_lookalikes(pa.schema([("user id", pa.int64()), ("User  id", pa.int64())]))]
    ["columns 'user id' and 'User  id' are two, though their names look alike"]
    """
    for path, names in _group_names(list(schema), ""):
        seen: dict[str, str] = {}
        for name in names:
            plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
            other = seen.setdefault(plain, name)
            if other != name and (new is None or {path + other, path + name} & {*new}):
                yield (
                    f"columns {path + other!a} and {path + name!a} are two, though their "
                    "names look alike"
                )


def _group_names(fields: list[pa.Field], above: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (path, names): of the columns, with an empty path, then of each struct's members."""
    yield above, [item.name for item in fields]
    for item in fields:
        type_ = item.type
        path = f"{above}{item.name}"
        while pa.types.is_list(type_):
            type_, path = type_.value_type, f"{path}.element"
        if pa.types.is_struct(type_):
            yield from _group_names(list(type_), f"{path}.")
        elif pa.types.is_map(type_):
            yield from _group_names([type_.item_field.with_name("value")], f"{path}.")
