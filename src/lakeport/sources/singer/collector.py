"""Records of a Singer input, collected per stream until a flush is cut."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeport.model import Batch, UnknownPolicy
from lakeport.sources.input.lines import count_lines, line_end
from lakeport.sources.singer.batch_files import Piece
from lakeport.sources.singer.messages import Schema
from lakeport.sources.singer.options import SingerOptions
from lakeport.sources.spool.segment import Origin, Segment, SpoolWriter

if TYPE_CHECKING:
    from lakeport.model import Reader
    from lakeport.schema.types import Field
    from lakeport.sources.singer.metadata import Metadata

_NO_LIMIT = 1 << 62


@dataclass(slots=True)
class StreamCount:
    """What a stream has brought so far: records (bad ones included) and their bytes."""

    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Stream:
    """A stream's schema and what it has spooled since the last cut."""

    message: Schema
    fields: tuple[Field, ...]
    sequence: int = 0
    segment: Segment | None = None
    envelope: bool = True
    begun: int = 0
    count: StreamCount = field(default_factory=StreamCount)
    reported: int = 0


class Collector:
    """The streams of an input, and the batches that the coming flush is made of.

    Args:
        spool: where the lines go.
        options: when a flush is full, and how its records are to be read.
        origin: the plain file that the buffers of `add_run` are read from, if tasks can read it.

    Attributes:
        streams: the streams so far, by name, in order of their first SCHEMA.
        origin: see above; `start` is where the present buffer begins in it.
    """

    def __init__(
        self, spool: SpoolWriter, options: SingerOptions, origin: Origin | None = None
    ) -> None:
        self.streams: dict[str, Stream] = {}
        self.origin = origin
        self._spool = spool
        self._options = options
        self._flush_bytes = self._flush_rows = _NO_LIMIT
        if not (options.single_flush or options.at_states):
            self._flush_bytes = options.flush_bytes or _NO_LIMIT
            self._flush_rows = options.flush_rows or _NO_LIMIT
        self._sync_started = time.time_ns() // 1000
        self._bytes = 0
        self._rows = 0
        self._closed: list[Batch] = []

    @property
    def due(self) -> bool:
        """Whether the flush has to be cut behind the next STATE, where only those cut."""
        options = self._options
        if options.single_flush or not options.at_states:
            return False
        size, rows = options.flush_bytes, options.flush_rows
        return 0 < size <= self._bytes or 0 < rows <= self._rows

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
        stream.count.records += count
        stream.count.bytes += size
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
            if last and stream.count.records == 0:
                self._closed.append(self._schema_only(stream))
        batches = tuple(self._closed)
        self._closed, self._bytes, self._rows = [], 0, 0
        return batches

    def report(self, on_progress: Callable[[str, int, int], None]) -> None:
        """Tell how far each stream is that has moved since the last call."""
        for name, stream in self.streams.items():
            if stream.count.records != stream.reported:
                stream.reported = stream.count.records
                on_progress(name, stream.count.records, stream.count.bytes)

    def _close(self, stream: Stream) -> None:
        """Make what a stream has spooled a batch of the coming flush."""
        segment, stream.segment = stream.segment, None
        if segment is None:
            return
        batch = Batch(
            stream=stream.message.stream,
            sequence=stream.sequence,
            reader=self._reader(stream),
            splits=self._spool.finish(segment),
            records=segment.records,
            bytes=segment.bytes,
            digest=segment.digest,
            key_properties=stream.message.key_properties,
            partition_keys=stream.message.partition_keys,
        )
        self._closed.append(batch)
        stream.sequence += 1

    def _schema_only(self, stream: Stream) -> Batch:
        stream.begun = time.time_ns() // 1000
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
            unknown=UnknownPolicy.DROP if stream.message.cut else self._options.unknown,
            key_properties=stream.message.key_properties,
            max_record_mb=self._options.max_record_mb,
            metadata=self._metadata(stream),
        )

    def _metadata(self, stream: Stream) -> Metadata | None:
        if not self._options.add_record_metadata:
            return None
        from lakeport.sources.singer.metadata import Metadata

        return Metadata(self._sync_started, stream.begun)

    def _fields(self, message: Schema) -> tuple[Field, ...]:
        from lakeport.schema.jsonschema import parse_schema
        from lakeport.sources.files.declared import retyped

        fields = parse_schema(message.stream, message.schema, message.key_properties)
        fields = retyped(fields, self._options.columns)
        if not self._options.add_record_metadata:
            return fields
        from lakeport.sources.singer.metadata import declared

        return declared(fields)
