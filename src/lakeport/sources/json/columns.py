"""The columns that a JSON reader yields, and how their values come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.errors import InputError
from lakeport.model import UnknownPolicy
from lakeport.schema.casting import TIMESTAMP
from lakeport.schema.nested import is_json
from lakeport.schema.types import Field, FieldType, Kind, arrow_field, check_names

if TYPE_CHECKING:
    from lakeport.native._kernel import Spec

_PLAIN: dict[pa.DataType, Kind] = {
    pa.string(): Kind.STRING,
    pa.int64(): Kind.INTEGER,
    pa.float64(): Kind.NUMBER,
    pa.bool_(): Kind.BOOLEAN,
    TIMESTAMP: Kind.TIMESTAMP,
    pa.date32(): Kind.DATE,
    pa.binary(): Kind.BINARY,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a reader.

    Attributes:
        name: as the records name it.
        type: what it holds.
        required: whether a record without a value is bad.
        mixed: whether values other than strings become their JSON text (undeclared fields).
    """

    name: str
    type: FieldType
    required: bool = False
    mixed: bool = False

    @property
    def raw(self) -> bool:
        """Whether values, or parts of them, are kept as the JSON text that came."""
        return holds(self.type, Kind.JSON)


def holds(t: FieldType, *kinds: Kind) -> bool:
    """Whether one of these kinds is anywhere in a type."""
    if t.kind in kinds:
        return True
    if t.item is not None and holds(t.item, *kinds):
        return True
    return any(holds(f.type, *kinds) for f in t.fields)


def spec_of(name: str, t: FieldType, *, plain: bool = False) -> Spec:
    """A column as the kernel takes it.

    Args:
        name: the column's.
        t: its type.
        plain: whether it is to be read as inference takes values: see the kernel's `plain`.
    """
    detail: Any = None
    if t.kind is Kind.DECIMAL:
        detail = t.precision, t.scale
    elif t.kind is Kind.JSON:
        detail = "" if plain else "".join(sorted(t.opening))
    elif t.kind is Kind.LIST:
        detail = spec_of("item", t.item or FieldType(Kind.JSON), plain=plain)
    elif t.kind is Kind.STRUCT:
        detail = [spec_of(f.name, f.type, plain=plain) for f in t.fields]
    small = plain and t.kind is Kind.INTEGER and not t.precision
    return name, "small" if small else t.kind.value, detail


def columns_of(
    stream: str,
    fields: Sequence[Field],
    extra: Sequence[tuple[str, pa.DataType]],
    keys: Sequence[str],
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE,
) -> tuple[Column, ...]:
    """Put declared fields and the undeclared ones that became columns together.

    Where undeclared fields are dropped, no object keeps them (`FieldType.rest`).

    Raises:
        InputError: names are empty or clash, or an undeclared field has a type that JSON values
            can't become.
    """
    drop = unknown is UnknownPolicy.DROP
    declared = [
        Column(f.name, _settled(f.type, drop), f.required or f.name in keys) for f in fields
    ]
    found = [
        Column(
            field.name,
            _declared(stream, field),
            field.name in keys,
            mixed=pa.types.is_string(field.type) and not is_json(field),
        )
        for field in starmap(pa.field, extra)
    ]
    columns = (*declared, *found)
    check_names(stream, (c.name for c in columns))
    return columns


def _declared(stream: str, field: pa.Field) -> FieldType:
    """The declared type that is stored as a table's column."""
    t = field.type
    if is_json(field):
        return FieldType(Kind.JSON)
    kind = _PLAIN.get(t)
    if kind is not None:
        return FieldType(kind)
    if pa.types.is_decimal128(t):
        return FieldType(Kind.DECIMAL, t.precision, t.scale)
    if pa.types.is_list(t):
        return FieldType(Kind.LIST, item=_declared(stream, t.value_field.with_name(field.name)))
    if pa.types.is_struct(t) and t.num_fields:
        members = tuple(Field(f.name, _declared(stream, f)) for f in t)
        return FieldType(Kind.STRUCT, fields=members)
    raise InputError(
        f"field {field.name!r} of stream {stream!r} is not declared, and the table has it as {t}",
        "declare the field in the stream's SCHEMA.",
    )


def _settled(t: FieldType, drop: bool) -> FieldType:
    """What was left open by a schema or by inference, decided as `arrow_type` stores it."""
    if t.kind is Kind.NULL:
        return FieldType(Kind.STRING)
    if t.kind is Kind.STRUCT:
        kept = [f for f in t.fields if not (drop and f.name == t.rest)]
        members = tuple(replace(f, type=_settled(f.type, drop)) for f in kept)
        rest = "" if drop else t.rest
        return replace(t, fields=members, rest=rest) if members else FieldType(Kind.JSON)
    if t.kind is Kind.LIST:
        return replace(t, item=_settled(t.item or FieldType(Kind.JSON), drop))
    return t


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The table types of columns."""
    return pa.schema([arrow_field(c.name, c.type) for c in columns])


def batch_of(arrays: Sequence[Any], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Make a record batch that knows its number of rows even if it has no columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def batch_of_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Make a record batch of records, of which there is one at least, by their columns' values."""
    values = zip(*rows, strict=True)
    arrays = [pa.array(v, t) for v, t in zip(values, schema.types, strict=True)]
    return batch_of(arrays, len(rows), schema)
