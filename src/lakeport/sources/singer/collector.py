"""Records of a Singer input, collected per stream until a flush is cut."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeport.model import Batch, UnknownPolicy
from lakeport.sources.input.lines import count_lines, line_end
from lakeport.sources.singer.messages import Schema
from lakeport.sources.spool.segment import Origin, Segment, Spool

if TYPE_CHECKING:
    from lakeport.model import Reader
    from lakeport.schema.types import Field
    from lakeport.sources.singer.metadata import Metadata

__all__ = ["Collector", "Limits", "Stream", "StreamCount"]

_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Limits:
    """When a flush is full: size of its record lines in bytes, number of records; 0 for never."""

    bytes: int = 0
    rows: int = 0


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
        limits: when a flush is full.
        unknown: what the source kernel does with undeclared fields.
        max_record_mb: longest line, in MB.
        sync_started: when the run began, in microseconds since 1970, for records that get
            metadata; 0 for those that don't.
    """

    def __init__(
        self,
        spool: Spool,
        limits: Limits,
        unknown: UnknownPolicy,
        max_record_mb: int,
        sync_started: int = 0,
    ) -> None:
        self.streams: dict[str, Stream] = {}
        self._spool = spool
        self._flush_bytes = limits.bytes or _NO_LIMIT
        self._flush_rows = limits.rows or _NO_LIMIT
        self._unknown = unknown
        self._max_mb = max_record_mb
        self._sync_started = sync_started
        self._bytes = 0
        self._rows = 0
        self._closed: list[Batch] = []

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
        self,
        stream: Stream,
        data: bytearray,
        start: int,
        end: int,
        count: int,
        line: int,
        origin: Origin | None = None,
    ) -> tuple[int, int]:
        """Spool consecutive record lines up to the cut.

        Returns:
            Where that is in `data`, and how many lines were taken.
        """
        if self._bytes + end - start >= self._flush_bytes:
            end = data.index(b"\n", start + self._flush_bytes - self._bytes - 1, end) + 1
            count = count_lines(data, start, end)
        if self._rows + count > self._flush_rows:
            count = self._flush_rows - self._rows
            end = line_end(data, start, end, count)
        self.add(stream, data, start, end, count, line, origin=origin)
        return end, count

    def add(
        self,
        stream: Stream,
        data: bytes | bytearray,
        start: int,
        end: int,
        count: int,
        line: int,
        *,
        envelope: bool = True,
        origin: Origin | None = None,
    ) -> None:
        """Spool `count` consecutive lines of `data`; `line` is the number of the first."""
        if stream.segment is not None and stream.envelope != envelope:
            self._close(stream)
        if stream.segment is None:
            stream.segment = self._spool.segment()
            stream.envelope = envelope
            stream.begun = time.time_ns() // 1000
        stream.segment.append(data, start, end, count, line, origin)
        stream.count.records += count
        stream.count.bytes += end - start
        self._bytes += end - start
        self._rows += count

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
            unknown=UnknownPolicy.DROP if stream.message.cut else self._unknown,
            key_properties=stream.message.key_properties,
            max_record_mb=self._max_mb,
            metadata=self._metadata(stream),
        )

    def _metadata(self, stream: Stream) -> Metadata | None:
        if not self._sync_started:
            return None
        from lakeport.sources.singer.metadata import Metadata

        return Metadata(self._sync_started, stream.begun)

    def _fields(self, message: Schema) -> tuple[Field, ...]:
        from lakeport.schema.jsonschema import parse_schema

        fields = parse_schema(message.stream, message.schema, message.key_properties)
        if not self._sync_started:
            return fields
        from lakeport.sources.singer.metadata import declared

        return declared(fields)
