"""What pyarrow can't tell about lines, found with msgspec: raw text, repeated keys, new fields."""

from __future__ import annotations

import gc
import types
from collections.abc import Sequence
from typing import Any

import msgspec

from lakeport.schema.kinds import merge_kinds
from lakeport.schema.types import FieldType, Kind
from lakeport.sources.json.columns import Column
from lakeport.sources.json.decoding import MAX_DEPTH, depth_exceeds
from lakeport.sources.json.exponents import Exponents
from lakeport.sources.json.fast.pieces import Unknown
from lakeport.sources.singer.envelopes import KEYS

__all__ = [
    "Refused",
    "decode_all",
    "decode_once",
    "decode_some",
    "find_unknown",
    "mirror",
]

_MAX_DEPTH = MAX_DEPTH // 2
_ANY = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_LONG = range(-(2**63), 2**63)
_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    float: "number",
    str: "string",
    list: "json",
    dict: "json",
}


class Refused(Exception):
    """A block that the fast path does not vouch for; never seen outside this package."""


def decode_once(lines: bytes) -> list[Any]:
    """Decode lines in which no object has a key twice, and nothing is nested too deep.

    Raises:
        Refused: there may be such a key, or a line is not JSON.
    """
    if any(depth_exceeds(line, _MAX_DEPTH) for line in lines.split(b"\n")):
        raise Refused
    return decode_all(_ANY, lines)


def decode_all(decoder: msgspec.json.Decoder[Any], lines: bytes) -> list[Any]:
    """Decode lines with any decoder that leaves nothing out but keys that came twice.

    Of two members with the same key msgspec keeps the last and says nothing. So the values are
    encoded again and the colons counted, one of which stands behind every key: a key that was left
    out is a colon less. Those in texts are the same on both sides, once the ones that the lines
    write as an escape are counted in. Looking at the keys in Python takes four times as long.

    Raises:
        Refused: there may be such a key, or a line is not what the decoder reads.
    """
    values = decode_some(decoder, lines)
    again = _ENCODER.encode_lines(values)
    colons = lines.count(b":") + lines.count(b"\\u003a") + lines.count(b"\\u003A")
    if again.count(b":") != colons:
        raise Refused
    return values


def decode_some(decoder: msgspec.json.Decoder[Any], lines: bytes) -> list[Any]:
    """Decode lines without looking for what the decoder leaves out.

    Raises:
        Refused: a line is not what the decoder reads.
    """
    collecting = gc.isenabled()
    gc.disable()  # thousands of new objects, none of them in a cycle: three times the speed
    try:
        return decoder.decode_lines(lines)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Refused from error
    finally:
        if collecting:
            gc.enable()


def find_unknown(
    records: Sequence[dict[str, Any]], declared: frozenset[str], exponents: Exponents
) -> Unknown:
    """Find the fields of decoded records that no column has.

    Raises:
        Refused: whether a number is one that a double keeps does not show in the double.

    Example:
        >>> records = [{"id": 1, "n": 2}, {"n": None}]
        >>> find_unknown(records, frozenset({"id"}), Exponents(b""))
        {'n': ('integer', 2)}
    """
    unknown: Unknown = {}
    for record in records:
        for name in record.keys() - declared:
            value = record[name]
            kind = _KINDS.get(type(value)) or ("integer" if value in _LONG else "string")
            if kind == "number" and not exponents.keep(value):
                raise Refused
            known, count = unknown.get(name, ("null", 0))
            unknown[name] = merge_kinds(known, kind), count + 1
    return unknown


def mirror(
    columns: Sequence[Column], *, envelope: bool, top: bool, nested: bool
) -> msgspec.json.Decoder[Any]:
    """Make a decoder of records as structs `f0`, `f1`, … with the columns' raw text.

    Args:
        columns: the columns.
        envelope: whether the record is the member `record` of what is decoded.
        top: whether a record with an undeclared field is an error.
        nested: whether an undeclared member of an object column is one. (Columns with JSON text
            are not looked into.)

    Raises:
        Refused: msgspec can't have these names (with quotes, backslashes, control characters).
    """
    try:
        parts = [
            (c.name, _mirrored(c.type) if nested and not c.raw else msgspec.Raw) for c in columns
        ]
        record = _struct(parts, forbid=top)
    except ValueError as error:
        raise Refused from error
    return msgspec.json.Decoder(_message(record) if envelope else record)


def _message(record: Any) -> Any:
    others = [(key, msgspec.Raw, msgspec.Raw()) for key in KEYS[1:]]
    return msgspec.defstruct("Message", [(KEYS[0], record), *others], omit_defaults=True, gc=False)


def _mirrored(t: FieldType) -> Any:
    if t.kind is Kind.STRUCT:
        members = [(f.name, _mirrored(f.type)) for f in t.fields]
        return _struct(members, forbid=True) | None
    if t.kind is Kind.LIST and t.item is not None:
        item: Any = _mirrored(t.item)
        return msgspec.Raw if item is msgspec.Raw else types.GenericAlias(list, (item,)) | None
    return msgspec.Raw


def _struct(members: Sequence[tuple[str, Any]], *, forbid: bool) -> Any:
    """A struct that encodes to the keys that it was decoded from."""
    return msgspec.defstruct(
        "Mirror",
        [
            (f"f{i}", t, msgspec.Raw())
            if t is msgspec.Raw
            else (f"f{i}", t | msgspec.UnsetType, msgspec.UNSET)
            for i, (_, t) in enumerate(members)
        ],
        rename={f"f{i}": name for i, (name, _) in enumerate(members)},
        forbid_unknown_fields=forbid,
        omit_defaults=True,
        gc=False,
    )
