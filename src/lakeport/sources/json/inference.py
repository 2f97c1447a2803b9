"""Types from values, where no schema declares them: the columns of JSON records."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakeport.native import kernel
from lakeport.schema.merging import merge_fields, merge_types
from lakeport.schema.types import Field, FieldType, Kind, arrow_field, number_kind
from lakeport.schema.width import count_columns
from lakeport.sources.json.decoding import Decoder, Fault, Literal, depth_exceeds

if TYPE_CHECKING:
    from lakeport.native._kernel import Spec

_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
_CELLS = 1 << 20  # of a piece: pyarrow makes room for every key in every record
_LONG = range(-(2**63), 2**63)
_EXACT = range(-(2**53) + 1, 2**53)
_LONG_DIGITS = 19
_MAX_DEPTH = 40
_NEWLINE, _OPEN, _CLOSE = b"\n{}"
_TINY = re.compile(rb'[":\[, \t\r\n][-+.\d]+[eE]-\d{3,}(?=["\]}, \t\r\n])')
_ZEROS = b"0" * 200
_NULL = FieldType(Kind.NULL)
_JSON = FieldType(Kind.JSON)
_ARROW = {pa.bool_(): Kind.BOOLEAN, pa.null(): Kind.NULL}


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
    fits: Callable[[bytes], bool] = _nothing_fits
    for block in blocks:
        if fits(block):
            continue
        for piece in _pieces(block):
            found = (
                replace(field, type=_JSON) if field.name in opaque else field
                for field in _infer_block(piece)
            )
            fields = merge_fields(fields, tuple(found))
            if most and count_columns([arrow_field(f.name, f.type) for f in fields]) > most:
                return merge_inferred([fields])
        fits = _check_of(fields)
    return merge_inferred([fields])


def _pieces(block: bytes) -> Iterator[bytes]:
    """Cut a block until its records and its keys, multiplied, are no more than memory holds."""
    keys, lines = len(set(_KEY.findall(block))), block.count(b"\n") + 1
    if lines == 1 or keys * lines <= _CELLS:
        yield block
        return
    middle = block.find(b"\n", len(block) // 2)
    middle = middle if middle >= 0 else block.rfind(b"\n")
    yield from _pieces(block[:middle])
    yield from _pieces(block[middle + 1 :])


def _nothing_fits(block: bytes) -> bool:
    return False


def _check_of(fields: Sequence[Field]) -> Callable[[bytes], bool]:
    """Make what tells whether inference would surely find nothing but these fields in a block."""
    native = kernel()
    if native is None:
        return _nothing_fits
    parser = native.parser([_spec(f.name, f.type) for f in fields], plain=True)

    def fits(block: bytes) -> bool:
        *_, stop, _ = parser.parse(block, 0)
        return stop is None

    return fits


def _spec(name: str, t: FieldType) -> Spec:
    """An inferred type as the kernel takes it."""
    if t.kind is Kind.INTEGER:
        return name, "integer" if t.precision else "small", None
    if t.kind is Kind.JSON:
        return name, "json", ""
    if t.item is not None:
        return name, "list", _spec("item", t.item)
    if t.kind is Kind.STRUCT:
        return name, "struct", [_spec(f.name, f.type) for f in t.fields]
    return name, t.kind.value, None


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


def kind_of_value(value: Any) -> str:
    """Tell the kind of a decoded value (see `lakeport.sources.json.decoding`)."""
    if value is None:
        return "null"
    if isinstance(value, Literal):
        return number_kind(value)
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "json"


def _infer_block(data: bytes) -> tuple[Field, ...]:
    lines = data.split(b"\n")
    fields = None
    if not any(depth_exceeds(line, _MAX_DEPTH) for line in lines):
        fields = _infer_fast(data)
    return _infer_lines(lines) if fields is None else fields


def _infer_fast(data: bytes) -> tuple[Field, ...] | None:
    """Infer a block's columns by pyarrow; None where that is not surely exact."""
    table = _parse(data)
    if table is None:
        return None
    fields = []
    tiny = _may_underflow(data)
    for name, column in zip(table.column_names, table.columns, strict=True):
        found = _type_of_array(column.combine_chunks(), tiny)
        if found is None:
            return None
        fields.append(Field(name, found))
    return tuple(f for f in fields if f.name)


def _parse(data: bytes) -> pa.Table | None:
    """Parse lines by pyarrow; None where one is no object, or not surely read as written."""
    stripped = (line.strip(b" \t\r") for line in data.split(b"\n"))
    text = b"\n".join(line for line in stripped if line)
    if not text:
        return pa.table({})
    # A first line that is no object would crash pyarrow.
    if not (text.startswith(b"{") and text.endswith(b"}") and _is_unicode(text)):
        return None
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(codes == _NEWLINE)
    if not ((codes[ends + 1] == _OPEN).all() and (codes[ends - 1] == _CLOSE).all()):
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        )
        table.validate()  # it makes invalid arrays where a list begins with a null
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table if table.num_rows == len(ends) + 1 else None


def _is_unicode(text: bytes) -> bool:
    """Whether bytes are UTF-8; at the speed of memory where they are ASCII."""
    if text.isascii():
        return True
    offsets = pa.array([0, len(text)], pa.int32()).buffers()[1]
    try:
        pa.StringArray.from_buffers(1, offsets, pa.py_buffer(text)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _may_underflow(text: bytes) -> bool:
    """Whether a number in `text` may be zero as a double although it is not."""
    small = b"e-" in text or b"E-" in text
    return _ZEROS in text or (small and _TINY.search(text) is not None)


def _type_of_array(array: Any, tiny: bool) -> FieldType | None:
    """The type of pyarrow's values; None where they have to be looked at one by one."""
    t = array.type
    if pa.types.is_struct(t):
        members = [(f.name, _type_of_array(array.field(i), tiny)) for i, f in enumerate(t)]
        names = {name.lower() for name, _ in members}
        if len(names) < len(members) or "" in names:
            return FieldType(Kind.JSON)
        if any(found is None for _, found in members):
            return None
        return FieldType(Kind.STRUCT, fields=tuple(Field(n, m) for n, m in members if m))
    if pa.types.is_list(t):
        item = _type_of_array(array.values, tiny)
        return FieldType(Kind.LIST, item=item) if item else None
    if pa.types.is_floating(t):
        zero = tiny and pc.any(pc.equal(array, 0.0)).as_py()
        return FieldType(Kind.NUMBER) if _below(array, 2**53) and not zero else None
    if pa.types.is_integer(t):
        return FieldType(Kind.INTEGER, 0 if _below(array, 2**53) else _LONG_DIGITS)
    return FieldType(_ARROW.get(t, Kind.STRING))


def _below(array: Any, bound: int) -> bool:
    """Whether all numbers are smaller than `bound`, whatever their sign, and none is NaN."""
    if len(array) == array.null_count:
        return True
    if pa.types.is_integer(array.type):
        found = pc.min_max(array)
        return bool(-bound < found["min"].as_py() and found["max"].as_py() < bound)
    return bool(pc.all(pc.less(pc.abs(array), float(bound))).as_py())


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
