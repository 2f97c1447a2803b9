"""Infer the columns of JSON records from all values, where no schema declares them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any

from lakeport.native import kernel
from lakeport.schema.literals import parse_microseconds
from lakeport.schema.types import (
    Field,
    FieldType,
    Kind,
    count_columns,
    merge_fields,
    merge_types,
    to_arrow_field,
)
from lakeport.sources.json.reader import take_lines
from lakeport.sources.json.record import (
    Fault,
    JsonDecoder,
    NumberLiteral,
    classify_value,
    to_kernel_spec,
)

_PIECE_BYTES = 1 << 16
_MIN_LINES, _MAX_LINES = 8, 256  # that Python infers from where the kernel stops
_COLUMNS_PER_LINE = 4  # cost at a stop of the kernel as much as one line in Python
_EXACT = range(-(2**53) + 1, 2**53)
_LONG_DIGITS = 19
_MAX_DEPTH = 40
_DATE_CHARS = len("2024-03-04")
_DATES = (Kind.DATE, Kind.TIMESTAMP)
_NULL = FieldType(Kind.NULL)
_JSON = FieldType(Kind.JSON)


def infer_fields(
    blocks: Iterable[bytes], as_json: Collection[str] = (), max_columns: int = 0
) -> tuple[Field, ...]:
    """Infer the columns of JSON lines from all values; JSON for a column of several kinds.

    Integers, numbers, booleans, dates, date-times, text, lists and objects are kept apart; texts
    are dates or date-times if all of them are ISO 8601. Values of different kinds, and numbers that
    neither 64 bit nor a double can hold, make the column JSON text. Lines that are no objects are
    skipped: the reader refuses them. The columns are in the order of their first values.

    Args:
        blocks: whole lines, each block of a size that fits in memory.
        as_json: columns that are JSON text, whatever they hold.
        max_columns: inference ends once there are more columns and members; 0 for no limit.

    >>> fields = infer_fields([b'{"n": 1, "d": "2024-01-01", "s": "x"}', b'{"n": 2.5, "b": true}'])
    >>> [(f.name, f.type.kind.value) for f in fields]
    [('n', 'number'), ('d', 'date'), ('s', 'string'), ('b', 'boolean')]
    """
    fields: tuple[Field, ...] = ()
    find_misfit = _create_search(fields)
    for piece in chain.from_iterable(map(_cut_pieces, blocks)):
        at, few = 0, _MIN_LINES
        while (stop := find_misfit(piece, at)) is not None:
            few = 1 if stop > at else min(2 * few, _MAX_LINES)
            lines, at = take_lines(piece, stop, max(few, len(fields) // _COLUMNS_PER_LINE))
            found = (
                replace(field, type=_JSON) if field.name in as_json else field
                for field in _infer_lines(lines)
            )
            before, fields = fields, merge_fields(fields, tuple(found))
            if max_columns:
                columns = [to_arrow_field(f.name, f.type) for f in fields]
                if count_columns(columns) > max_columns:
                    return merge_inferred([fields])
            if fields != before:
                find_misfit = _create_search(fields)
    return merge_inferred([fields])


def _cut_pieces(block: bytes) -> Iterator[bytes]:
    """Cut a block at line ends into pieces of 64 KiB or more; the last may be smaller.

    The kernel takes memory for every column in every record.
    """
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + _PIECE_BYTES) + 1 or len(block)
        yield block[start:end]
        start = end


def _create_search(fields: Sequence[Field]) -> Callable[[bytes, int], int | None]:
    """Return a function that finds the next line that may not fit `fields`: its offset, or None.

    It takes a piece and the offset to start at. Without the kernel, each line may differ.
    """
    native = kernel()
    if native is None:
        return lambda piece, start: start if start < len(piece) else None
    parser = native.parser([to_kernel_spec(f.name, f.type, plain=True) for f in fields], plain=True)

    def find_misfit(piece: bytes, start: int) -> int | None:
        *_, stop, _ = parser.parse(piece, start)
        return None if stop is None else stop[0]

    return find_misfit


def merge_inferred(parts: Iterable[tuple[Field, ...]]) -> tuple[Field, ...]:
    """Merge the columns inferred from parts of a source; a column of several kinds becomes JSON.

    >>> a, b = (infer_fields([line]) for line in (b'{"n": [1]}', b'{"n": {"m": 1}}'))
    >>> [(f.type.kind.value, f.type.opening) for f in merge_inferred([a, b])]
    [('json', frozenset())]
    """
    fields: tuple[Field, ...] = reduce(merge_fields, parts, ())
    return tuple(replace(field, type=_clear_openings(field.type)) for field in fields)


def _clear_openings(type_: FieldType) -> FieldType:
    """Clear `opening` in a type and its members, so that strings are not parsed as JSON."""
    members = tuple(replace(member, type=_clear_openings(member.type)) for member in type_.fields)
    item = None if type_.item is None else _clear_openings(type_.item)
    return replace(type_, item=item, fields=members, opening=frozenset())


def _infer_lines(lines: list[bytes]) -> tuple[Field, ...]:
    """Return the fields of some lines' records; skip bad lines and fields without a name."""
    decoder = JsonDecoder()
    fields: dict[str, FieldType] = {}
    for line in lines:
        try:
            record = decoder.decode(line)
        except Fault:
            continue
        if isinstance(record, dict):
            for name, value in record.items():
                known = fields.get(name, _NULL)
                fields[name] = merge_types(known, _infer_value_type(value, 1))
    return tuple(Field(name, t) for name, t in fields.items() if name)


def _infer_value_type(value: Any, depth: int) -> FieldType:
    """Return a decoded value's type; JSON from 40 levels on, or for empty or clashing names."""
    if isinstance(value, dict):
        if depth >= _MAX_DEPTH or "" in value or len({k.lower() for k in value}) < len(value):
            return FieldType(Kind.JSON)
        members = tuple(Field(k, _infer_value_type(v, depth + 1)) for k, v in value.items())
        return FieldType(Kind.STRUCT, fields=members)
    if isinstance(value, list):
        if depth >= _MAX_DEPTH:
            return FieldType(Kind.JSON)
        items = (_infer_value_type(v, depth + 1) for v in value)
        return FieldType(Kind.LIST, item=reduce(merge_types, items, _NULL))
    kind = classify_value(value)
    if type(value) is str:
        return FieldType(_classify_text(value))
    if isinstance(value, NumberLiteral) and kind == "string":
        return FieldType(Kind.JSON)
    if kind == "integer":
        return FieldType(Kind.INTEGER, 0 if int(value) in _EXACT else _LONG_DIGITS)
    return FieldType(Kind(kind))


def _classify_text(text: str) -> Kind:
    """Return the kind of a text: a date or a date-time in ISO 8601, else a string."""
    if len(text) < _DATE_CHARS:
        return Kind.STRING
    try:
        parse_microseconds(text)
    except ValueError:
        return Kind.STRING
    return Kind.DATE if len(text) == _DATE_CHARS else Kind.TIMESTAMP


def list_dates(t: FieldType, path: str) -> Iterator[tuple[str, FieldType]]:
    """Yield dotted path and type of each date or date-time in a type.

    >>> [*list_dates(FieldType(Kind.LIST, item=FieldType(Kind.DATE)), "days")][0][0]
    'days.element'
    """
    if t.kind in _DATES:
        yield path, t
    if t.item is not None:
        yield from list_dates(t.item, f"{path}.element")
    for member in t.fields:
        yield from list_dates(member.type, f"{path}.{member.name}")


def replace_dates(t: FieldType) -> FieldType:
    """Return a type with strings for dates and date-times, at any depth."""
    if t.kind in _DATES:
        return FieldType(Kind.STRING)
    members = tuple(replace(member, type=replace_dates(member.type)) for member in t.fields)
    return replace(t, item=t.item and replace_dates(t.item), fields=members)
