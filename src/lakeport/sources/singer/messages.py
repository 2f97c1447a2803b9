"""One line of a Singer tap -> a typed message. Records are not looked into.

| column | type | value |
|---|---|---|
| `_sdc_extracted_at` | date-time | the message's `time_extracted` |
| `_sdc_received_at` | date-time | when the target read the record |
| `_sdc_batched_at` | date-time | when the record's batch was begun |
| `_sdc_deleted_at` | date-time | the record's own `_sdc_deleted_at` (log-based taps) |
| `_sdc_sequence` | integer | `_sdc_received_at` in milliseconds since 1970 |
| `_sdc_table_version` | integer | the message's `version` |
| `_sdc_sync_started_at` | integer | when the run began, in milliseconds since 1970 |

They are declared beside the stream's own columns, so a record that brings some of them is read like
any other; then what the message and the target know is put in their place.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
import numpy as np
import pyarrow as pa

from lakeport.errors import ConfigError, DestinationError, InputError, SourceError
from lakeport.host.whole_files import replace_whole
from lakeport.model import Split
from lakeport.schema.casting import TIMESTAMP
from lakeport.schema.marks import DELETED_AT, SEQUENCE, TABLE_VERSION
from lakeport.schema.types import Field, FieldType, Kind
from lakeport.scrub import scrub
from lakeport.sources.input.decompression import UnpackLimits, compression_of, open_stream
from lakeport.sources.input.lines import count_lines, read_blocks
from lakeport.sources.spool import read_sidecar

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


class Record(msgspec.Struct, frozen=True):
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


Message = Record | Schema | State | ActivateVersion | BatchFiles | Log | Unknown | Stray | Malformed


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
    Record(stream='users')
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
            return Record(stream) if stream else Malformed("RECORD without a `stream`")
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


def _odd_record(line: bytes) -> Record | None:
    """A RECORD that is no strict JSON (NaN, a lone surrogate) still tells its stream."""
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    kind, stream = found.get("type"), found.get("stream")
    if isinstance(kind, str) and kind.upper() == "RECORD" and isinstance(stream, str) and stream:
        return Record(stream)
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


_EXTRACTED_AT = "_sdc_extracted_at"
_RECEIVED_AT = "_sdc_received_at"
_BATCHED_AT = "_sdc_batched_at"
_SYNC_STARTED_AT = "_sdc_sync_started_at"

MESSAGE_KEYS = {_EXTRACTED_AT: "time_extracted", TABLE_VERSION: "version"}
"""Column -> the key of a RECORD message that holds it; what it lacks is taken from the record."""

_KINDS = {
    _EXTRACTED_AT: Kind.TIMESTAMP,
    _RECEIVED_AT: Kind.TIMESTAMP,
    _BATCHED_AT: Kind.TIMESTAMP,
    DELETED_AT: Kind.TIMESTAMP,
    SEQUENCE: Kind.INTEGER,
    TABLE_VERSION: Kind.INTEGER,
    _SYNC_STARTED_AT: Kind.INTEGER,
}


def declared(fields: Sequence[Field]) -> tuple[Field, ...]:
    """A stream's columns with those of the metadata behind them, whatever it says of them itself.

    Example:
        >>> [f.name for f in declared([Field("id", FieldType(Kind.INTEGER))])][:2]
        ['id', '_sdc_extracted_at']
    """
    own = (field for field in fields if field.name not in _KINDS)
    return (*own, *(Field(name, FieldType(kind)) for name, kind in _KINDS.items()))


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the target knows about every record of a batch, in microseconds since 1970.

    Attributes:
        sync_started: when the run began.
        batched: when the batch was begun.
    """

    sync_started: int
    batched: int

    def stamp(self, batch: pa.RecordBatch, received: np.ndarray) -> pa.RecordBatch:
        """Put what the target knows into a batch that has the columns of `declared`.

        Args:
            batch: records.
            received: when each of them was read, in microseconds since 1970.
        """
        known = {
            _RECEIVED_AT: pa.array(received).view(TIMESTAMP),
            _BATCHED_AT: pa.repeat(pa.scalar(self.batched, TIMESTAMP), len(batch)),
            SEQUENCE: pa.array(received // 1000),
            _SYNC_STARTED_AT: pa.repeat(pa.scalar(self.sync_started // 1000), len(batch)),
        }
        arrays = [
            known.get(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


class Received:
    """When the records of a split were read, from the sidecar that the spool keeps.

    Args:
        split: the split.
        otherwise: the time of all of them where there is no sidecar.

    Raises:
        SourceError: the sidecar can't be read.
    """

    def __init__(self, split: Split, otherwise: int) -> None:
        pairs = read_sidecar(split, split.times) if split.times else [(0, otherwise)]
        self._ordinals, self._times = np.array(pairs, np.int64).T

    def of(self, ordinals: Sequence[int]) -> np.ndarray:
        """The times of records by their ordinals within the split, in microseconds since 1970."""
        at = np.searchsorted(self._ordinals, np.asarray(ordinals), side="right") - 1
        times: np.ndarray = self._times[at]
        return times


_Object = dict[str, msgspec.Raw]


class StateOutput:
    """Hands STATE values on, to a stream, to a file, or to both.

    Args:
        stream: gets each value unchanged as one line, flushed at once; usually stdout.
        path: a file that holds the merged state (see `merge_state`), replaced whole each time.

    Raises:
        ConfigError: the file has something that is no JSON object, can't be read, or has no folder.
    """

    def __init__(self, stream: BinaryIO | None = None, path: Path | None = None) -> None:
        self._stream = stream
        self._path = None if path is None else path.resolve()
        self._merged = b""
        if self._path is None:
            return
        if not self._path.parent.is_dir():
            raise ConfigError(
                f"there is no folder for the state file {path}", "make it, or name another file."
            )
        if self._path.is_dir():
            raise ConfigError(f"the state file {path} is a folder", "name a file.")
        if self._path.is_file():
            self._merged = _read(self._path)

    def emit(self, value: bytes) -> None:
        """Hand on one value, as the JSON bytes that came.

        Raises:
            DestinationError: whoever reads the stream has gone, or the file can't be written. What
                was landed stays landed.
        """
        if self._path is not None:
            self._merged = merge_state(self._merged, value)
            _replace(self._path, self._merged + b"\n")
        if self._stream is not None:
            try:
                self._stream.write(value + b"\n")
                self._stream.flush()
            except (OSError, ValueError) as error:
                raise DestinationError(
                    f"the data has landed, but its STATE could not be written: {error}",
                    "whatever reads the output has to stay until this process ends",
                ) from None


class PendingStates:
    """STATE values that wait for what came before them to be durable.

    Of a tap that tells all its bookmarks each time only the latest one is held. Where a tap tells
    each stream's on its own, an earlier one stays for as long as it has the last bookmark of a
    stream: a value for each stream at most.

    >>> pending = PendingStates()
    >>> pending.add(b'{"bookmarks": {"a": 1}}')
    >>> pending.add(b'{"bookmarks": {"b": 1}}')
    >>> pending.add(b'{"bookmarks": {"b": 2}}')
    >>> pending.take()
    (b'{"bookmarks": {"a": 1}}', b'{"bookmarks": {"b": 2}}')
    """

    def __init__(self) -> None:
        self._held: list[tuple[bytes, frozenset[str]]] = []

    def add(self, value: bytes) -> None:
        """Hold a value, and let those go that it outdates."""
        named = frozenset(_bookmarks(value) or ())
        held, seen = [(value, named)], set(named)
        for earlier, names in reversed(self._held):
            if not names <= seen:
                held.append((earlier, names))
                seen |= names
        self._held = held[::-1]

    def take(self) -> tuple[bytes, ...]:
        """The values in the order in which they came; none is held any more."""
        values, self._held = tuple(value for value, _ in self._held), []
        return values


def merge_state(old: bytes, new: bytes) -> bytes:
    """Merge a STATE value into the one before it.

    The bookmarks in `{"bookmarks": {stream: ...}}` stay for the streams that the new value does
    not name, also where it names none; a bookmark is replaced whole. Other keys are the new
    value's. An empty value changes nothing, since it says nothing. What is no object, or has
    bookmarks of another shape, replaces the old value.

    >>> merge_state(b'{"bookmarks": {"a": 1, "b": 2}}', b'{"bookmarks": {"b": 3}}')
    b'{"bookmarks":{"a":1,"b":3}}'
    >>> merge_state(b'{"bookmarks": {"a": 1}, "at": 4}', b'{"at": 5}')
    b'{"at":5,"bookmarks":{"a":1}}'
    """
    if old and b"".join(new.split()) in (b"{}", b"null"):
        return old
    before, after = _bookmarks(old), _bookmarks(new)
    if not before or after is None:
        return new
    whole = msgspec.json.decode(new, type=_Object)
    whole["bookmarks"] = msgspec.Raw(msgspec.json.encode({**before, **after}))
    return msgspec.json.encode(whole)


def _bookmarks(value: bytes) -> _Object | None:
    """Those of a STATE, none where it names none; None where its shape is another one."""
    try:
        whole = msgspec.json.decode(value, type=_Object)
        return msgspec.json.decode(whole.get("bookmarks", b"{}"), type=_Object)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read(path: Path) -> bytes:
    """The state that a file holds: one object, or one on its last line, as old targets wrote it."""
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(
            f"can't read the state file {path}: {error.strerror}",
            "name a file that you may read and write.",
        ) from None
    for text in (content, content.rpartition(b"\n")[2]):
        if not text or _is_object(text):
            return text
    raise ConfigError(
        f"the state file {path} does not hold a JSON object",
        "name another file, or move this one away to begin anew",
    )


def _is_object(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=_Object)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _replace(path: Path, content: bytes) -> None:
    try:
        replace_whole(path, content)
    except OSError as error:
        raise DestinationError(
            f"the data has landed, but the state file {path} could not be written: "
            f"{error.strerror}",
            "check that its folder exists and may be written to",
        ) from None


_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_BOM = b"\xef\xbb\xbf"
_HEAD = 6  # the longest magic number of a compression
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe does not hold it up


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive lines of one file.

    Attributes:
        data: a buffer that starts with these lines, valid until the next piece is asked for.
        end: where they end.
        records: how many lines that is.
        line: number of the first of them in its file, from 1.
        too_long: the first bytes of a line beyond the limit, which stands here alone.
    """

    data: bytes | bytearray
    end: int
    records: int
    line: int
    too_long: bytes | None = None


def default_roots() -> tuple[Path, ...]:
    """The folders that BATCH files may lie in unless the configuration names others.

    The current folder is one of them, except where it is `/`, which would allow every file.
    """
    temporary, current = Path(tempfile.gettempdir()), Path.cwd()
    return (temporary,) if current == Path(current.anchor) else (temporary, current)


def resolve(uri: str, roots: Sequence[Path]) -> Path:
    """Turn a manifest's entry into the path of the file to open, free of links.

    Args:
        uri: `file:///...`, or an absolute path.
        roots: folders; the file must lie in one of them after following its links.

    Raises:
        SourceError: another scheme, `..`, outside the roots, absent, or not a plain file.
    """
    name = _local_name(uri)
    if ".." in PurePosixPath(name).parts:
        raise _refusal(uri, "its path has '..'", "have the tap name its files by absolute paths")
    path = Path(os.path.realpath(name))
    if not any(path.is_relative_to(os.path.realpath(root)) for root in roots):
        raise _refusal(
            uri,
            "it lies outside the folders that batch files may come from",
            f"allowed: {', '.join(str(root) for root in roots)}; `batch_roots` sets others",
        )
    try:
        status = path.stat()
    except OSError as error:
        raise _refusal(uri, error.strerror or "it can't be read", "") from None
    _check_plain(uri, status)
    return path


def _local_name(uri: str) -> str:
    """The local path that a manifest's entry names.

    Raises:
        SourceError: it names none.
    """
    try:
        parts = urlsplit(uri) if "://" in uri else None
        if parts is None:
            name = os.fsencode(uri)
        elif parts.scheme == "file" and parts.netloc in ("", "localhost"):
            name = unquote_to_bytes(parts.path)
        else:
            name = b""
    except ValueError:  # a host that is none, or half a surrogate
        name = b""
    if not name.startswith(b"/") or b"\0" in name:
        raise _refusal(uri, "it is not a local file", "have the tap write to file:///...")
    return os.fsdecode(name)


def _open(uri: str, path: Path) -> BinaryIO:
    """Open what `resolve` allowed, folder by folder from the root, following no link.

    So it is the file that was checked, or another one at the same place: what is put there
    meanwhile can't lead out of it.

    Raises:
        SourceError: it is gone, or there is something else now.
    """
    folder = os.open(path.anchor, _FOLDER)
    try:
        for part in path.parts[1:-1]:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.fdopen(os.open(path.name, _FILE, dir_fd=folder), "rb", buffering=0)
    except OSError as error:
        moved = error.errno in (errno.ELOOP, errno.ENOTDIR)
        reason = "a link was put into its path meanwhile" if moved else error.strerror
        raise _refusal(uri, reason or "it can't be read", "") from None
    finally:
        os.close(folder)
    try:
        _check_plain(uri, os.fstat(file.fileno()))
    except SourceError:
        file.close()
        raise
    return file


def _check_plain(uri: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(uri, "it is not a plain file", "have the tap write plain files")


def _refusal(uri: str, reason: str, hint: str) -> SourceError:
    return SourceError(f"can't take the batch file {scrub(uri)!r}: {reason}", hint)


def read_batch_files(
    message: BatchFiles, roots: Sequence[Path], max_record_mb: int, limits: UnpackLimits
) -> Iterator[Piece]:
    """Read the record lines of a BATCH's files, in order and without blank ones.

    All files are resolved before the first is read.

    Raises:
        SourceError: a file may not be read, is absent, corrupt, cut off, compressed otherwise
            than the message says, or unpacks to more than the limits allow.
    """
    for uri, path in [(uri, resolve(uri, roots)) for uri in message.manifest]:
        with _open(uri, path) as file:
            kind = compression_of(file.read(_HEAD))
            if (kind or "none") != message.compression:
                raise SourceError(
                    f"batch file {path}: compression is {kind or 'none'}, and its BATCH message "
                    f"says {message.compression}",
                    "correct `encoding.compression`, or get the file again",
                )
            file.seek(0)
            yield from _lines(open_stream(file, str(path), limits), max_record_mb)


def _lines(opened: BinaryIO, max_record_mb: int) -> Iterator[Piece]:
    line = 1
    with opened as stream:
        for block in read_blocks(stream, max_record_mb << 20):
            if block.too_long is not None:
                yield Piece(b"", 0, 0, line, block.too_long)
                line += 1
                continue
            data, end = block.data, block.end
            marked = data.find(b"\n" + _BOM, 0, end) >= 0
            if data[0] == ord("{") and not marked and not _BLANK_LINE.search(data, 0, end):
                count = count_lines(data, 0, end)
                yield Piece(data, end, count, line)
                line += count
                continue
            for text in bytes(data[: end - 1]).split(b"\n"):
                text = text.removeprefix(_BOM)
                if text.strip():
                    yield Piece(text + b"\n", len(text) + 1, 1, line)
                line += 1
