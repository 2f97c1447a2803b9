"""Read a Singer tap's lines and cut them into flushes of batches, without parsing records.

```
lines ─▶ runs of RECORD lines ─▶ spool, per stream ─┐
   └──▶ other messages ─▶ schemas, states ──────────┴─▶ cut ─▶ Flush(batches, states)
```
A flush is cut behind the line with which the records since the last cut, of all streams together,
reach the limit of bytes or rows. So the cuts depend on the input alone: a repeated run cuts at the
same places. Tasks parse and check the records later, by the source kernel.
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
from lakeport.host.activity import set_progress
from lakeport.model import Batch, Flush, Mode, UnknownPolicy
from lakeport.native import kernel
from lakeport.sources.input.decompression import unpack_limits
from lakeport.sources.input.lines import LineBlock, find_line_end, read_blocks
from lakeport.sources.options import max_record_mb
from lakeport.sources.singer.batch_files import BatchLines, default_batch_roots, read_batch_files
from lakeport.sources.singer.messages import (
    ActivateVersionMessage,
    BatchMessage,
    LogMessage,
    MalformedLine,
    NonJsonLine,
    RecordMessage,
    SchemaMessage,
    StateMessage,
    UnknownMessage,
    decode_message,
)
from lakeport.sources.singer.state import PendingStates
from lakeport.sources.spool import OriginFile, SpoolSegment, SpoolWriter

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.model import Reader
    from lakeport.schema.types import Field
    from lakeport.sources.singer.metadata import RecordMetadata

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


def guess_stream(line: bytes) -> str:
    """Return the stream that the start of a broken RECORD line names; empty if it names none.

    >>> guess_stream(b'{"type": "RECORD", "stream": "users", "rec')
    'users'
    """
    found = _HEAD.match(line)
    return (found[1] or found[2]).decode(errors="backslashreplace") if found else ""


class RecordRouter:
    """Finds consecutive RECORD lines of the same stream in a buffer, without parsing them.

    A line belongs to a stream if it begins with `"type": "RECORD"` and the stream's name, in
    either order and any spacing, written without escapes. The source kernel checks the rest of the
    line later, duplicate keys included.
    """

    def __init__(self) -> None:
        self._kernel = kernel()
        self._names: dict[bytes, str] = {}

    def add_stream(self, stream: str) -> None:
        """Register a stream, whose runs `find_run` finds from now on."""
        self._names[stream.encode()] = stream

    def find_run(self, data: bytearray, start: int, end: int) -> tuple[str, int, int] | None:
        """Return stream, end and number of the RECORD lines at `start`; None if unrecognised.

        Returns:
            The stream, the offset behind the run, and its number of lines; None if the first
            bytes don't show that the first line is a record of a registered stream.
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
class SingerStream:
    """The state of a stream: its SCHEMA, the spool segment being written, and its totals so far.

    Attributes:
        segment: takes the records since the last cut; None if there are none.
        has_envelope: whether the segment's lines are RECORD messages, not bare records of a BATCH.
        begun_micros: when the segment was begun, in microseconds since 1970.
        reported_records: records that the last progress report counted.
    """

    message: SchemaMessage
    fields: tuple[Field, ...]
    sequence: int = 0
    segment: SpoolSegment | None = None
    has_envelope: bool = True
    begun_micros: int = 0
    records: int = 0
    bytes: int = 0
    reported_records: int = 0


class BatchCollector:
    """Spools the records of each stream to disk, and collects the batches of the next flush.

    Args:
        origin: the uncompressed input file, if tasks can read it themselves; else None.
        at_states: whether a flush ends only behind a STATE.

    Attributes:
        origin: see above; its `start` is the offset of the current buffer in the file.
    """

    def __init__(
        self,
        spool: SpoolWriter,
        config: DestinationConfig,
        origin: OriginFile | None,
        *,
        at_states: bool,
    ) -> None:
        self.streams: dict[str, SingerStream] = {}
        self.origin = origin
        self._spool = spool
        self._config = config
        limits = _NO_LIMIT, _NO_LIMIT
        if config.mode is not Mode.OVERWRITE:  # an overwrite replaces all rows by one commit
            size = max(1, int(config.maximum_batch_size_mb * 2**20))
            limits = size, config.maximum_batch_rows or _NO_LIMIT
        self._cut_bytes, self._cut_rows = limits
        self._flush_bytes, self._flush_rows = (_NO_LIMIT, _NO_LIMIT) if at_states else limits
        self._sync_started = time.time_ns() // 1000
        self._bytes = 0
        self._rows = 0
        self._closed_batches: list[Batch] = []

    @property
    def is_due(self) -> bool:
        """Whether the records since the last cut reach a limit, so that the next STATE cuts."""
        return self._bytes >= self._cut_bytes or self._rows >= self._cut_rows

    @property
    def is_full(self) -> bool:
        """Whether the flush has to be cut behind the current line; never with `at_states`."""
        return self._bytes >= self._flush_bytes or self._rows >= self._flush_rows

    def add_schema(self, message: SchemaMessage) -> bool:
        """Set the SCHEMA of a stream's next records; return whether the stream is new.

        Raises:
            InputError: columns can't be made of the JSON schema.
        """
        stream = self.streams.get(message.stream)
        if stream is not None and stream.message == message:
            return False
        fields = self._parse_fields(message)
        if stream is None:
            self.streams[message.stream] = SingerStream(message, fields)
            return True
        self._close_batch(stream)
        stream.message, stream.fields = message, fields
        return False

    def spool_run(
        self,
        stream: SingerStream,
        data: bytearray,
        start: int,
        end: int,
        count: int,
        first_line: int,
    ) -> tuple[int, int]:
        """Spool record lines, at most until the flush is full; return their end offset and number.

        Args:
            data: a buffer of whole lines.
            end: the offset behind the last record line.
        """
        if self._bytes + end - start >= self._flush_bytes:
            end = data.index(b"\n", start + self._flush_bytes - self._bytes - 1, end) + 1
            count = data.count(b"\n", start, end)
        if self._rows + count > self._flush_rows:
            count = self._flush_rows - self._rows
            end = find_line_end(data, start, end, count)
        segment = self._open_segment(stream, envelope=True)
        segment.append(data, start, end, count, first_line, self.origin)
        self._count_records(stream, end - start, count)
        return end, count

    def spool_line(self, stream: SingerStream, line: bytes, line_number: int) -> None:
        """Spool one record line that `RecordRouter` did not find."""
        self._open_segment(stream, envelope=True).append(line, 0, len(line), 1, line_number)
        self._count_records(stream, len(line), 1)

    def spool_batch_lines(self, stream: SingerStream, lines: BatchLines) -> None:
        """Spool record lines that were read from a BATCH message's file."""
        segment = self._open_segment(stream, envelope=False)
        segment.append(lines.data, 0, lines.end, lines.records, lines.line)
        self._count_records(stream, lines.end, lines.records)

    def _open_segment(self, stream: SingerStream, *, envelope: bool) -> SpoolSegment:
        """Return the open segment, for messages (`envelope`) or bare records; else begin one."""
        if stream.segment is not None and stream.has_envelope != envelope:
            self._close_batch(stream)
        if stream.segment is None:
            stream.segment = self._spool.begin_segment()
            stream.has_envelope = envelope
            stream.begun_micros = time.time_ns() // 1000
        return stream.segment

    def _count_records(self, stream: SingerStream, size: int, count: int) -> None:
        """Add records and their bytes to the totals of the stream and of the flush."""
        stream.records += count
        stream.bytes += size
        self._bytes += size
        self._rows += count

    def advance_origin(self, size: int) -> None:
        """Move the offset of the current buffer in the origin file on by `size` bytes."""
        if self.origin is not None:
            self.origin.start += size

    def take_batches(self, *, last: bool = False) -> tuple[Batch, ...]:
        """Close all segments; return the batches since the last call and begin the next flush.

        Args:
            last: whether the input has ended: streams without a record get an empty batch then.
        """
        for stream in self.streams.values():
            self._close_batch(stream)
            if last and stream.records == 0:
                stream.begun_micros = time.time_ns() // 1000
                self._closed_batches.append(self._empty_batch(stream))
        batches = tuple(self._closed_batches)
        self._closed_batches, self._bytes, self._rows = [], 0, 0
        return batches

    def report_progress(self, on_progress: Callable[[str, int, int], None]) -> None:
        """Call `on_progress(stream, records, bytes)` for each stream with new records."""
        for name, stream in self.streams.items():
            if stream.records != stream.reported_records:
                stream.reported_records = stream.records
                on_progress(name, stream.records, stream.bytes)

    def _close_batch(self, stream: SingerStream) -> None:
        """Turn a stream's open segment into a batch of the next flush; do nothing without one."""
        segment, stream.segment = stream.segment, None
        if segment is None:
            return
        batch = replace(
            self._empty_batch(stream),
            sequence=stream.sequence,
            splits=self._spool.finish(segment),
            records=segment.records,
            bytes=segment.bytes,
            digest=segment.digest,
            schema_only=False,
        )
        self._closed_batches.append(batch)
        stream.sequence += 1

    def _empty_batch(self, stream: SingerStream) -> Batch:
        """Return a batch that has the stream's columns and no rows."""
        return Batch(
            stream=stream.message.stream,
            sequence=-1,
            reader=self._make_reader(stream),
            records=0,
            bytes=0,
            key_properties=stream.message.key_properties,
            partition_keys=stream.message.partition_keys,
            schema_only=True,
        )

    def _make_reader(self, stream: SingerStream) -> Reader:
        """Return a JSON reader of the stream's records, by its current SCHEMA."""
        from lakeport.sources.json.reader import JsonReader

        return JsonReader(
            stream.message.stream,
            stream.fields,
            envelope=stream.has_envelope,
            unknown=UnknownPolicy.DROP
            if stream.message.drops_undeclared
            else self._config.unknown_fields,
            key_properties=stream.message.key_properties,
            max_record_mb=max_record_mb(self._config),
            metadata=self._make_metadata(stream),
        )

    def _make_metadata(self, stream: SingerStream) -> RecordMetadata | None:
        """Return the times for a batch's `_sdc_*` columns; None without `add_record_metadata`."""
        if not self._config.add_record_metadata:
            return None
        from lakeport.sources.singer.metadata import RecordMetadata

        return RecordMetadata(self._sync_started, stream.begun_micros)

    def _parse_fields(self, message: SchemaMessage) -> tuple[Field, ...]:
        """Return a SCHEMA's columns, with types of config key `columns`; and `_sdc_*` if set."""
        from lakeport.schema.jsonschema import parse_schema
        from lakeport.sources.files.declared_columns import override_types

        fields = parse_schema(message.stream, message.schema, message.key_properties)
        fields = override_types(fields, self._config.columns)
        if not self._config.add_record_metadata:
            return fields
        from lakeport.sources.singer.metadata import add_metadata_fields

        return add_metadata_fields(fields)


_log = logging.getLogger(__name__)


class SingerSource:
    """Iterates the flushes of a Singer input; the final one has `last` set and may be empty.

    Args:
        config: the target's: its limits cut flushes (an overwrite is one flush), its `catalog`
            replaces SCHEMAs, its `batch_roots` allow files of BATCHes (by default the system's
            temporary folder and the current one).
        origin: the uncompressed file that `lines` reads from its start, if tasks can read it too:
            they read long runs of records there, and these are not spooled.
        on_progress: called at times with a stream, its records and its bytes so far.
        stray_lines: `fail` treats lines that are no JSON object as bad records, `skip` logs them.
        at_states: whether a flush ends only behind a STATE: the first one once a limit is reached.
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
        self._active_versions: dict[str, int] = {}
        self._early_versions: dict[str, int] = {}
        self.stray_lines_skipped = 0
        self._must_cut = False
        self._input = lines
        self._spool = spool
        self._config = config
        self._stray_lines = stray_lines
        self._max_record_mb = max_record_mb(config)
        self._catalog = {
            name: SchemaMessage(
                name, one.schema, one.key_properties, one.partition_keys, drops_undeclared=True
            )
            for name, one in config.catalog.items()
        }
        begin = None if origin is None else OriginFile(str(origin))
        self._collector = BatchCollector(spool, config, begin, at_states=at_states)
        self._is_one_flush = config.mode is Mode.OVERWRITE or at_states
        self._roots = tuple(map(Path, config.batch_roots)) or default_batch_roots()
        self._on_progress = on_progress
        self._router = RecordRouter()
        self._states = PendingStates()
        self._bad_records: list[BadRecord] = []
        self._bad_bytes = 0

    @property
    def counts(self) -> dict[str, int]:
        """Number of records so far by stream, in order of the streams' first SCHEMA."""
        seen = list(self._collector.streams.items())  # another thread may ask while this one reads
        return {name: stream.records for name, stream in seen}

    def __iter__(self) -> Iterator[Flush]:
        """Read the input once to its end; yield flushes as limits, STATEs and the end cut them.

        Raises:
            BadRecords: a line is no message, or a record comes before its stream's SCHEMA, under
                the policy `fail`; nothing since the last flush has been yielded.
            InputError: a SCHEMA or a BATCH is invalid.
            SourceError: the input, a BATCH's file or the spool folder can't be read or written.
        """
        read = 0
        for block in read_blocks(self._input, self._max_record_mb << 20):
            yield from self._read_block(block)
            self._collector.advance_origin(block.end)
            self._spool.limit_buffers()
            read += block.end
            set_progress(read, sum(self.counts.values()))
            if self._on_progress is not None:
                self._collector.report_progress(self._on_progress)
        yield self._cut_flush(last=True)

    def _read_block(self, block: LineBlock) -> Iterator[Flush]:
        """Spool a block's records and handle its other messages; yield a flush when one is due."""
        if block.too_long is not None:
            self.lines += 1
            self._collector.origin = None  # the length of the line, and so the offset, is unknown
            self._add_bad_line(f"longer than the limit of {self._max_record_mb} MB", block.too_long)
        data, at = block.data, 0
        tail = data.rfind(b"\n", 0, block.end - 1) + 1 if block.is_cut_off else block.end
        while at < block.end:
            if data.startswith(_BOM, at):  # one of several files that were joined begins here
                at += len(_BOM)
            run = self._router.find_run(data, at, tail) if at < tail else None
            if run is None:
                end = data.index(b"\n", at, block.end) + 1
                self._handle_line(bytes(data[at:end]), is_complete=end <= tail)
            else:
                name, end, count = run
                stream = self._collector.streams[name]
                end, count = self._collector.spool_run(stream, data, at, end, count, self.lines + 1)
                self.lines += count
            at = end
            if (
                self._must_cut
                or self._collector.is_full
                or (self._bad_bytes >= _MAX_HELD_BAD and not self._is_one_flush)
            ):
                yield self._cut_flush()

    def _handle_line(self, line: bytes, *, is_complete: bool = True) -> None:
        """Handle a line that `RecordRouter` does not know: a message, a record or a bad line."""
        self.lines += 1
        text = line.strip(b" \t\r\n")
        if not text:
            return
        match decode_message(text, self.lines):
            case RecordMessage(stream):
                self._spool_record(stream, line)
            case StateMessage(value):
                self._states.add(value)
                self._must_cut = self._collector.is_due
            case SchemaMessage() as schema:
                self._declare_stream(schema)
            case MalformedLine(reason, stream):
                cut = "" if is_complete else "the last line is incomplete: "
                self._add_bad_line(cut + reason, line.rstrip(b"\r\n"), stream or guess_stream(text))
            case NonJsonLine():
                self._handle_stray_line(text)
            case BatchMessage() as files:
                self._spool_batch_files(files)
            case ActivateVersionMessage(stream, version):
                self._activate_version(stream, version)
            case LogMessage(level, message):
                number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
                _log.log(number, "%s", message)
            case UnknownMessage(kind):
                _log.warning("line %d: skipped a message of type %r", self.lines, kind[:_SHOWN])

    def _spool_record(self, stream_name: str, line: bytes) -> None:
        """Spool one RECORD line; add it to the bad lines if its stream has no SCHEMA."""
        stream = self._find_stream(stream_name)
        if stream is None:
            self._add_bad_line(
                "a record before its stream's SCHEMA", line.rstrip(b"\r\n"), stream_name
            )
            return
        self._collector.spool_line(stream, line.lstrip(b" \t\r"), self.lines)

    def _find_stream(self, stream_name: str) -> SingerStream | None:
        """Return a stream, declared from the catalog if need be; None if it has no SCHEMA."""
        if stream_name not in self._collector.streams and stream_name in self._catalog:
            self._declare_stream(self._catalog[stream_name])
        return self._collector.streams.get(stream_name)

    def _add_bad_line(self, reason: str, raw: bytes, stream: str = "") -> None:
        """Keep a bad line for the flush; raise BadRecords unless bad records are quarantined."""
        bad = BadRecord(stream, self.lines, "", reason, raw)
        if self._config.on_bad_record != "quarantine":
            raise BadRecords((bad,))
        self._bad_records.append(bad)
        self._bad_bytes += len(raw) + 256  # an object's own size, about
        if self._is_one_flush and self._bad_bytes >= _MAX_HELD_BAD:
            raise BadRecords(
                tuple(self._bad_records[:100]),
                len(self._bad_records),
                "so many lines are no messages that this is hardly the output of a tap",
            )

    def _handle_stray_line(self, text: bytes) -> None:
        """Log and count a line that is no JSON object; by `stray_lines: fail`, it is a bad line."""
        if self._stray_lines != "skip":
            self._add_bad_line("not a JSON object", text)
            return
        self.stray_lines_skipped += 1
        shown = text[: 4 * _SHOWN].decode(errors="backslashreplace")[:_SHOWN]
        shown = "".join(char if char.isprintable() else "?" for char in shown)
        _log.info("Unable to parse: %s", shown, extra={"shows_data": True})

    def _declare_stream(self, message: SchemaMessage) -> None:
        """Set a stream's SCHEMA: the catalog's, else the message's; InputError if it is invalid."""
        message = self._catalog.get(message.stream, message)
        try:
            new = self._collector.add_schema(message)
        except InputError as error:
            raise type(error)(f"line {self.lines}: {error.message}", error.hint) from None
        if new:
            self._router.add_stream(message.stream)

    def _activate_version(self, stream: str, version: int) -> None:
        """Activate a table version in the next flush; in the final one if it has no record yet."""
        known = self._find_stream(stream)
        # Before its records a version is not complete: it is activated at the input's end.
        early = known is None or known.records == 0
        (self._early_versions if early else self._active_versions)[stream] = version

    def _spool_batch_files(self, message: BatchMessage) -> None:
        """Read a BATCH message's files and spool their records; too long lines are bad lines.

        Raises:
            InputError: the stream has no SCHEMA.
            SourceError: a file can't be read; see `read_batch_files`.
        """
        stream = self._find_stream(message.stream)
        if stream is None:
            raise InputError(
                f"line {self.lines}: BATCH of stream {message.stream!r} before its SCHEMA",
                "have the tap send the SCHEMA first",
            )
        limits = unpack_limits(self._config)
        for lines in read_batch_files(message, self._roots, self._max_record_mb, limits):
            if lines.too_long is not None:
                reason = (
                    f"in a BATCH file: line {lines.line} is longer than {self._max_record_mb} MB"
                )
                self._add_bad_line(reason, lines.too_long, message.stream)
            else:
                self._collector.spool_batch_lines(stream, lines)

    def _cut_flush(self, *, last: bool = False) -> Flush:
        """Return a flush of all batches, STATEs, bad lines and versions since the last one."""
        active = self._active_versions
        if last:  # a stream without a SCHEMA has no table
            early = {
                name: v
                for name, v in self._early_versions.items()
                if name in self._collector.streams
            }
            active = {**early, **active}
        flush = Flush(
            self._collector.take_batches(last=last),
            self._states.take(),
            tuple(self._bad_records),
            last,
            active,
        )
        self._bad_records, self._bad_bytes = [], 0
        self._active_versions, self._must_cut = {}, False
        return flush
