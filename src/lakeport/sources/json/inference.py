"""Types from values, where no schema declares them: the columns of JSON records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any

from lakeport.native import kernel
from lakeport.schema.types import (
    Field,
    FieldType,
    Kind,
    count_columns,
    merge_fields,
    merge_types,
    to_arrow_field,
)
from lakeport.sources.json.reader import cut_lines
from lakeport.sources.json.record import Decoder, Fault, Literal, kind_of_value, spec_of

_PIECE = 1 << 16
_FEWEST, _MOST = 8, 256  # lines that are looked at one by one
_STOP = 4  # columns that cost at a stop what a line does that is looked at
_EXACT = range(-(2**53) + 1, 2**53)
_LONG_DIGITS = 19
_MAX_DEPTH = 40
_NULL = FieldType(Kind.NULL)
_JSON = FieldType(Kind.JSON)


def infer_fields(
    blocks: Iterable[bytes], opaque: Collection[str] = (), most: int = 0
) -> tuple[Field, ...]:
    """Find the columns of JSON records without a schema, looking at every record.

    Integers, numbers, booleans, text, lists and objects are kept apart; text stays text, whatever
    it looks like. Values that don't go together, and numbers that neither 64 bit nor a double can
    hold, make the column JSON text. Lines that are no objects are passed over: the reader refuses
    them.

    Args:
        blocks: whole lines, each block of a size that fits in memory.
        opaque: columns that are JSON text, whatever they hold.
        most: columns and members after which the search ends, 0 for none: there are too many then.

    Returns:
        The columns in the order in which they first came; results of several parts of a source
        go together with `merge_inferred`.

    Example:
        >>> fields = infer_fields([b'{"n": 1, "s": "2024-01-01"}', b'{"n": 2.5, "b": true}'])
        >>> [(f.name, f.type.kind.value) for f in fields]
        [('n', 'number'), ('s', 'string'), ('b', 'boolean')]
    """
    fields: tuple[Field, ...] = ()
    fits = _fits(fields)
    for piece in chain.from_iterable(map(_pieces, blocks)):
        at, few = 0, _FEWEST
        while (stop := fits(piece, at)) is not None:
            few = 1 if stop > at else min(2 * few, _MOST)
            lines, at = cut_lines(piece, stop, max(few, len(fields) // _STOP))
            found = (
                replace(field, type=_JSON) if field.name in opaque else field
                for field in _infer_lines(lines)
            )
            before, fields = fields, merge_fields(fields, tuple(found))
            if most and count_columns([to_arrow_field(f.name, f.type) for f in fields]) > most:
                return merge_inferred([fields])
            if fields != before:
                fits = _fits(fields)
    return merge_inferred([fields])


def _pieces(block: bytes) -> Iterator[bytes]:
    """Cut a block at line ends: the kernel makes room for every column in every record."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + _PIECE) + 1 or len(block)
        yield block[start:end]
        start = end


def _fits(fields: Sequence[Field]) -> Callable[[bytes, int], int | None]:
    """Make what tells where the first line stands that may hold other fields than these.

    Where the kernel can't be loaded, every line may.
    """
    native = kernel()
    if native is None:
        return lambda piece, at: at if at < len(piece) else None
    parser = native.parser([spec_of(f.name, f.type, plain=True) for f in fields], plain=True)

    def fits(piece: bytes, at: int) -> int | None:
        *_, stop, _ = parser.parse(piece, at)
        return None if stop is None else stop[0]

    return fits


def merge_inferred(parts: Iterable[tuple[Field, ...]]) -> tuple[Field, ...]:
    """The columns of several parts of a source; a string in them is no object, as none declares it.

    Example:
        >>> a, b = (infer_fields([line]) for line in (b'{"n": [1]}', b'{"n": {"m": 1}}'))
        >>> [(f.type.kind.value, f.type.opening) for f in merge_inferred([a, b])]
        [('json', frozenset())]
    """
    fields: tuple[Field, ...] = reduce(merge_fields, parts, ())
    return tuple(replace(field, type=_undeclared(field.type)) for field in fields)


def _undeclared(type_: FieldType) -> FieldType:
    members = tuple(replace(member, type=_undeclared(member.type)) for member in type_.fields)
    item = None if type_.item is None else _undeclared(type_.item)
    return replace(type_, item=item, fields=members, opening=frozenset())


def _infer_lines(lines: list[bytes]) -> tuple[Field, ...]:
    decoder = Decoder()
    fields: dict[str, FieldType] = {}
    for line in lines:
        try:
            record = decoder.decode(line)
        except Fault:
            continue
        if isinstance(record, dict):
            for name, value in record.items():
                known = fields.get(name, _NULL)
                fields[name] = merge_types(known, _type_of_value(value, 1))
    return tuple(Field(name, t) for name, t in fields.items() if name)


def _type_of_value(value: Any, depth: int) -> FieldType:
    if isinstance(value, dict):
        if depth >= _MAX_DEPTH or "" in value or len({k.lower() for k in value}) < len(value):
            return FieldType(Kind.JSON)
        members = tuple(Field(k, _type_of_value(v, depth + 1)) for k, v in value.items())
        return FieldType(Kind.STRUCT, fields=members)
    if isinstance(value, list):
        if depth >= _MAX_DEPTH:
            return FieldType(Kind.JSON)
        items = (_type_of_value(v, depth + 1) for v in value)
        return FieldType(Kind.LIST, item=reduce(merge_types, items, _NULL))
    kind = kind_of_value(value)
    if isinstance(value, Literal) and kind == "string":
        return FieldType(Kind.JSON)
    if kind == "integer":
        return FieldType(Kind.INTEGER, 0 if int(value) in _EXACT else _LONG_DIGITS)
    return FieldType(Kind(kind))
