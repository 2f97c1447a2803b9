"""Records one by one, exactly, with the reason why one is bad."""

from __future__ import annotations

from typing import Any

import msgspec

from lakeport.model import UnknownPolicy
from lakeport.sources.json.columns import RecordLayout
from lakeport.sources.json.decoding import Decoder, Fault
from lakeport.sources.json.exact import Converter, converter, mixed, raw_converter
from lakeport.sources.json.inference import kind_of_value
from lakeport.sources.singer.metadata import MESSAGE_KEYS

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RecordParser:
    """Reads single lines exactly; not to be shared between threads.

    Attributes:
        unknown: undeclared field -> kind of its value, for the last record read. With policy
            `drop` also the dotted paths of undeclared members of objects.
    """

    def __init__(self, layout: RecordLayout) -> None:
        columns = layout.columns
        self.unknown: dict[str, str] = {}
        self._message_keys: dict[str, tuple[int, Converter]] = {}
        self._envelope = layout.envelope
        self._drop = layout.unknown is UnknownPolicy.DROP
        self._decoder = Decoder()
        self._required = tuple(c.name for c in columns if c.required)
        self._index = {c.name: i for i, c in enumerate(columns)}
        self._plain: dict[str, Converter] = {}
        self._raw: dict[str, Converter] = {}
        for c in columns:
            if c.mixed:
                self._raw[c.name] = mixed
            elif c.raw:
                self._raw[c.name] = raw_converter(c.type, c.name, self._undeclared)
            else:
                self._plain[c.name] = converter(c.type, c.name, self._undeclared)
        for c in columns if layout.envelope and layout.metadata else ():
            if (key := MESSAGE_KEYS.get(c.name)) is not None:
                self._message_keys[key] = (
                    self._index[c.name],
                    converter(c.type, key, self._undeclared),
                )

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
