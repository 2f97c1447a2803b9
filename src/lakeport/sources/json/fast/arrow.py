"""The fast path by pyarrow's JSON reader: a block of lines at a time, or not at all."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.model import UnknownPolicy
from lakeport.schema.casting import check_range
from lakeport.schema.types import MAX_PRECISION, TIMESTAMP, FieldType, Kind, arrow_type
from lakeport.sources.json.arrow import parse_lines, tidy
from lakeport.sources.json.columns import Column, RecordLayout, batch_of, holds, schema_of
from lakeport.sources.json.decoding import Fault
from lakeport.sources.json.exact import mixed, raw_converter
from lakeport.sources.json.exponents import Exponents
from lakeport.sources.json.fast.pieces import Converted, Unknown
from lakeport.sources.json.fast.undeclared import (
    Refused,
    decode_all,
    decode_once,
    decode_some,
    find_unknown,
    mirror,
)
from lakeport.sources.singer.envelopes import has_known_keys, strip, unwrap
from lakeport.sources.singer.metadata import MESSAGE_KEYS

__all__ = ["ArrowPath"]

_ENVELOPE = {
    "time_extracted": pa.string(),
    "version": pa.int64(),
    "type": pa.string(),
    "stream": pa.string(),
}
_FEW = 64
_PARTS = 8
_BLANK = b" \t\r\n"
_REBUILT = (Kind.DATE, Kind.BINARY, Kind.DECIMAL)
_CHECKED = (*_REBUILT, Kind.TIMESTAMP, Kind.NUMBER)


class ArrowPath:
    """Converts blocks of lines of one layout; see `FastPath`.

    A block goes through pyarrow's parser. If anything in it is not exactly as declared it is cut
    into smaller blocks, and what is left of those is for the slow path, so that one odd record does
    not slow down the rest.

    Args:
        layout: how records are written, and what they are read as.
        survey: whether undeclared fields are expected, so that finding them must be fast.
    """

    def __init__(self, layout: RecordLayout, *, survey: bool) -> None:
        self._columns = columns = layout.columns
        self._schema = schema_of(columns)
        self._names = frozenset(c.name for c in columns)
        self._drop = layout.unknown is UnknownPolicy.DROP
        self._envelope = layout.envelope
        self._message_keys = MESSAGE_KEYS if layout.envelope and layout.metadata else {}
        self._outer = (
            {**_ENVELOPE, "time_extracted": TIMESTAMP} if self._message_keys else _ENVELOPE
        )
        self._plain = tuple(c for c in columns if not (c.raw or c.mixed))
        self._raws = tuple(c for c in columns if c.raw or c.mixed)
        self._parsed_as = {c.name: _parse_type(c.type) for c in columns}
        self._mirrors: dict[tuple[bool, bool], msgspec.json.Decoder[Any]] = {}
        self._survey = survey
        self._lenient = survey or self._drop or any(c.mixed for c in columns)
        self._undeclared = any(c.raw for c in columns)
        self._begun = self._foreign = False

    def read(self, data: bytes) -> Iterator[Converted | list[bytes]]:
        """Convert whole lines; see `FastPath`."""
        if self._envelope and not self._begun and (line := _first_line(data)):
            self._foreign = not has_known_keys(line)
            self._begun = True
        yield from self._cut(data)

    def _cut(self, data: bytes) -> Iterator[Converted | list[bytes]]:
        try:
            batch, unknown = self._attempt(data)
        except Refused:
            lines = data.split(b"\n")
        else:
            yield Converted(batch, data.count(b"\n") + 1, unknown)
            return
        if len(lines) <= _FEW:
            yield lines
            return
        size = -(-len(lines) // _PARTS)
        for start in range(0, len(lines), size):
            yield from self._cut(b"\n".join(lines[start : start + size]))

    def _attempt(self, data: bytes) -> tuple[pa.RecordBatch, Unknown]:
        if not self._undeclared:
            try:
                return self.strict(data, foreign=self._foreign), {}
            except Refused:
                if not self._lenient:
                    raise
        found = self.undeclared(data, foreign=self._foreign, survey=self._survey)
        self._undeclared = True
        return found

    def strict(self, block: bytes, *, foreign: bool) -> pa.RecordBatch:
        """Convert lines that hold nothing but declared fields, none of them JSON text.

        Args:
            block: whole lines.
            foreign: whether messages have keys that are not Singer's.

        Raises:
            Refused: some line has to be looked at.
        """
        text, rows, bare = self._text(block, foreign)
        arrays = self._parsed(text, rows, self._columns, bare=bare, ignore=False)
        return self._batch(rows, arrays)

    def undeclared(
        self, block: bytes, *, foreign: bool, survey: bool = False
    ) -> tuple[pa.RecordBatch, Unknown]:
        """Convert lines with JSON text columns, undeclared fields to drop, or text of any kind.

        Args:
            block: whole lines.
            foreign: whether messages have keys that are not Singer's.
            survey: whether to list undeclared fields instead of giving up at them.

        Raises:
            Refused: some line has to be looked at.
        """
        text, rows, bare = self._text(block, foreign)
        parsed = self._parsed(text, rows, self._plain, bare=bare, ignore=True)
        found = dict(zip((c.name for c in self._plain), parsed, strict=True))
        unknown: Unknown = {}
        if survey or self._drop:
            records = decode_once(text)
            if survey:
                bodies = records if bare else [r["record"] for r in records]
                unknown = find_unknown(bodies, self._names, Exponents(text))
            if "" in unknown and not self._drop:
                raise Refused
        if self._raws or survey:
            found.update(self._raw_columns(text, bare=bare, survey=survey))
        return self._batch(rows, [found[c.name] for c in self._columns]), unknown

    def _text(self, block: bytes, foreign: bool) -> tuple[bytes, int, bool]:
        """Tidy lines, how many they are, and whether they are records without envelopes."""
        lines = tidy(block)
        if lines is not None and lines[1] and self._envelope and foreign:
            decode_once(lines[0])
            records = strip(lines[0]) if self._message_keys else unwrap(lines[0])
            inner = None if records is None else tidy(records)
            lines = inner if inner is not None and inner[1] == lines[1] else None
        if lines is None or not lines[1]:
            raise Refused
        return (*lines, not self._envelope or (foreign and not self._message_keys))

    def _parsed(
        self, text: bytes, rows: int, columns: tuple[Column, ...], *, bare: bool, ignore: bool
    ) -> list[Any]:
        """The columns as pyarrow reads them, in their final types."""
        schema = pa.schema([(c.name, self._parsed_as[c.name]) for c in columns])
        exponents = Exponents(text)
        if any(holds(c.type, Kind.DECIMAL) for c in columns) and exponents.beyond_decimals:
            raise Refused
        if bare:
            table = parse_lines(text, rows, schema, ignore=ignore)
            if table is None:
                raise Refused
            found = dict(zip(table.column_names, table.columns, strict=True))
            parts = [found[c.name].chunk(0) for c in columns]
        else:
            whole = pa.schema([("record", pa.struct(list(schema))), *self._outer.items()])
            table = parse_lines(text, rows, whole, ignore=ignore)
            if table is None or table.column(0).null_count:
                raise Refused
            parts = table.column(0).chunk(0).flatten()
            for i, c in enumerate(columns if self._message_keys else ()):
                if c.name in self._message_keys:
                    values = table.column(self._message_keys[c.name]).chunk(0)
                    parts[i] = pc.coalesce(values, parts[i])
        return [_finished(p, c.type, exponents) for p, c in zip(parts, columns, strict=True)]

    def _raw_columns(self, text: bytes, *, bare: bool, survey: bool) -> dict[str, Any]:
        """The columns that keep JSON text; also finds what pyarrow was set to pass over."""
        top, nested = not (survey or self._drop), survey or not self._drop
        decoder = self._mirrors.get((top, nested))
        if decoder is None:
            decoder = mirror(self._columns, envelope=not bare, top=top, nested=nested)
            self._mirrors[top, nested] = decoder
        records = decode_all(decoder, text) if top else decode_some(decoder, text)
        if not bare:
            records = [r.record for r in records]
        places = {c.name: f"f{i}" for i, c in enumerate(self._columns)}
        found = {}
        for c in self._raws:
            texts = [bytes(getattr(r, places[c.name])) for r in records]
            if top:
                decode_once(b"\n".join(t for t in texts if b"{" in t or b"[" in t))
            found[c.name] = self._raw_column(c, texts, survey)
        return found

    def _raw_column(self, column: Column, texts: list[bytes], survey: bool) -> Any:
        convert: Callable[[bytes], Any] = mixed
        if not column.mixed:
            undeclared = _pass if self._drop and not survey else _refuse
            convert = raw_converter(column.type, column.name, undeclared)
        try:
            values = [None if t in (b"", b"null") else convert(t) for t in texts]
        except Fault as fault:
            raise Refused from fault
        return pa.array(values, arrow_type(column.type))

    def _batch(self, rows: int, arrays: Sequence[Any]) -> pa.RecordBatch:
        if any(c.required and a.null_count for c, a in zip(self._columns, arrays, strict=True)):
            raise Refused
        return batch_of(arrays, rows, self._schema)


def _first_line(data: bytes) -> bytes:
    return data.strip(_BLANK).partition(b"\n")[0]


def _refuse(path: str, value: Any) -> None:
    raise Refused


def _pass(path: str, value: Any) -> None:
    """Policy `drop`."""


def _parse_type(t: FieldType) -> pa.DataType:
    """How pyarrow is to parse a type: as it will be stored, or what that can be made of.

    Decimals get room for all digits that are written and all of the scale: pyarrow counts the
    digits before it shifts them, and shifts some beyond the end of 128 bits.
    """
    if t.kind is Kind.DECIMAL:
        return pa.decimal256(MAX_PRECISION, t.scale)
    if t.kind in _REBUILT:
        return pa.string()
    if t.kind is Kind.LIST and t.item is not None:
        return pa.list_(_parse_type(t.item))
    if t.kind is Kind.STRUCT:
        return pa.struct([(f.name, _parse_type(f.type)) for f in t.fields])
    return arrow_type(t)


def _finished(array: Any, t: FieldType, exponents: Exponents) -> Any:
    """An array as it is stored; what JSON or the type does not allow is refused."""
    if not holds(t, *_CHECKED):
        return array
    match t.kind:
        case Kind.STRUCT:
            members = zip(array.flatten(), t.fields, strict=True)
            parts = [_finished(part, f.type, exponents) for part, f in members]
            if holds(t, *_REBUILT):
                fields = list(arrow_type(t))
                array = pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
        case Kind.LIST:
            assert t.item is not None
            values = _finished(array.values, t.item, exponents)
            if holds(t, *_REBUILT):
                target, nulls = arrow_type(t), array.is_null()
                array = pa.ListArray.from_arrays(array.offsets, values, target, mask=nulls)
        case Kind.NUMBER:
            if not exponents.kept(array):
                raise Refused
        case Kind.DECIMAL | Kind.DATE:
            array = _cast(array, arrow_type(t))
        case Kind.BINARY:
            array = _base64(array)
    if not check_range(array):
        raise Refused
    return array


def _cast(array: Any, target: pa.DataType) -> Any:
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise Refused from error


def _base64(array: Any) -> Any:
    texts = array.to_pylist()
    try:
        values = [None if t is None else base64.b64decode(t, validate=True) for t in texts]
        return pa.array(values, pa.binary())
    except (binascii.Error, ValueError) as error:
        raise Refused from error
