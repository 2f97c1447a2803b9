"""Singer: the lines of a tap -> flushes of batches, without parsing a record.

```
lines ─▶ runs of RECORD lines ─▶ spool, per stream ─┐
   └──▶ other messages ─▶ schemas, states ──────────┴─▶ cut ─▶ Flush(batches, states)
```
A flush is cut right behind the line with which the records since the last cut, of all streams
together, reach the limit of bytes or rows. So the cuts depend on the input alone: a repeated run
cuts at the same places. The source kernel checks each record later, inside the tasks.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from lakeport.errors import BadRecord, BadRecords, InputError
from lakeport.host.activity import reached
from lakeport.model import Batch, Flush, Mode, UnknownPolicy
from lakeport.native import kernel
from lakeport.sources.input.decompression import unpack_limits
from lakeport.sources.input.lines import LineBlock, count_lines, line_end, read_blocks
from lakeport.sources.options import max_record_mb
from lakeport.sources.singer.batch_files import Piece, default_roots, read_batch_files
from lakeport.sources.singer.messages import (
    ActivateVersion,
    BatchFiles,
    Log,
    Malformed,
    RecordMessage,
    Schema,
    State,
    Stray,
    Unknown,
    decode,
)
from lakeport.sources.singer.state import PendingStates
from lakeport.sources.spool import Origin, Segment, SpoolWriter

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.model import Reader
    from lakeport.schema.types import Field
    from lakeport.sources.singer.metadata import Metadata

_HEAD = re.compile(
    rb'\{[ \t]*"(?:'
    rb'type"[ \t]*:[ \t]*"(?i:RECORD)"[ \t]*,[ \t]*"stream"[ \t]*:[ \t]*"([^"\\\x00-\x1f]+)"|'
    rb'stream"[ \t]*:[ \t]*"([^"\\\x00-\x1f]+)"[ \t]*,[ \t]*"type"[ \t]*:[ \t]*"(?i:RECORD)"'
    rb")[ \t]*,[ \t]*"
)

_NO_LIMIT = 1 << 62

_BOM = b"\xef\xbb\xbf"
_MAX_HELD_BAD = 64 << 20
_SHOWN = 80


def stream_of(line: bytes) -> str:
    """Tell the stream of a RECORD line that is broken further on; empty if it doesn't show.

    >>> stream_of(b'{"type": "RECORD", "stream": "users", "rec')
    'users'
    """
    found = _HEAD.match(line)
    return (found[1] or found[2]).decode(errors="backslashreplace") if found else ""


class Router:
    """Knows the streams, and tells which lines are records of one of them.

    A line belongs to a stream when it begins with `"type": "RECORD"` and the stream's name, in
    either order and any spacing, written without escapes. The rest of the line is for the source
    kernel to check, duplicate keys included.
    """

    def __init__(self) -> None:
        self._kernel = kernel()
        self._names: dict[bytes, str] = {}

    def add(self, stream: str) -> None:
        """Make a stream known; records of others are not routed."""
        self._names[stream.encode()] = stream

    def run(self, data: bytearray, start: int, end: int) -> tuple[str, int, int] | None:
        """Find the run of record lines that begins at `start`.

        Args:
            data: a buffer of whole lines.
            start: where a line begins.
            end: one past the last newline.

        Returns:
            The stream, where the run ends, and how many lines it has; None if the first line is
            no record of a known stream, or doesn't tell by its first bytes.
        """
        found = _HEAD.match(data, start, end)
        if found is None:
            return None
        stream = self._names.get(found[1] or found[2])
        if stream is None:
            return None
        if self._kernel is not None:
            return stream, *self._kernel.run(data, start, end, found[0])
        count = 0
        while data.startswith(found[0], start, end):
            start, count = data.index(b"\n", start, end) + 1, count + 1
        return stream, start, count


@dataclass(slots=True)
class Stream:
    """A stream's schema, what it has spooled since the last cut, and what it has brought so far."""

    message: Schema
    fields: tuple[Field, ...]
    sequence: int = 0
    segment: Segment | None = None
    envelope: bool = True
    begun: int = 0
    records: int = 0
    bytes: int = 0
    reported: int = 0


class Collector:
    """The streams of an input, and the batches that the coming flush is made of.

    Args:
        spool: where the lines go.
        config: when a flush is full, and how its records are to be read.
        origin: the plain file that the buffers of `add_run` are read from, if tasks can read it.
        at_states: whether a flush is cut behind a STATE alone.

    Attributes:
        streams: the streams so far, by name, in order of their first SCHEMA.
        origin: see above; `start` is where the present buffer begins in it.
    """

    def __init__(
        self,
        spool: SpoolWriter,
        config: DestinationConfig,
        origin: Origin | None,
        *,
        at_states: bool,
    ) -> None:
        self.streams: dict[str, Stream] = {}
        self.origin = origin
        self._spool = spool
        self._config = config
        limits = _NO_LIMIT, _NO_LIMIT
        if config.mode is not Mode.OVERWRITE:  # that replaces all rows at once
            size = max(1, int(config.maximum_batch_size_mb * 2**20))
            limits = size, config.maximum_batch_rows or _NO_LIMIT
        self._due_bytes, self._due_rows = limits
        self._flush_bytes, self._flush_rows = (_NO_LIMIT, _NO_LIMIT) if at_states else limits
        self._sync_started = time.time_ns() // 1000
        self._bytes = 0
        self._rows = 0
        self._closed: list[Batch] = []

    @property
    def due(self) -> bool:
        """Whether the flush has to be cut behind the next STATE."""
        return self._bytes >= self._due_bytes or self._rows >= self._due_rows

    @property
    def full(self) -> bool:
        """Whether the flush has to be cut here."""
        return self._bytes >= self._flush_bytes or self._rows >= self._flush_rows

    def declare(self, message: Schema) -> bool:
        """Take a SCHEMA; what came under another one becomes a batch of its own.

        Returns:
            Whether the stream is new.

        Raises:
            InputError: the JSON schema can't be used.
        """
        stream = self.streams.get(message.stream)
        if stream is not None and stream.message == message:
            return False
        fields = self._fields(message)
        if stream is None:
            self.streams[message.stream] = Stream(message, fields)
            return True
        self._close(stream)
        stream.message, stream.fields = message, fields
        return False

    def add_run(
        self, stream: Stream, data: bytearray, start: int, end: int, count: int, line: int
    ) -> tuple[int, int]:
        """Spool consecutive record lines up to the cut.

        Args:
            stream: whose records they are.
            data: a buffer of whole lines.
            start: where the first record line begins in it.
            end: one past the newline of the last one.
            count: how many lines that is.
            line: number of the first one in the input.

        Returns:
            Where the cut is in `data`, and how many lines were taken.
        """
        if self._bytes + end - start >= self._flush_bytes:
            end = data.index(b"\n", start + self._flush_bytes - self._bytes - 1, end) + 1
            count = count_lines(data, start, end)
        if self._rows + count > self._flush_rows:
            count = self._flush_rows - self._rows
            end = line_end(data, start, end, count)
        segment = self._segment(stream, envelope=True)
        segment.append(data, start, end, count, line, self.origin)
        self._add(stream, end - start, count)
        return end, count

    def add_line(self, stream: Stream, line: bytes, number: int) -> None:
        """Spool one record line that is not as the input has it, or did not show by its start."""
        self._segment(stream, envelope=True).append(line, 0, len(line), 1, number)
        self._add(stream, len(line), 1)

    def add_piece(self, stream: Stream, piece: Piece) -> None:
        """Spool record lines out of a BATCH's file."""
        segment = self._segment(stream, envelope=False)
        segment.append(piece.data, 0, piece.end, piece.records, piece.line)
        self._add(stream, piece.end, piece.records)

    def _segment(self, stream: Stream, *, envelope: bool) -> Segment:
        """The stream's open segment; lines with and without envelopes don't share one."""
        if stream.segment is not None and stream.envelope != envelope:
            self._close(stream)
        if stream.segment is None:
            stream.segment = self._spool.segment()
            stream.envelope = envelope
            stream.begun = time.time_ns() // 1000
        return stream.segment

    def _add(self, stream: Stream, size: int, count: int) -> None:
        stream.records += count
        stream.bytes += size
        self._bytes += size
        self._rows += count

    def advance(self, size: int) -> None:
        """Say that the next buffer begins this many bytes further on in the origin."""
        if self.origin is not None:
            self.origin.start += size

    def cut(self, *, last: bool = False) -> tuple[Batch, ...]:
        """Hand out the flush's batches and begin the next flush.

        Args:
            last: the input has ended; the streams that brought no record are told, too.
        """
        for stream in self.streams.values():
            self._close(stream)
            if last and stream.records == 0:
                stream.begun = time.time_ns() // 1000
                self._closed.append(self._schema_only(stream))
        batches = tuple(self._closed)
        self._closed, self._bytes, self._rows = [], 0, 0
        return batches

    def report(self, on_progress: Callable[[str, int, int], None]) -> None:
        """Tell how far each stream is that has moved since the last call."""
        for name, stream in self.streams.items():
            if stream.records != stream.reported:
                stream.reported = stream.records
                on_progress(name, stream.records, stream.bytes)

    def _close(self, stream: Stream) -> None:
        """Make what a stream has spooled a batch of the coming flush."""
        segment, stream.segment = stream.segment, None
        if segment is None:
            return
        batch = replace(
            self._schema_only(stream),
            sequence=stream.sequence,
            splits=self._spool.finish(segment),
            records=segment.records,
            bytes=segment.bytes,
            digest=segment.digest,
            schema_only=False,
        )
        self._closed.append(batch)
        stream.sequence += 1

    def _schema_only(self, stream: Stream) -> Batch:
        return Batch(
            stream=stream.message.stream,
            sequence=-1,
            reader=self._reader(stream),
            records=0,
            bytes=0,
            key_properties=stream.message.key_properties,
            partition_keys=stream.message.partition_keys,
            schema_only=True,
        )

    def _reader(self, stream: Stream) -> Reader:
        from lakeport.sources.json.reader import JsonReader

        return JsonReader(
            stream.message.stream,
            stream.fields,
            envelope=stream.envelope,
            unknown=UnknownPolicy.DROP if stream.message.cut else self._config.unknown_fields,
            key_properties=stream.message.key_properties,
            max_record_mb=max_record_mb(self._config),
            metadata=self._metadata(stream),
        )

    def _metadata(self, stream: Stream) -> Metadata | None:
        if not self._config.add_record_metadata:
            return None
        from lakeport.sources.singer.metadata import Metadata

        return Metadata(self._sync_started, stream.begun)

    def _fields(self, message: Schema) -> tuple[Field, ...]:
        from lakeport.schema.jsonschema import parse_schema
        from lakeport.sources.files.declared_columns import retyped

        fields = parse_schema(message.stream, message.schema, message.key_properties)
        fields = retyped(fields, self._config.columns)
        if not self._config.add_record_metadata:
            return fields
        from lakeport.sources.singer.metadata import declared

        return declared(fields)


_log = logging.getLogger(__name__)


class SingerSource:
    """Iterates the flushes of one Singer input; the last one has `last` set, even if empty.

    Args:
        lines: decompressed bytes, one message a line.
        spool: takes the lines of the records.
        config: the target's: its limits cut flushes (an overwrite is one), its `catalog` replaces
            SCHEMAs, its `batch_roots` allow files of BATCHes (by default the system's temporary
            folder and the current one).
        origin: the plain file that `lines` reads from its start, if tasks can read it too: long
            runs of records are then read from there, and not spooled.
        on_progress: called at times with a stream, its records and its bytes so far.
        stray_lines: `fail` treats lines that are no JSON object as bad records, `skip` logs them.
        at_states: whether to cut behind a STATE alone, the first behind which a limit is reached.

    Attributes:
        lines: lines read so far.
        stray_lines_skipped: how many stray lines `skip` left out.
    """

    def __init__(
        self,
        lines: BinaryIO,
        spool: SpoolWriter,
        config: DestinationConfig,
        origin: Path | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
        *,
        stray_lines: Literal["fail", "skip"] = "fail",
        at_states: bool = False,
    ) -> None:
        self.lines = 0
        self._active: dict[str, int] = {}
        self._early: dict[str, int] = {}
        self.stray_lines_skipped = 0
        self._due = False
        self._input = lines
        self._spool = spool
        self._config = config
        self._stray_lines = stray_lines
        self._max_mb = max_record_mb(config)
        self._catalog = {
            name: Schema(name, one.schema, one.key_properties, one.partition_keys, cut=True)
            for name, one in config.catalog.items()
        }
        begin = None if origin is None else Origin(str(origin))
        self._collector = Collector(spool, config, begin, at_states=at_states)
        self._single = config.mode is Mode.OVERWRITE or at_states
        self._roots = tuple(map(Path, config.batch_roots)) or default_roots()
        self._on_progress = on_progress
        self._router = Router()
        self._states = PendingStates()
        self._bad: list[BadRecord] = []
        self._bad_bytes = 0

    @property
    def counts(self) -> dict[str, int]:
        """Per stream, in order of their first SCHEMA, how many records it has brought so far."""
        seen = list(self._collector.streams.items())  # another thread may ask while this one reads
        return {name: stream.records for name, stream in seen}

    def __iter__(self) -> Iterator[Flush]:
        """Read the input to its end, once.

        Raises:
            BadRecords: a line that is no message, or a record before its stream's SCHEMA, under
                the policy `fail`; nothing since the last flush has been handed out.
            InputError: a SCHEMA or a BATCH that can't be used.
            SourceError: the input, a BATCH's file or the spool folder can't be read or written.
        """
        read = 0
        for block in read_blocks(self._input, self._max_mb << 20):
            yield from self._read(block)
            self._collector.advance(block.end)
            self._spool.settle()
            read += block.end
            reached(read, sum(self.counts.values()))
            if self._on_progress is not None:
                self._collector.report(self._on_progress)
        yield self._cut(last=True)

    def _read(self, block: LineBlock) -> Iterator[Flush]:
        if block.too_long is not None:
            self.lines += 1
            self._collector.origin = None  # how far it reaches is not known any more
            self._bad_line(f"longer than the limit of {self._max_mb} MB", block.too_long)
        data, at = block.data, 0
        tail = data.rfind(b"\n", 0, block.end - 1) + 1 if block.cut_off else block.end
        while at < block.end:
            if data.startswith(_BOM, at):  # of one of several files that were joined
                at += len(_BOM)
            run = self._router.run(data, at, tail) if at < tail else None
            if run is None:
                end = data.index(b"\n", at, block.end) + 1
                self._message(bytes(data[at:end]), whole=end <= tail)
            else:
                name, end, count = run
                stream = self._collector.streams[name]
                end, count = self._collector.add_run(stream, data, at, end, count, self.lines + 1)
                self.lines += count
            at = end
            if (
                self._due
                or self._collector.full
                or (self._bad_bytes >= _MAX_HELD_BAD and not self._single)
            ):
                yield self._cut()

    def _message(self, line: bytes, *, whole: bool = True) -> None:
        """Take one line that is not known to be a record by its first bytes."""
        self.lines += 1
        text = line.strip(b" \t\r\n")
        if not text:
            return
        match decode(text, self.lines):
            case RecordMessage(stream):
                self._record(stream, line)
            case State(value):
                self._states.add(value)
                self._due = self._collector.due
            case Schema() as schema:
                self._schema(schema)
            case Malformed(reason, stream):
                cut = "" if whole else "the last line is incomplete: "
                self._bad_line(cut + reason, line.rstrip(b"\r\n"), stream or stream_of(text))
            case Stray():
                self._stray(text)
            case BatchFiles() as files:
                self._batch_files(files)
            case ActivateVersion(stream, version):
                self._activate(stream, version)
            case Log(level, message):
                _log.log(_level(level), "%s", message)
            case Unknown(kind):
                _log.warning("line %d: skipped a message of type %r", self.lines, kind[:_SHOWN])

    def _record(self, name: str, line: bytes) -> None:
        stream = self._stream(name)
        if stream is None:
            self._bad_line("a record before its stream's SCHEMA", line.rstrip(b"\r\n"), name)
            return
        self._collector.add_line(stream, line.lstrip(b" \t\r"), self.lines)

    def _stream(self, name: str) -> Stream | None:
        """A stream that has its schema, from a SCHEMA or from the catalog."""
        if name not in self._collector.streams and name in self._catalog:
            self._schema(self._catalog[name])
        return self._collector.streams.get(name)

    def _bad_line(self, reason: str, raw: bytes, stream: str = "") -> None:
        bad = BadRecord(stream, self.lines, "", reason, raw)
        if self._config.on_bad_record != "quarantine":
            raise BadRecords((bad,))
        self._bad.append(bad)
        self._bad_bytes += len(raw) + 256  # an object's own size, about
        if self._single and self._bad_bytes >= _MAX_HELD_BAD:
            raise BadRecords(
                tuple(self._bad[:100]),
                len(self._bad),
                "so many lines are no messages that the input is hardly what the tap meant",
            )

    def _stray(self, text: bytes) -> None:
        if self._stray_lines != "skip":
            self._bad_line("not a JSON object", text)
            return
        self.stray_lines_skipped += 1
        shown = text[: 4 * _SHOWN].decode(errors="backslashreplace")[:_SHOWN]
        shown = "".join(char if char.isprintable() else "?" for char in shown)
        _log.info("Unable to parse: %s", shown)

    def _schema(self, message: Schema) -> None:
        message = self._catalog.get(message.stream, message)
        try:
            new = self._collector.declare(message)
        except InputError as error:
            raise type(error)(f"line {self.lines}: {error.message}", error.hint) from None
        if new:
            self._router.add(message.stream)

    def _activate(self, stream: str, version: int) -> None:
        known = self._stream(stream)
        # Before its records a version is not complete: its turn comes at the input's end.
        early = known is None or known.records == 0
        (self._early if early else self._active)[stream] = version

    def _batch_files(self, message: BatchFiles) -> None:
        stream = self._stream(message.stream)
        if stream is None:
            raise InputError(
                f"line {self.lines}: BATCH of stream {message.stream!r} before its SCHEMA",
                "have the tap send the SCHEMA first",
            )
        limits = unpack_limits(self._config)
        for piece in read_batch_files(message, self._roots, self._max_mb, limits):
            if piece.too_long is not None:
                reason = f"in a BATCH file: line {piece.line} is longer than {self._max_mb} MB"
                self._bad_line(reason, piece.too_long, message.stream)
            else:
                self._collector.add_piece(stream, piece)

    def _cut(self, *, last: bool = False) -> Flush:
        active = self._active
        if last:  # a stream without a SCHEMA has no table
            early = {name: v for name, v in self._early.items() if name in self._collector.streams}
            active = {**early, **active}
        flush = Flush(
            self._collector.cut(last=last), self._states.take(), tuple(self._bad), last, active
        )
        self._bad, self._bad_bytes, self._active, self._due = [], 0, {}, False
        return flush


def _level(name: str) -> int:
    return logging.getLevelNamesMapping().get(name.upper(), logging.INFO)
