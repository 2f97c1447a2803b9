"""Convert one JSON record to the values of its columns, exactly as declared, or name its fault.

Other JSON types than the declared one are accepted where nothing is lost: `3.0` and `1e3` for an
integer, an integer for a number if a double holds it, a number or a text for a decimal, a date for
a date-time (its midnight in UTC), a midnight date-time for a date, a list or an object as its JSON
text for a list or an object. Numbers never become text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
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
)
from lakeport.sources.singer.metadata import MESSAGE_KEYS

if TYPE_CHECKING:
    from lakeport.native._kernel import Spec

_KINDS = {**TEXT_KINDS, pa.binary(): Kind.BINARY}

MAX_DEPTH = 500
"""Levels of nesting that a line may have."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STARTED = re.compile(r"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-)\s*\Z")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

Converter = Callable[[Any], Any]
"""Converts a JSON value that is not null to one that `pyarrow.array` takes; raises `Fault`."""

Undeclared = Callable[[str, Any], None]
"""Called with the dotted path and the value of a member that an object column does not declare."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONG = range(-(2**63), 2**63)
_LONG_DIGITS = 20
_NO_NUMBER = (b"[", b"{", b"t", b"f")
_RAW_KINDS = (Kind.JSON, Kind.MIXED, Kind.LIST, Kind.STRUCT)
_OPENED = {"{": "object", "[": "array"}

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


def to_kernel_spec(name: str, t: FieldType, *, plain: bool = False) -> Spec:
    """Describe a column of type `t` for the native kernel: its name, kind and details.

    With `plain`, as in inference, only values written as that type fit; see the kernel.
    """
    detail: Any = None
    if t.kind is Kind.DECIMAL:
        detail = t.precision, t.scale
    elif t.kind is Kind.JSON:
        detail = "" if plain else "".join(sorted(t.opening))
    elif t.kind is Kind.LIST:
        detail = to_kernel_spec("item", t.item or FieldType(Kind.JSON), plain=plain)
    elif t.kind is Kind.STRUCT:
        detail = [to_kernel_spec(f.name, f.type, plain=plain) for f in t.fields]
    small = plain and t.kind is Kind.INTEGER and not t.precision
    return name, "small" if small else t.kind.value, detail


@lru_cache(maxsize=64)
def resolve_columns(
    stream: str,
    fields: Sequence[Field],
    extra: Sequence[tuple[str, pa.DataType]],
    keys: Sequence[str],
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE,
) -> tuple[Field, ...]:
    """Return a reader's columns: declared `fields`, then `extra` ones; InputError if names clash.

    Where undeclared fields are dropped, no object keeps them (`FieldType.rest`).

    Args:
        extra: undeclared fields that became columns, with their table types.
        keys: columns without which a record is bad.
        unknown: the policy for other undeclared fields.

    Raises:
        InputError: names are empty or clash, or an undeclared field has a type that JSON values
            can't become.
    """
    drop = unknown is UnknownPolicy.DROP
    declared = [
        Field(f.name, _fill_unknown_types(f.type, drop), f.required or f.name in keys)
        for f in fields
    ]
    found = [
        Field(field.name, _type_of_stored(stream, field), field.name in keys)
        for field in starmap(pa.field, extra)
    ]
    columns = (*declared, *found)
    check_column_names(stream, (c.name for c in columns))
    return columns


def _type_of_stored(stream: str, field: pa.Field) -> FieldType:
    """Return the field type for a table's column; InputError if JSON can't be read as its type."""
    t = field.type
    if is_json(field):
        return FieldType(Kind.JSON)
    kind = _KINDS.get(t)
    if kind is Kind.STRING:
        return FieldType(Kind.MIXED)
    if kind is not None:
        return FieldType(kind)
    if pa.types.is_decimal128(t):
        return FieldType(Kind.DECIMAL, t.precision, t.scale)
    if pa.types.is_list(t):
        return FieldType(
            Kind.LIST, item=_type_of_stored(stream, t.value_field.with_name(field.name))
        )
    if pa.types.is_struct(t) and t.num_fields:
        members = tuple(Field(f.name, _type_of_stored(stream, f)) for f in t)
        return FieldType(Kind.STRUCT, fields=members)
    raise InputError(
        f"field {field.name!r} of stream {stream!r} is not declared, and the table has it as {t}",
        "declare the field in the stream's SCHEMA.",
    )


def _fill_unknown_types(t: FieldType, drop_undeclared: bool) -> FieldType:
    """Replace null types by string, and empty structs and list items without type by JSON.

    With `drop_undeclared`, objects lose their member for undeclared members.
    """
    if t.kind is Kind.NULL:
        return FieldType(Kind.STRING)
    if t.kind is Kind.STRUCT:
        kept = [f for f in t.fields if not (drop_undeclared and f.name == t.rest)]
        members = tuple(replace(f, type=_fill_unknown_types(f.type, drop_undeclared)) for f in kept)
        rest = "" if drop_undeclared else t.rest
        return replace(t, fields=members, rest=rest) if members else FieldType(Kind.JSON)
    if t.kind is Kind.LIST:
        return replace(t, item=_fill_unknown_types(t.item or FieldType(Kind.JSON), drop_undeclared))
    return t


def create_batch(arrays: Sequence[Any], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Build a record batch of arrays; if there are none, one of `rows` rows without columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def create_batch_from_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Build a record batch from one or more rows, each with a value for every column."""
    values = zip(*rows, strict=True)
    arrays = [pa.array(v, t) for v, t in zip(values, schema.types, strict=True)]
    return create_batch(arrays, len(rows), schema)


class Fault(Exception):
    """Raised for a bad record, with the column and the reason.

    Attributes:
        column: dotted path of the column at fault, empty if the whole record is.
        reason: without the record's values.
    """

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


class NumberLiteral(str):
    """The text of a JSON number, as it was written."""

    __slots__ = ()


class _Constant(str):
    """`NaN`, `Infinity` or `-Infinity`, which Python's decoder accepts."""

    __slots__ = ()


class _RepeatedKeys(dict[str, Any]):
    """A decoded object that had a key twice."""


class JsonDecoder:
    """Strict decoder of JSON values that keeps numbers as text; not to be shared between threads.

    >>> JsonDecoder().decode(b'{"n": 1.10}')
    {'n': '1.10'}
    """

    def __init__(self) -> None:
        self._repeated = False
        self._constants = False
        self._json = json.JSONDecoder(
            object_pairs_hook=self._build_object,
            parse_int=NumberLiteral,
            parse_float=NumberLiteral,
            parse_constant=self._mark_constant,
        )

    def decode(self, line: bytes) -> Any:
        """Decode a line's JSON value, numbers as `NumberLiteral`; Fault if it is not strict JSON.

        Invalid is a line that is cut off, not UTF-8, nested too deep, or has a key twice, NaN or
        Infinity, or text that is not Unicode.
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
            raise Fault("", "cut off" if _is_cut_off(error) else "not JSON") from None
        if self._repeated:
            path = _find_path(value, lambda part: type(part) is _RepeatedKeys)
            raise Fault(path or "", "duplicate key in an object")
        if self._constants:
            path = _find_path(value, lambda part: type(part) is _Constant)
            raise Fault(path or "", "NaN or Infinity, which are not JSON")
        if _SURROGATE.search(text) and (path := _find_path(value, _has_lone_surrogate)) is not None:
            raise Fault(path, "text that is not Unicode (half of a surrogate pair)")
        return value

    def _mark_constant(self, name: str) -> _Constant:
        """Note that the line has a constant that is not JSON, and return it."""
        self._constants = True
        return _Constant(name)

    def _build_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Build a dict of an object's members; flag a repeated key and return `_RepeatedKeys`."""
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self._repeated = True
        return _RepeatedKeys(found)


def depth_exceeds(line: bytes, limit: int) -> bool:
    """Whether arrays and objects are nested deeper than `limit`; brackets in strings don't count.

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


def _is_cut_off(error: json.JSONDecodeError) -> bool:
    """Whether a decoding error means that the JSON text ended in the middle of a value."""
    rest = error.doc[error.pos :]
    return (
        not rest.strip()
        or error.msg.startswith("Unterminated string")
        or _STARTED.match(rest) is not None
        or ("escape" in error.msg and len(rest) <= len("\\u0000"))
    )


def _find_path(value: Any, is_wanted: Callable[[Any], bool]) -> str | None:
    """Return the dotted path of the first part of a value for which `is_wanted` is true, or None.

    It does not recurse, as values may be nested deeply. Items of a list have the list's path.
    """
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, part = stack.pop()
        if is_wanted(part):
            return path
        if isinstance(part, dict):
            members = ((f"{path}.{k}" if path else k, v) for k, v in part.items())
            stack.extend(reversed(list(members)))
        elif isinstance(part, list):
            stack.extend((path, v) for v in reversed(part))
    return None


def _has_lone_surrogate(part: Any) -> bool:
    """Whether a string or an object's key has half a surrogate pair; False for other values."""
    texts = part if isinstance(part, dict) else (part,) if type(part) is str else ()
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            return True
    return False


_NAMES: dict[type, str] = {str: "string", bool: "boolean", list: "array", NumberLiteral: "number"}


def create_converter(t: FieldType, path: str) -> Converter:
    """Return a function that converts decoded JSON values to the scalar type `t`, or raises Fault.

    `path` is the dotted path of the column, for faults.
    """
    if t.kind is Kind.DECIMAL:
        return partial(_to_decimal, path, t.precision, t.scale)
    return partial(_CONVERTERS[t.kind], path)


def _wrong_type(path: str, expected: str, value: Any) -> Fault:
    """Return the Fault that names the expected JSON type and the value's own."""
    found = _NAMES.get(type(value), "object")
    return Fault(path, f"wrong type: expected {expected}, found {found}")


def _check_type(python_type: type, expected: str, path: str, value: Any) -> Any:
    """Return the value if its type is `python_type`; raise Fault otherwise."""
    if type(value) is not python_type:
        raise _wrong_type(path, expected, value)
    return value


def _to_integer(path: str, value: Any) -> int:
    """Convert a number literal to an integer; raise Fault for a fraction, or beyond 64 bits."""
    if type(value) is not NumberLiteral:
        raise _wrong_type(path, "integer", value)
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


def _parse_value(
    python_type: type, expected: str, parse: Callable[[str], Any], path: str, value: Any
) -> Any:
    """Return `parse(value)`; raise Fault if it raises ValueError, or for another `python_type`."""
    _check_type(python_type, expected, path, value)
    try:
        return parse(value)
    except ValueError as error:
        raise Fault(path, str(error)) from None


def _decode_base64(text: str) -> bytes:
    """Return the bytes of a base64 text; raise ValueError for any other text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("not base64") from None


def _to_decimal(path: str, precision: int, scale: int, value: Any) -> Decimal:
    """Convert a number or numeric string to Decimal; raise Fault if it has too many digits."""
    if type(value) is not NumberLiteral and type(value) is not str:
        raise _wrong_type(path, "decimal", value)
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


def create_raw_converter(t: FieldType, path: str, undeclared: Undeclared) -> Converter:
    """Return a function that converts JSON text to type `t`, also a nested one, or raises Fault.

    Args:
        path: dotted path of the column, for faults.
        undeclared: called for members that an object does not declare; it may raise `Fault`.
    """
    if t.kind is Kind.JSON:
        return partial(_to_json_text, path, t.opening) if t.opening else bytes.decode
    if t.kind is Kind.MIXED:
        return to_text
    if t.item is not None:
        item = create_raw_converter(t.item, f"{path}.element", undeclared)
        return partial(_convert_list, path, item)
    if t.kind is Kind.STRUCT:
        members = {
            f.name: create_raw_converter(f.type, f"{path}.{f.name}", undeclared) for f in t.fields
        }
        return partial(_convert_struct, path, members, undeclared, t.rest)
    return partial(_convert_raw, create_converter(t, path))


def to_text(raw: bytes) -> str:
    """Return the text of a JSON string; any other value's JSON text as it is."""
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()


def _to_json_text(path: str, brackets: frozenset[str], raw: bytes) -> str:
    """Return a value's JSON text; of a string, the JSON that it contains, or raise Fault.

    The JSON in a string begins with one of `brackets`.
    """
    text = _unwrap_text(raw, *brackets)
    if text.startswith(b'"'):
        names = sorted(_OPENED[bracket] for bracket in brackets)
        raise _wrong_type(path, " or ".join(names), JsonDecoder().decode(raw))
    return text.decode()


def _unwrap_text(raw: bytes, *brackets: str) -> bytes:
    """Return the JSON list or object that a JSON string contains; any other JSON unchanged.

    Some taps send lists and objects so. They may begin with one of `brackets`.
    """
    if not raw.startswith(b'"'):
        return raw
    text = msgspec.json.decode(raw, type=str)
    if not text.lstrip().startswith(brackets):
        return raw
    try:
        JsonDecoder().decode(text.encode())
    except Fault:
        return raw
    return text.strip().encode()


def _convert_raw(convert: Converter, raw: bytes) -> Any:
    """Decode JSON text and return `convert` of the value; `convert` may raise Fault."""
    if raw.startswith(b'"'):
        return convert(msgspec.json.decode(raw, type=str))
    return convert(
        JsonDecoder().decode(raw) if raw[:1] in _NO_NUMBER else NumberLiteral(raw.decode())
    )


def _convert_list(path: str, item: Converter, raw: bytes) -> list[Any]:
    """Convert the items of a JSON array, also one inside a string; Fault for any other value."""
    raw = _unwrap_text(raw, "[")
    if not raw.startswith(b"["):
        raise _wrong_type(path, "array", JsonDecoder().decode(raw))
    parts = map(bytes, _ITEMS.decode(raw))
    return [None if part == b"null" else item(part) for part in parts]


def _convert_struct(
    path: str,
    members: dict[str, Converter],
    undeclared: Undeclared,
    rest: str,
    raw: bytes,
) -> dict[str, Any]:
    """Convert the members of a JSON object, also one inside a string; Fault for any other value.

    Args:
        members: converters of the declared members.
        undeclared: called for other members, unless `rest` is set.
        rest: name of the member that has all other members as JSON; empty for none.
        raw: the object's JSON text.
    """
    raw = _unwrap_text(raw, "{")
    if not raw.startswith(b"{"):
        raise _wrong_type(path, "object", JsonDecoder().decode(raw))
    found: dict[str, Any] = {}
    others: dict[str, msgspec.Raw] = {}
    given = _MEMBERS.decode(raw)
    if rest in given and not given.keys() <= members.keys():
        others[rest] = given.pop(rest)  # a member of that very name is one of several others
    for name, value in given.items():
        part = bytes(value)
        convert = members.get(name)
        if convert is None and rest:
            others[name] = value
        elif convert is None:
            undeclared(f"{path}.{name}", JsonDecoder().decode(part))
        else:
            found[name] = None if part == b"null" else convert(part)
    if others:
        found[rest] = msgspec.json.encode(others).decode()
    return found


_CONVERTERS: dict[Kind, Callable[[str, Any], Any]] = {
    Kind.STRING: partial(_check_type, str, "string"),
    Kind.BOOLEAN: partial(_check_type, bool, "boolean"),
    Kind.INTEGER: _to_integer,
    Kind.NUMBER: partial(_parse_value, NumberLiteral, "number", parse_double),
    Kind.TIMESTAMP: partial(_parse_value, str, "date-time string", parse_microseconds),
    Kind.DATE: partial(_parse_value, str, "date string", parse_days),
    Kind.BINARY: partial(_parse_value, str, "base64 string", _decode_base64),
}


def classify_value(value: Any) -> str:
    """Return a decoded value's kind: `null`, `boolean`, `string`, a kind of number, or `json`."""
    if value is None:
        return "null"
    if isinstance(value, NumberLiteral):
        return classify_number(value)
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "json"


class RecordParser:
    """Parses single JSON records in Python, as the native kernel does; not thread-safe.

    Attributes:
        unknown: undeclared field -> kind of its value, for the last record parsed. With policy
            `drop` also the dotted paths of undeclared members of objects.

    Args:
        columns: of the records, in order.
        policy: for undeclared fields.
        envelope: whether a line is a Singer message with the record as a member.
        metadata: whether the message's other members are columns, too.
    """

    def __init__(
        self,
        columns: Sequence[Field],
        policy: UnknownPolicy,
        *,
        envelope: bool,
        metadata: bool,
    ) -> None:
        self.unknown: dict[str, str] = {}
        self._message_keys: dict[str, tuple[int, Converter]] = {}
        self._envelope = envelope
        self._drop = policy is UnknownPolicy.DROP
        self._decoder = JsonDecoder()
        self._required = tuple(c.name for c in columns if c.required)
        self._index = {c.name: i for i, c in enumerate(columns)}
        self._plain: dict[str, Converter] = {}
        self._raw: dict[str, Converter] = {}
        for c in columns:
            if c.type.kind in _RAW_KINDS:
                self._raw[c.name] = create_raw_converter(c.type, c.name, self._note_undeclared)
            else:
                self._plain[c.name] = create_converter(c.type, c.name)
        for c in columns if envelope and metadata else ():
            if (key := MESSAGE_KEYS.get(c.name)) is not None:
                self._message_keys[key] = self._index[c.name], create_converter(c.type, key)

    def parse(self, line: bytes) -> list[Any]:
        """Return a record's values in column order and replace `unknown`; Fault if it is bad."""
        self.unknown = {}
        message, members = self._decode(line)
        row: list[Any] = [None] * len(self._index)
        raws = self._split_members(line) if self._raw else {}
        for name, value in members.items():
            convert = self._plain.get(name)
            if convert is not None:
                if value is not None:
                    row[self._index[name]] = convert(value)
            elif name in self._raw:
                if value is not None:
                    row[self._index[name]] = self._raw[name](bytes(raws[name]))
            elif name or self._drop:
                self.unknown[name] = classify_value(value)
            else:
                raise Fault("", "field with an empty name")
        for key, (at, convert) in self._message_keys.items():
            if message.get(key) is not None:
                row[at] = convert(message[key])
        for name in self._required:
            if row[self._index[name]] is None:
                raise Fault(name, "missing required field")
        return row

    def _decode(self, line: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """Decode a line to its Singer message ({} for plain JSON) and record; Fault if bad."""
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

    def _split_members(self, line: bytes) -> dict[str, msgspec.Raw]:
        """Return the JSON text of each field of the record in a valid line."""
        members = _MEMBERS.decode(line)
        return _MEMBERS.decode(members["record"]) if self._envelope else members

    def _note_undeclared(self, path: str, value: Any) -> None:
        """Record an object's undeclared member in `unknown`; Fault unless the policy is `drop`."""
        if not self._drop:
            raise Fault(path, "undeclared field inside an object column")
        self.unknown[path] = classify_value(value)
