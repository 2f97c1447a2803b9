"""Decode lines of a Singer tap into typed messages; the contents of records are not parsed."""

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


class Message(msgspec.Struct, frozen=True):
    """A decoded line of a tap: base of the classes of all kinds of lines."""


class RecordMessage(Message, frozen=True):
    """A RECORD message: only its stream is decoded."""

    stream: str


class SchemaMessage(Message, frozen=True):
    """A SCHEMA message: a stream's JSON schema, primary key and partition columns.

    With `drops_undeclared`, fields of records that the schema does not declare are left out.
    """

    stream: str
    schema: Mapping[str, Any]
    key_properties: tuple[str, ...]
    partition_keys: tuple[str, ...]
    drops_undeclared: bool = False


class StateMessage(Message, frozen=True):
    """A STATE message: its `value`, as the JSON bytes that the tap wrote."""

    value: bytes


class ActivateVersionMessage(Message, frozen=True):
    """An ACTIVATE_VERSION message: rows of other versions of the stream are obsolete."""

    stream: str
    version: int


class BatchMessage(Message, frozen=True):
    """A BATCH message: URIs of JSON Lines files that hold records of a stream."""

    stream: str
    compression: str
    manifest: tuple[str, ...]


class LogMessage(Message, frozen=True):
    """A LOG message: a log line of the tap."""

    level: str
    message: str


class UnknownMessage(Message, frozen=True):
    """A message whose type the Singer specification does not define."""

    type: str


class NonJsonLine(Message, frozen=True):
    """A line that is not a JSON object, such as the output of a `print`."""


class MalformedLine(Message, frozen=True):
    """A line that begins with `{` but is no valid message; `reason` quotes none of its values."""

    reason: str
    stream: str = ""


class _Envelope(msgspec.Struct):
    """The keys of all message types; most values stay raw JSON until the type is known."""

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
    """The `encoding` of a BATCH message."""

    format: str | None = None
    compression: str | None = None


_envelope = msgspec.json.Decoder(_Envelope).decode


def decode_message(line: bytes, line_number: int) -> Message:
    r"""Decode one line of a tap; return `NonJsonLine` or `MalformedLine` if it is no message.

    Raises:
        InputError: a SCHEMA or a BATCH is invalid, whatever the policy for bad records.

    >>> decode_message(b'{"stream": "users", "type": "RECORD", "record": {"id": 1}}', 1)
    RecordMessage(stream='users')
    >>> decode_message(b'{"type": "STATE", "value": {"at":  1.50}}\n', 2)
    StateMessage(value=b'{"at":  1.50}')
    >>> decode_message(b"Traceback (most recent call last):", 3)
    NonJsonLine()
    """
    if not line.lstrip().startswith(b"{"):
        return NonJsonLine()
    try:
        return _parse_message(_envelope(line), line_number)
    except msgspec.ValidationError as error:
        return MalformedLine(f"not a message: {error}")
    except UnicodeDecodeError as error:
        return MalformedLine(f"not UTF-8: {error.reason}")
    except msgspec.DecodeError as error:
        return _decode_lenient_record(line) or MalformedLine(
            f"not valid JSON: {_decode_reason(line, error)}"
        )
    except RecursionError:
        return MalformedLine("nested too deeply")


def _parse_message(envelope: _Envelope, line_number: int) -> Message:
    """Parse an envelope by its type; without one, `level` and `message` make it a LOG message."""
    kind, stream = envelope.type or "", envelope.stream or ""
    match kind if kind == "RECORD" else kind.upper():
        case "RECORD":
            return RecordMessage(stream) if stream else MalformedLine("RECORD without a `stream`")
        case "STATE":
            return _parse_state(envelope)
        case "SCHEMA":
            return _parse_schema(envelope, stream, line_number)
        case "ACTIVATE_VERSION":
            return _parse_activation(envelope, stream)
        case "BATCH":
            return _parse_batch(envelope, stream, line_number)
        case "LOG":
            return _parse_log(envelope)
        case "":
            if envelope.level and envelope.message:
                return _parse_log(envelope)
            return MalformedLine("a message without `type`", stream)
    return UnknownMessage(kind)


def _decode_lenient_record(line: bytes) -> RecordMessage | None:
    """Decode a RECORD that only Python's JSON parser accepts, such as with NaN; None for others."""
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    kind, stream = message.get("type"), message.get("stream")
    if isinstance(kind, str) and kind.upper() == "RECORD" and isinstance(stream, str) and stream:
        return RecordMessage(stream)
    return None


def _decode_reason(line: bytes, error: msgspec.DecodeError) -> str:
    """Say in words why a line is not valid JSON, without quoting its values."""
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 at byte {wrong.start}"
    return "it is cut off" if "truncated" in str(error) else str(error)


def _parse_state(envelope: _Envelope) -> StateMessage | MalformedLine:
    """Return the STATE message, or MalformedLine if it has no value or is not UTF-8."""
    value = bytes(envelope.value)
    if not value:
        return MalformedLine("STATE without a `value`")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return MalformedLine(f"not UTF-8: {error.reason}")
    return StateMessage(value)


def _parse_schema(envelope: _Envelope, stream: str, line_number: int) -> SchemaMessage:
    """Return the SCHEMA message; InputError if stream, schema or columns are missing or wrong."""
    if not stream:
        raise InputError(
            f"line {line_number}: SCHEMA without a `stream`", "name the stream it is for"
        )
    where = f"line {line_number}: SCHEMA of stream {stream!r}"
    schema = _decode_part(envelope.schema, dict[str, Any], None, f"{where}: `schema`")
    if schema is None:
        raise InputError(f"{where} has no `schema`", "send the JSON schema of its records")
    if not isinstance(schema.get("properties", {}), dict):
        raise InputError(
            f"{where}: `properties` is not an object", "map each column's name to its JSON schema"
        )
    keys = _decode_names(envelope.key_properties, f"{where}: `key_properties`")
    parts = _decode_names(envelope.partition_keys, f"{where}: `partition_keys`")
    if not any(keyword in schema for keyword in _DECLARING):
        raise InputError(f"{where} has no `properties`", "declare the columns of its records")
    return SchemaMessage(stream, schema, keys, parts)


def _decode_names(raw: msgspec.Raw, where: str) -> tuple[str, ...]:
    """Return a key's column names in order, without repetitions; empty for null or no key."""
    return tuple(dict.fromkeys(_decode_part(raw, list[str] | None, None, where) or ()))


def _parse_activation(envelope: _Envelope, stream: str) -> ActivateVersionMessage | MalformedLine:
    """Return the ACTIVATE_VERSION message, or MalformedLine if its version is no integer."""
    try:
        version = msgspec.json.decode(envelope.version, type=int)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return MalformedLine("ACTIVATE_VERSION without a whole number as `version`", stream)
    return ActivateVersionMessage(stream, version)


def _parse_batch(envelope: _Envelope, stream: str, line_number: int) -> BatchMessage:
    """Return the BATCH message; InputError unless it lists `jsonl` files, plain or gzipped."""
    where = f"line {line_number}: BATCH of stream {stream!r}"
    encoding = _decode_part(envelope.encoding, _Encoding, _Encoding(), f"{where}: `encoding`")
    manifest = _decode_part(envelope.manifest, list[str], None, f"{where}: `manifest`")
    if not stream or manifest is None:
        raise InputError(f"{where} lacks its `stream` or `manifest`", "name the files to read")
    form, compression = (encoding.format or "").lower(), (encoding.compression or "none").lower()
    if form != "jsonl" or compression not in ("none", "gzip"):
        raise InputError(
            f"{where}: can't read format {form!r} with compression {compression!r}",
            "have the tap write format `jsonl` with compression `gzip` or `none`",
        )
    return BatchMessage(stream, compression, tuple(manifest))


def _decode_part(raw: msgspec.Raw, kind: Any, default: Any, where: str) -> Any:
    """Decode a key's raw JSON as type `kind`; `default` if absent, InputError if it doesn't fit."""
    if not raw:
        return default
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: {error}", "correct the tap's message") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply", "correct the tap's message") from None


def _parse_log(envelope: _Envelope) -> LogMessage:
    """Return a LOG message, of level INFO if it names none."""
    return LogMessage(_decode_text(envelope.level) or "INFO", _decode_text(envelope.message))


def _decode_text(raw: msgspec.Raw) -> str:
    """Return raw JSON as text: a string's characters; bytes as they are if it is invalid."""
    try:
        return str(msgspec.json.decode(raw)) if raw else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(raw).decode(errors="backslashreplace")
