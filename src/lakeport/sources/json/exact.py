"""One record -> the values of its columns, exactly as declared, or the fault that it has.

What is taken besides the declared JSON type, because nothing is lost by it: `3.0` and `1e3` for an
integer, an integer for a number if a double holds it, a number or a text for a decimal, a date for
a date-time (its midnight in UTC), a midnight date-time for a date, a list or an object as its JSON
text for a list or an object. Text is never made of numbers.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from lakeport.schema.calendars import days, microseconds
from lakeport.schema.numbers import double, significand
from lakeport.schema.types import FieldType, Kind
from lakeport.sources.json.columns import holds
from lakeport.sources.json.decoding import Decoder, Fault, Literal

Converter = Callable[[Any], Any]
"""A decoded JSON value that is not null -> what `pyarrow.array` takes; raises `Fault`."""

Undeclared = Callable[[str, Any], None]
"""Told the dotted path and the value of a member that an object column does not declare."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONG = range(-(2**63), 2**63)
_LONG_DIGITS = 20
_OPENED = {"{": "object", "[": "array"}
_NAMES: dict[type, str] = {str: "string", bool: "boolean", list: "array", Literal: "number"}


def converter(t: FieldType, path: str, undeclared: Undeclared) -> Converter:
    """Make the function that converts values of one type.

    Args:
        t: the type, one that keeps no JSON text (see `raw_converter`).
        path: dotted path of the column, for faults.
        undeclared: called for members that a struct does not declare; it may raise `Fault`.
    """
    if t.kind is Kind.LIST:
        assert t.item is not None
        item = converter(t.item, f"{path}.element", undeclared)
        return partial(_list, path, item)
    if t.kind is Kind.STRUCT:
        members = {f.name: converter(f.type, f"{path}.{f.name}", undeclared) for f in t.fields}
        return partial(_struct, path, members, undeclared)
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
        digits, power = significand(value)
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
        return double(value)
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
    digits, power = significand(value)
    if not digits:
        return Decimal(0)
    if -power > scale:
        raise Fault(path, f"more than {scale} digits after the point")
    if len(digits) + power > precision - scale:
        raise Fault(path, f"more than {precision - scale} digits before the point")
    sign = "-" if value.startswith("-") else ""
    return Decimal(f"{sign}{digits}{'0' * (power + scale)}E-{scale}")


def _list(path: str, item: Converter, value: Any) -> list[Any]:
    found = _parsed(value, "[") if type(value) is str else value
    if type(found) is not list:
        raise _wrong(path, "array", value)
    return [None if v is None else item(v) for v in found]


def _parsed(text: str, *opening: str) -> Any:
    """The list or object that a text holds as JSON, which is how some taps send them."""
    if not text.lstrip().startswith(opening):
        return text
    try:
        return Decoder().decode(text.encode())
    except Fault:
        return text


def _struct(
    path: str, members: dict[str, Converter], undeclared: Undeclared, value: Any
) -> dict[str, Any]:
    given = _parsed(value, "{") if type(value) is str else value
    if not isinstance(given, dict):
        raise _wrong(path, "object", value)
    found: dict[str, Any] = {}
    for name, part in given.items():
        convert = members.get(name)
        if convert is None:
            undeclared(f"{path}.{name}", part)
        else:
            found[name] = None if part is None else convert(part)
    return found


def raw_converter(t: FieldType, path: str, undeclared: Undeclared) -> Converter:
    """Make the function that converts values from their JSON text, which must be valid.

    For types that keep JSON text somewhere; what does not is decoded and converted as usual.

    Args:
        t: the type.
        path: dotted path of the column, for faults.
        undeclared: as for `converter`.
    """
    if t.kind is Kind.JSON:
        return partial(_json, path, t.opening) if t.opening else bytes.decode
    if not holds(t, Kind.JSON):
        return partial(_decoded, Decoder(), converter(t, path, undeclared))
    if t.item is not None:
        item = raw_converter(t.item, f"{path}.element", undeclared)
        return partial(_raw_list, path, msgspec.json.Decoder(list[msgspec.Raw]), item)
    members = {f.name: raw_converter(f.type, f"{path}.{f.name}", undeclared) for f in t.fields}
    objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
    return partial(_raw_struct, path, objects, members, undeclared, t.rest)


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


def _decoded(decoder: Decoder, convert: Converter, raw: bytes) -> Any:
    return convert(decoder.decode(raw))


def _raw_list(
    path: str, decoder: msgspec.json.Decoder[list[msgspec.Raw]], item: Converter, raw: bytes
) -> list[Any]:
    raw = _inside(raw, "[")
    if not raw.startswith(b"["):
        raise _wrong(path, "array", Decoder().decode(raw))
    parts = map(bytes, decoder.decode(raw))
    return [None if part == b"null" else item(part) for part in parts]


def _raw_struct(
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
    Kind.TIMESTAMP: partial(_text, "date-time string", microseconds),
    Kind.DATE: partial(_text, "date string", days),
    Kind.BINARY: _binary,
}
