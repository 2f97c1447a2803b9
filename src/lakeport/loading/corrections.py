"""Rejected records as a CSV file: written with their reasons, and read once they are corrected.

```
_run, _record    the run, and the record's number among those of its stream, from 1
_column, _reason where the fault is, and what it is
a, b, ...        the record's fields; _raw has a record without fields
```
A cell that was left alone stands for the value as it came, whatever its type. The other cells are
texts, which become values of the column's type.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from lakeport.errors import ConfigError, InputError, SourceError
from lakeport.schema.nested import is_json

_OURS: Final = ("_run", "_record", "_column", "_reason")
_RAW: Final = "_raw"
_DELIMITER: Final = re.compile(r'"?_run"?([^\w"])')
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_WITH_COMMA: Final = re.compile(r"([+-]?\d+),(\d{1,2}|\d{4,})")
_FORMULA: Final = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A quarantined record: its number in its run and stream, its fault, and its bytes.

    Attributes:
        number: from 1, among the stream's records that the run has set aside.
        line: its line in the input; 0 if unknown.
        column: dotted path of the column at fault; empty if the whole record is.
        reason: what is wrong, without values.
        raw: the record's bytes as they came.
        texts: column -> text, of a record of a CSV file; empty for others.
    """

    number: int
    line: int
    column: str
    reason: str
    raw: bytes
    texts: Mapping[str, str]

    def values(self) -> dict[str, bytes]:
        """Return field -> value as JSON; empty for bytes that are no JSON object."""
        if self.texts:
            return {name: json.dumps(text).encode() for name, text in self.texts.items()}
        return decode_record(self.raw) or {}


def decode_record(raw: bytes) -> dict[str, bytes] | None:
    """Return field -> value as JSON text, of a record or a Singer RECORD; None if it is neither."""
    try:
        found = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        if bytes(found.get("type", b"")) == b'"RECORD"' and "record" in found:
            found = msgspec.json.decode(found["record"], type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return None
    return {name: bytes(value) for name, value in found.items()}


def encode_record(values: Mapping[str, bytes]) -> bytes:
    """Return a record as one line of JSON, from JSON values."""
    fields = (json.dumps(name).encode() + b": " + value for name, value in values.items())
    return b"{" + b", ".join(fields) + b"}"


def write_corrections(file: Path, records: Iterable[tuple[str, RejectedRecord]]) -> int:
    """Write rejected records, each with its run's id, into a new CSV file; return their number.

    Only the owner may read the file, as for quarantine files in a folder.

    Raises:
        ConfigError: the file exists.
        SourceError: it can't be written.
    """
    found = [(run, record, record.values()) for run, record in records]
    names = dict.fromkeys(name for *_, values in found for name in values)
    if any(not values for *_, values in found):
        names[_RAW] = None
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigError(
            f"the file {str(file)!r} exists, and may have corrections", "name another file."
        ) from None
    except OSError as error:
        raise SourceError(f"file {str(file)!r}: {error.strerror}", "check its folder.") from None
    # Excel takes a file for UTF-8 by its mark.
    with os.fdopen(
        descriptor, "w", encoding="utf-8-sig", errors="backslashreplace", newline=""
    ) as out:
        writer = csv.writer(out)
        writer.writerow([*_OURS, *names])
        for run, record, values in found:
            cells = {name: _format_cell(value) for name, value in values.items()}
            if not values:
                cells[_RAW] = record.raw.decode("utf-8", "backslashreplace")
            fault = (run, record.number, record.column, record.reason)
            writer.writerow([*fault, *(cells.get(name, "") for name in names)])
    return len(found)


def read_corrections(file: Path) -> dict[str, dict[int, dict[str, str]]]:
    """Read corrected records: run -> number of the record -> field -> text of the cell.

    Raises:
        InputError: it is no file of `write_corrections`, has a record twice, or has a line with
            more cells than the header.
        SourceError: it can't be read.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SourceError(f"file {str(file)!r}: {error.strerror}", "check its name.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")  # as Excel saves it
    delimiter = _DELIMITER.match(text)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter[1] if delimiter else ",")
    header = next(rows, [])
    if header[:2] != [*_OURS[:2]]:
        raise InputError(
            f"{str(file)!r} does not begin with the columns {' and '.join(_OURS[:2])}",
            "`lakeport quarantine export` writes such a file; leave its first two columns as they "
            "are.",
        )
    found: dict[str, dict[int, dict[str, str]]] = {}
    for row in rows:
        if not any(row):
            continue
        if any(row[len(header) :]):
            raise InputError(
                f"line {rows.line_num} of {str(file)!r} has {len(row)} cells, and the header "
                f"{len(header)}",
                'put a cell that holds the delimiter in quotes, such as "2,50".',
            )
        cells = dict(zip(header, row, strict=False))
        run, number = cells.pop("_run"), cells.pop("_record", "")
        of_run = found.setdefault(run, {})
        if not number.isdecimal() or int(number) in of_run:
            raise InputError(
                f"line {rows.line_num} of {str(file)!r} names no record, or one a second time",
                "leave the columns _run and _record as they are.",
            )
        of_run[int(number)] = {n: t for n, t in cells.items() if n and n not in _OURS}
    return found


def correct_record(
    record: RejectedRecord,
    cells: Mapping[str, str] | None,
    find_column: Callable[[str], pa.Field | None],
) -> bytes:
    """Return a record as a line of JSON, with its corrected cells if there are any.

    Args:
        cells: field -> text; None takes the record as it came.
        find_column: returns the table's column for a field; None reads a text as it looks.
    """
    values = record.values()
    if cells is None:
        cells = record.texts
    elif not values and (raw := cells.get(_RAW)):
        return raw.encode()
    if not cells:
        return record.raw
    corrected = {}
    for name, text in cells.items():
        value = values.get(name)
        if not record.texts and value is not None and _format_cell(value) == text:
            corrected[name] = value
        elif text and name != _RAW:
            corrected[name] = _parse_cell(text, find_column(name))
    return encode_record(corrected)


def _format_cell(value: bytes) -> str:
    """Return a JSON value as a cell: texts without quotes, null as empty.

    A text that a spreadsheet would run as a formula gets a `'`, as in a spreadsheet.

    >>> [_format_cell(value) for value in (b'"a"', b"1.50", b"null", b'{"p": 1}', b'"=1+1"')]
    ['a', '1.50', '', '{"p": 1}', "'=1+1"]
    """
    if value[:1] != b'"':
        return "" if value == b"null" else value.decode()
    text = str(json.loads(value))
    return f"'{text}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else text


def _parse_cell(text: str, column: pa.Field | None) -> bytes:
    """Return a cell as JSON: of the column's type if the text has one, else a string.

    >>> [_parse_cell(text, pa.field("a", pa.float64())) for text in ("007", "1,5", "x")]
    [b'7', b'1.5', b'"x"']
    >>> _parse_cell("007", pa.field("a", pa.string())), _parse_cell("7", None)
    (b'"007"', b'7')
    """
    if text[0] == "'" and text[1:2] in _FORMULA:
        text = text[1:]
    string = json.dumps(text).encode()
    type_ = None if column is None else column.type
    stripped = text.strip()
    if type_ is None:
        plain = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?|true|false", stripped)
        return stripped.encode() if plain else string
    if pa.types.is_boolean(type_):
        return stripped.lower().encode() if stripped.lower() in ("true", "false") else string
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        with_comma = _WITH_COMMA.fullmatch(stripped)
        number = ".".join(with_comma.groups()) if with_comma else stripped
        if not _NUMBER.fullmatch(number):
            return string
        sign = "-" if number.startswith("-") else ""
        digits = number.lstrip("+-").lstrip("0")
        return (sign + ("0" + digits if not digits[:1].isdigit() else digits)).encode()
    if pa.types.is_nested(type_) or (column is not None and is_json(column)):
        try:
            return bytes(msgspec.json.decode(text, type=msgspec.Raw))
        except msgspec.DecodeError:
            return string
    return string
