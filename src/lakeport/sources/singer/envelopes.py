"""Singer RECORD lines -> the records in them, without parsing them."""

from __future__ import annotations

import msgspec

__all__ = ["KEYS", "has_known_keys", "strip", "unwrap"]

KEYS = ("record", "time_extracted", "version", "type", "stream")
"""Keys that Singer gives a RECORD message; any others are passed over."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Envelope(msgspec.Struct):
    record: msgspec.Raw


class _Kept(msgspec.Struct, omit_defaults=True):
    record: msgspec.Raw
    time_extracted: msgspec.Raw = msgspec.Raw()
    version: msgspec.Raw = msgspec.Raw()


_ENVELOPES = msgspec.json.Decoder(_Envelope)
_KEPT = msgspec.json.Decoder(_Kept)
_ENCODER = msgspec.json.Encoder()


def has_known_keys(line: bytes) -> bool:
    """Whether a message has no keys but Singer's, as far as it can be read.

    Example:
        >>> has_known_keys(b'{"type": "RECORD", "stream": "x", "record": {}, "tags": {}}')
        False
    """
    try:
        return all(key in KEYS for key in _MEMBERS.decode(line))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return True


def unwrap(lines: bytes) -> bytes | None:
    """Take the records out of whole lines; None if a line is not a message with a record.

    The caller has to make sure that no object has a key twice.

    Example:
        >>> unwrap(b'{"record": {"id": 1}, "seen": "now"}')
        b'{"id": 1}'
    """
    try:
        return b"\n".join(e.record for e in _ENVELOPES.decode_lines(lines))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def strip(lines: bytes) -> bytes | None:
    """Leave only what metadata is made of in whole lines; None if a line has no record.

    The caller has to make sure that no object has a key twice.

    Example:
        >>> strip(b'{"record": {"id": 1}, "seen": "now", "version": 2}')
        b'{"record":{"id": 1},"version":2}'
    """
    try:
        return _ENCODER.encode_lines(_KEPT.decode_lines(lines)).rstrip(b"\n")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
