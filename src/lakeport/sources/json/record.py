"""One line of JSON -> the values of its columns, exactly as declared, or the fault that it has.

What is taken besides the declared JSON type, because nothing is lost by it: `3.0` and `1e3` for an
integer, an integer for a number if a double holds it, a number or a text for a decimal, a date for
a date-time (its midnight in UTC), a midnight date-time for a date, a list or an object as its JSON
text for a list or an object. Text is never made of numbers.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakeport.errors import InputError
from lakeport.model import UnknownPolicy
from lakeport.schema.literals import parse_days, parse_double, parse_microseconds, split_significand
from lakeport.schema.nested import is_json
from lakeport.schema.types import (
    TEXT_KINDS,
    Field,
    FieldType,
    Kind,
    check_column_names,
    classify_number,
    to_arrow_field,
)
from lakeport.sources.singer.metadata import MESSAGE_KEYS

if TYPE_CHECKING:
    from lakeport.native._kernel import Spec
    from lakeport.sources.json.reader import JsonReader

_KINDS = {**TEXT_KINDS, pa.binary(): Kind.BINARY}

MAX_DEPTH = 500
"""Levels of nesting that a line may have."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STARTED = re.compile(r"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-)\s*\Z")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

Converter = Callable[[Any], Any]
"""A decoded JSON value that is not null -> what `pyarrow.array` takes; raises `Fault`."""

Undeclared = Callable[[str, Any], None]
"""Told the dotted path and the value of a member that an object column does not declare."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONG = range(-(2**63), 2**63)
_LONG_DIGITS = 20
_NO_NUMBER = (b"[", b"{", b"t", b"f")
_OF_PARTS = (Kind.JSON, Kind.LIST, Kind.STRUCT)
_OPENED = {"{": "object", "[": "array"}

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class JsonColumn:
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
) -> tuple[JsonColumn, ...]:
    """Put declared fields and the undeclared ones that became columns together.

    Where undeclared fields are dropped, no object keeps them (`FieldType.rest`).

    Raises:
        InputError: names are empty or clash, or an undeclared field has a type that JSON values
            can't become.
    """
    drop = unknown is UnknownPolicy.DROP
    declared = [
        JsonColumn(f.name, _settled(f.type, drop), f.required or f.name in keys) for f in fields
    ]
    found = [
        JsonColumn(
            field.name,
            _declared(stream, field),
            field.name in keys,
            mixed=pa.types.is_string(field.type) and not is_json(field),
        )
        for field in starmap(pa.field, extra)
    ]
    columns = (*declared, *found)
    check_column_names(stream, (c.name for c in columns))
    return columns


def _declared(stream: str, field: pa.Field) -> FieldType:
    """The declared type that is stored as a table's column."""
    t = field.type
    if is_json(field):
        return FieldType(Kind.JSON)
    kind = _KINDS.get(t)
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


def schema_of(columns: Sequence[JsonColumn]) -> pa.Schema:
    """The table types of columns."""
    return pa.schema([to_arrow_field(c.name, c.type) for c in columns])


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


class Fault(Exception):
    """Why a record is bad.

    Attributes:
        column: dotted path of the column at fault, empty where it is the whole record.
        reason: kind of fault, without the record's values.
    """

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


class Literal(str):
    """A number as it was written."""

    __slots__ = ()


class _Constant(str):
    """`NaN`, `Infinity` or `-Infinity`."""

    __slots__ = ()


class _Repeated(dict[str, Any]):
    """An object that had a key twice."""


class Decoder:
    """Reads JSON values one by one; not to be shared between threads.

    Example:
        >>> Decoder().decode(b'{"n": 1.10}')
        {'n': '1.10'}
    """

    def __init__(self) -> None:
        self._repeated = False
        self._constants = False
        self._json = json.JSONDecoder(
            object_pairs_hook=self._members,
            parse_int=Literal,
            parse_float=Literal,
            parse_constant=self._constant,
        )

    def decode(self, line: bytes) -> Any:
        """Read one value; numbers become `Literal`.

        Raises:
            Fault: it is not JSON, cut off, not UTF-8, nested too deep, or has a key twice, a
                number that is none (NaN), or text that is not Unicode.
        """
        if depth_exceeds(line, MAX_DEPTH):
            raise Fault("", _TOO_DEEP)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise Fault("", f"not UTF-8 (byte {error.start} of the line)") from None
        self._repeated = self._constants = False
        try:
            value = self._json.decode(text)
        except RecursionError:
            raise Fault("", _TOO_DEEP) from None
        except json.JSONDecodeError as error:
            raise Fault("", "cut off" if _cut_off(error) else "not JSON") from None
        if self._repeated:
            path = _find(value, lambda part: type(part) is _Repeated)
            raise Fault(path or "", "duplicate key in an object")
        if self._constants:
            path = _find(value, lambda part: type(part) is _Constant)
            raise Fault(path or "", "NaN or Infinity, which are not JSON")
        if _SURROGATE.search(text) and (path := _find(value, _broken)) is not None:
            raise Fault(path, "text that is not Unicode (half of a surrogate pair)")
        return value

    def _constant(self, name: str) -> _Constant:
        self._constants = True
        return _Constant(name)

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self._repeated = True
        return _Repeated(found)


def depth_exceeds(line: bytes, limit: int) -> bool:
    """Whether arrays and objects are nested deeper than `limit`, in linear time.

    Example:
        >>> depth_exceeds(b'{"a": ["[[", []]}', 2)
        True
    """
    if line.count(b"[") + line.count(b"{") <= limit:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", line)):
        if bracket[0] in b"[{":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def _cut_off(error: json.JSONDecodeError) -> bool:
    """Whether the text ended before the value did."""
    rest = error.doc[error.pos :]
    return (
        not rest.strip()
        or error.msg.startswith("Unterminated string")
        or _STARTED.match(rest) is not None
        or ("escape" in error.msg and len(rest) <= len("\\u0000"))
    )


def _find(value: Any, wanted: Callable[[Any], bool]) -> str | None:
    """Dotted path of the first part that is wanted, without recursion."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, part = stack.pop()
        if wanted(part):
            return path
        if isinstance(part, dict):
            members = ((f"{path}.{k}" if path else k, v) for k, v in part.items())
            stack.extend(reversed(list(members)))
        elif isinstance(part, list):
            stack.extend((path, v) for v in reversed(part))
    return None


def _broken(part: Any) -> bool:
    texts = part if isinstance(part, dict) else (part,) if type(part) is str else ()
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            return True
    return False


_NAMES: dict[type, str] = {str: "string", bool: "boolean", list: "array", Literal: "number"}


def converter(t: FieldType, path: str) -> Converter:
    """Make the function that converts decoded values of a type without parts.

    Args:
        t: the type.
        path: dotted path of the column, for faults.
    """
    if t.kind is Kind.DECIMAL:
        return partial(_decimal, path, t.precision, t.scale)
    return partial(_PLAIN[t.kind], path)


def _wrong(path: str, expected: str, value: Any) -> Fault:
    found = _NAMES.get(type(value), "object")
    return Fault(path, f"wrong type: expected {expected}, found {found}")


def _as_is(of: type, expected: str, path: str, value: Any) -> Any:
    if type(value) is not of:
        raise _wrong(path, expected, value)
    return value


def _integer(path: str, value: Any) -> int:
    if type(value) is not Literal:
        raise _wrong(path, "integer", value)
    if value.removeprefix("-").isdecimal() and len(value) <= _LONG_DIGITS:
        number = int(value)
    else:
        digits, power = split_significand(value)
        if digits and len(digits) + power > _LONG_DIGITS:
            raise Fault(path, "integer over 64 bit")
        if digits and power < 0:
            raise Fault(path, "wrong type: expected integer, found a number with a fraction")
        number = int(digits) * 10**power if digits else 0
        number = -number if value.startswith("-") else number
    if number not in _LONG:
        raise Fault(path, "integer over 64 bit")
    return number


def _number(path: str, value: Any) -> float:
    if type(value) is not Literal:
        raise _wrong(path, "number", value)
    try:
        return parse_double(value)
    except ValueError as error:
        raise Fault(path, str(error)) from None


def _text(what: str, read: Callable[[str], int], path: str, value: Any) -> int:
    if type(value) is not str:
        raise _wrong(path, what, value)
    try:
        return read(value)
    except ValueError as error:
        raise Fault(path, str(error)) from None


def _binary(path: str, value: Any) -> bytes:
    if type(value) is not str:
        raise _wrong(path, "base64 string", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Fault(path, "not base64") from None


def _decimal(path: str, precision: int, scale: int, value: Any) -> Decimal:
    if type(value) is not Literal and type(value) is not str:
        raise _wrong(path, "decimal", value)
    if not _NUMBER.fullmatch(value):
        raise Fault(path, "not a number")
    digits, power = split_significand(value)
    if not digits:
        return Decimal(0)
    if -power > scale:
        raise Fault(path, f"more than {scale} digits after the point")
    if len(digits) + power > precision - scale:
        raise Fault(path, f"more than {precision - scale} digits before the point")
    sign = "-" if value.startswith("-") else ""
    return Decimal(f"{sign}{digits}{'0' * (power + scale)}E-{scale}")


def _parsed(text: str, *opening: str) -> Any:
    """The list or object that a text holds as JSON, which is how some taps send them."""
    if not text.lstrip().startswith(opening):
        return text
    try:
        return Decoder().decode(text.encode())
    except Fault:
        return text


def raw_converter(t: FieldType, path: str, undeclared: Undeclared) -> Converter:
    """Make the function that converts values from their JSON text, which must be valid.

    Args:
        t: the type.
        path: dotted path of the column, for faults.
        undeclared: called for members that a struct does not declare; it may raise `Fault`.
    """
    if t.kind is Kind.JSON:
        return partial(_json, path, t.opening) if t.opening else bytes.decode
    if t.item is not None:
        item = raw_converter(t.item, f"{path}.element", undeclared)
        return partial(_list, path, msgspec.json.Decoder(list[msgspec.Raw]), item)
    if t.kind is Kind.STRUCT:
        members = {f.name: raw_converter(f.type, f"{path}.{f.name}", undeclared) for f in t.fields}
        objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
        return partial(_struct, path, objects, members, undeclared, t.rest)
    return partial(_decoded, converter(t, path))


def mixed(raw: bytes) -> str:
    """Turn the JSON text of an undeclared field into text: strings as they are.

    Example:
        >>> mixed(b'"a"'), mixed(b'{"a": 1}')
        ('a', '{"a": 1}')
    """
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()


def _json(path: str, opening: frozenset[str], raw: bytes) -> str:
    """JSON text of a column that is declared as objects, or as objects and lists, not as text."""
    text = _inside(raw, *opening)
    if text.startswith(b'"'):
        names = sorted(_OPENED[bracket] for bracket in opening)
        raise _wrong(path, " or ".join(names), Decoder().decode(raw))
    return text.decode()


def _inside(raw: bytes, *opening: str) -> bytes:
    """The list or object that a JSON string holds, else the JSON text as it is."""
    if not raw.startswith(b'"'):
        return raw
    text = msgspec.json.decode(raw, type=str)
    return raw if type(_parsed(text, *opening)) is str else text.strip().encode()


def _decoded(convert: Converter, raw: bytes) -> Any:
    if raw.startswith(b'"'):
        return convert(msgspec.json.decode(raw, type=str))
    return convert(Decoder().decode(raw) if raw[:1] in _NO_NUMBER else Literal(raw.decode()))


def _list(
    path: str, decoder: msgspec.json.Decoder[list[msgspec.Raw]], item: Converter, raw: bytes
) -> list[Any]:
    raw = _inside(raw, "[")
    if not raw.startswith(b"["):
        raise _wrong(path, "array", Decoder().decode(raw))
    parts = map(bytes, decoder.decode(raw))
    return [None if part == b"null" else item(part) for part in parts]


def _struct(
    path: str,
    decoder: msgspec.json.Decoder[dict[str, msgspec.Raw]],
    members: dict[str, Converter],
    undeclared: Undeclared,
    rest: str,
    raw: bytes,
) -> dict[str, Any]:
    raw = _inside(raw, "{")
    if not raw.startswith(b"{"):
        raise _wrong(path, "object", Decoder().decode(raw))
    found: dict[str, Any] = {}
    others: dict[str, msgspec.Raw] = {}
    given = decoder.decode(raw)
    if rest in given and not given.keys() <= members.keys():
        others[rest] = given.pop(rest)  # a member of that very name is one of several others
    for name, value in given.items():
        part = bytes(value)
        convert = members.get(name)
        if convert is None and rest:
            others[name] = value
        elif convert is None:
            undeclared(f"{path}.{name}", Decoder().decode(part))
        else:
            found[name] = None if part == b"null" else convert(part)
    if others:
        found[rest] = msgspec.json.encode(others).decode()
    return found


_PLAIN: dict[Kind, Callable[[str, Any], Any]] = {
    Kind.STRING: partial(_as_is, str, "string"),
    Kind.BOOLEAN: partial(_as_is, bool, "boolean"),
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.TIMESTAMP: partial(_text, "date-time string", parse_microseconds),
    Kind.DATE: partial(_text, "date string", parse_days),
    Kind.BINARY: _binary,
}


def kind_of_value(value: Any) -> str:
    """Tell the kind of a decoded value (see `lakeport.sources.json.record`)."""
    if value is None:
        return "null"
    if isinstance(value, Literal):
        return classify_number(value)
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "json"


class RecordParser:
    """Reads single lines exactly; not to be shared between threads.

    Attributes:
        unknown: undeclared field -> kind of its value, for the last record read. With policy
            `drop` also the dotted paths of undeclared members of objects.
    """

    def __init__(self, reader: JsonReader) -> None:
        columns = reader.columns
        self.unknown: dict[str, str] = {}
        self._message_keys: dict[str, tuple[int, Converter]] = {}
        self._envelope = reader.envelope
        self._drop = reader.unknown is UnknownPolicy.DROP
        self._decoder = Decoder()
        self._required = tuple(c.name for c in columns if c.required)
        self._index = {c.name: i for i, c in enumerate(columns)}
        self._plain: dict[str, Converter] = {}
        self._raw: dict[str, Converter] = {}
        for c in columns:
            if c.mixed:
                self._raw[c.name] = mixed
            elif c.type.kind in _OF_PARTS:
                self._raw[c.name] = raw_converter(c.type, c.name, self._undeclared)
            else:
                self._plain[c.name] = converter(c.type, c.name)
        for c in columns if reader.envelope and reader.metadata else ():
            if (key := MESSAGE_KEYS.get(c.name)) is not None:
                self._message_keys[key] = self._index[c.name], converter(c.type, key)

    def record(self, line: bytes) -> list[Any]:
        """Convert one record to the values of the columns, in order.

        Raises:
            Fault: the record is bad.
        """
        self.unknown = {}
        message, members = self._members(line)
        row: list[Any] = [None] * len(self._index)
        raws = self._raws(line) if self._raw else {}
        for name, value in members.items():
            convert = self._plain.get(name)
            if convert is not None:
                if value is not None:
                    row[self._index[name]] = convert(value)
            elif name in self._raw:
                if value is not None:
                    row[self._index[name]] = self._raw[name](bytes(raws[name]))
            elif name or self._drop:
                self.unknown[name] = kind_of_value(value)
            else:
                raise Fault("", "field with an empty name")
        for key, (at, convert) in self._message_keys.items():
            if message.get(key) is not None:
                row[at] = convert(message[key])
        for name in self._required:
            if row[self._index[name]] is None:
                raise Fault(name, "missing required field")
        return row

    def _members(self, line: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """The message (empty if the line is none) and the record."""
        message: dict[str, Any] = {}
        try:
            value = self._decoder.decode(line)
        except Fault as fault:
            if not self._envelope:
                raise
            column = "" if fault.column == "record" else fault.column.removeprefix("record.")
            raise Fault(column, fault.reason) from None
        if self._envelope and isinstance(value, dict):
            if "record" not in value:
                raise Fault("", "message without a record")
            message, value = value, value["record"]
        if not isinstance(value, dict):
            raise Fault("", "not an object")
        return message, value

    def _raws(self, line: bytes) -> dict[str, msgspec.Raw]:
        members = _MEMBERS.decode(line)
        return _MEMBERS.decode(members["record"]) if self._envelope else members

    def _undeclared(self, path: str, value: Any) -> None:
        if not self._drop:
            raise Fault(path, "undeclared field inside an object column")
        self.unknown[path] = kind_of_value(value)
