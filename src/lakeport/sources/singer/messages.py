"""One line of a Singer tap -> a typed message. Records are not looked into."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from lakeport.errors import InputError

_ABSENT = msgspec.Raw(b"")
_DECLARING = (
    "properties",
    "additionalProperties",
    "patternProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
)


class RecordMessage(msgspec.Struct, frozen=True):
    """A RECORD; its line holds the rest."""

    stream: str


class Schema(msgspec.Struct, frozen=True):
    """A SCHEMA: the JSON schema and the names of the columns that the tap singles out.

    `cut` tells that records are to be cut to it: undeclared fields are left out.
    """

    stream: str
    schema: Mapping[str, Any]
    key_properties: tuple[str, ...]
    partition_keys: tuple[str, ...]
    cut: bool = False


class State(msgspec.Struct, frozen=True):
    """A STATE: its `value` as the JSON bytes that came."""

    value: bytes


class ActivateVersion(msgspec.Struct, frozen=True):
    """An ACTIVATE_VERSION."""

    stream: str
    version: int


class BatchFiles(msgspec.Struct, frozen=True):
    """A BATCH: files with the records of a stream, one object a line."""

    stream: str
    format: str
    compression: str
    manifest: tuple[str, ...]


class Log(msgspec.Struct, frozen=True):
    """A log line of the tap."""

    level: str
    message: str


class Unknown(msgspec.Struct, frozen=True):
    """A message of a type that the specification does not name."""

    type: str


class Stray(msgspec.Struct, frozen=True):
    """A line that is no JSON object at all, such as a tap's print."""


class Malformed(msgspec.Struct, frozen=True):
    """A line that begins as a message and is not one; `reason` holds none of its values."""

    reason: str
    stream: str = ""


Message = (
    RecordMessage
    | Schema
    | State
    | ActivateVersion
    | BatchFiles
    | Log
    | Unknown
    | Stray
    | Malformed
)


class _Envelope(msgspec.Struct):
    type: str | None = None
    stream: str | None = None
    schema: msgspec.Raw = _ABSENT
    key_properties: msgspec.Raw = _ABSENT
    partition_keys: msgspec.Raw = _ABSENT
    value: msgspec.Raw = _ABSENT
    version: msgspec.Raw = _ABSENT
    encoding: msgspec.Raw = _ABSENT
    manifest: msgspec.Raw = _ABSENT
    level: msgspec.Raw = _ABSENT
    message: msgspec.Raw = _ABSENT


class _Encoding(msgspec.Struct):
    format: str | None = None
    compression: str | None = None


_envelope = msgspec.json.Decoder(_Envelope).decode


def decode(line: bytes, number: int) -> Message:
    r"""Decode one line.

    Args:
        line: the line, without a byte order mark.
        number: its number in the input, for messages.

    Raises:
        InputError: a SCHEMA or a BATCH that can't be used, whatever the policy for bad records.

    >>> decode(b'{"stream": "users", "type": "RECORD", "record": {"id": 1}}', 1)
    RecordMessage(stream='users')
    >>> decode(b'{"type": "STATE", "value": {"at":  1.50}}\n', 2)
    State(value=b'{"at":  1.50}')
    >>> decode(b"Traceback (most recent call last):", 3)
    Stray()
    """
    if not line.lstrip().startswith(b"{"):
        return Stray()
    try:
        return _message(_envelope(line), number)
    except msgspec.ValidationError as error:
        return Malformed(f"not a message: {error}")
    except UnicodeDecodeError as error:
        return Malformed(f"not UTF-8: {error.reason}")
    except msgspec.DecodeError as error:
        return _odd_record(line) or Malformed(f"not valid JSON: {_why(line, error)}")
    except RecursionError:
        return Malformed("nested too deeply")


def _message(envelope: _Envelope, number: int) -> Message:
    kind, stream = envelope.type or "", envelope.stream or ""
    match kind if kind == "RECORD" else kind.upper():
        case "RECORD":
            return RecordMessage(stream) if stream else Malformed("RECORD without a `stream`")
        case "STATE":
            return _state(envelope)
        case "SCHEMA":
            return _schema(envelope, stream, number)
        case "ACTIVATE_VERSION":
            return _activate(envelope, stream)
        case "BATCH":
            return _batch(envelope, stream, number)
        case "LOG":
            return _log(envelope)
        case "":
            if envelope.level and envelope.message:
                return _log(envelope)
            return Malformed("a message without `type`", stream)
    return Unknown(kind)


def _odd_record(line: bytes) -> RecordMessage | None:
    """A RECORD that is no strict JSON (NaN, a lone surrogate) still tells its stream."""
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    kind, stream = found.get("type"), found.get("stream")
    if isinstance(kind, str) and kind.upper() == "RECORD" and isinstance(stream, str) and stream:
        return RecordMessage(stream)
    return None


def _why(line: bytes, error: msgspec.DecodeError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 at byte {wrong.start}"
    return "it is cut off" if "truncated" in str(error) else str(error)


def _state(envelope: _Envelope) -> State | Malformed:
    value = bytes(envelope.value)
    if not value:
        return Malformed("STATE without a `value`")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return Malformed(f"not UTF-8: {error.reason}")
    return State(value)


def _schema(envelope: _Envelope, stream: str, number: int) -> Schema:
    if not stream:
        raise InputError(f"line {number}: SCHEMA without a `stream`", "name the stream it is for")
    where = f"line {number}: SCHEMA of stream {stream!r}"
    schema = _part(envelope.schema, dict[str, Any], None, f"{where}: `schema`")
    if schema is None:
        raise InputError(f"{where} has no `schema`", "send the JSON schema of its records")
    if not isinstance(schema.get("properties", {}), dict):
        raise InputError(
            f"{where}: `properties` is not an object", "map each column's name to its JSON schema"
        )
    keys = _part(envelope.key_properties, list[str] | None, None, f"{where}: `key_properties`")
    parts = _part(envelope.partition_keys, list[str] | None, None, f"{where}: `partition_keys`")
    if not any(keyword in schema for keyword in _DECLARING):
        raise InputError(f"{where} has no `properties`", "declare the columns of its records")
    return Schema(stream, schema, _once(keys), _once(parts))


def _once(names: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names or ()))


def _activate(envelope: _Envelope, stream: str) -> ActivateVersion | Malformed:
    try:
        version = msgspec.json.decode(envelope.version, type=int)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Malformed("ACTIVATE_VERSION without a whole number as `version`", stream)
    return ActivateVersion(stream, version)


def _batch(envelope: _Envelope, stream: str, number: int) -> BatchFiles:
    where = f"line {number}: BATCH of stream {stream!r}"
    encoding = _part(envelope.encoding, _Encoding, _Encoding(), f"{where}: `encoding`")
    manifest = _part(envelope.manifest, list[str], None, f"{where}: `manifest`")
    if not stream or manifest is None:
        raise InputError(f"{where} lacks its `stream` or `manifest`", "name the files to read")
    form, compression = (encoding.format or "").lower(), (encoding.compression or "none").lower()
    if form != "jsonl" or compression not in ("none", "gzip"):
        raise InputError(
            f"{where}: can't read format {form!r} with compression {compression!r}",
            "have the tap write format `jsonl` with compression `gzip` or `none`",
        )
    return BatchFiles(stream, form, compression, tuple(manifest))


def _part(raw: msgspec.Raw, kind: Any, absent: Any, where: str) -> Any:
    if not raw:
        return absent
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: {error}", "correct the tap's message") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply", "correct the tap's message") from None


def _log(envelope: _Envelope) -> Log:
    return Log(_text(envelope.level) or "INFO", _text(envelope.message))


def _text(raw: msgspec.Raw) -> str:
    try:
        return str(msgspec.json.decode(raw)) if raw else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(raw).decode(errors="backslashreplace")
