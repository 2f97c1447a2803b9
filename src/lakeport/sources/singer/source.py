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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import BadRecord, BadRecords, InputError
from lakeport.host.activity import reached
from lakeport.model import Flush
from lakeport.sources.input.lines import Block, read_blocks
from lakeport.sources.singer.batch_files import default_roots, read_batch_files
from lakeport.sources.singer.collector import Collector, Stream, StreamCount
from lakeport.sources.singer.messages import (
    ActivateVersion,
    BatchFiles,
    Log,
    Malformed,
    Record,
    Schema,
    State,
    Stray,
    Unknown,
    decode,
)
from lakeport.sources.singer.options import SingerOptions
from lakeport.sources.singer.router import Router, stream_of
from lakeport.sources.singer.state import PendingStates
from lakeport.sources.spool.segment import Origin, SpoolWriter

if TYPE_CHECKING:
    pass

_log = logging.getLogger(__name__)
_BOM = b"\xef\xbb\xbf"
_MAX_HELD_BAD = 64 << 20
_SHOWN = 80


class SingerSource:
    """Iterates the flushes of one Singer input; the last one has `last` set, even if empty.

    Args:
        lines: decompressed bytes, one message a line.
        spool: takes the lines of the records.
        options: how messages become flushes.
        origin: the plain file that `lines` reads from its start, if tasks can read it too: long
            runs of records are then read from there, and not spooled.
        on_progress: called at times with a stream, its records and its bytes so far.

    Attributes:
        lines: lines read so far.
        stray_lines_skipped: how many stray lines `skip` left out.
    """

    def __init__(
        self,
        lines: BinaryIO,
        spool: SpoolWriter,
        options: SingerOptions,
        origin: Path | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.lines = 0
        self._active: dict[str, int] = {}
        self._early: dict[str, int] = {}
        self.stray_lines_skipped = 0
        self._due = False
        self._input = lines
        self._spool = spool
        self._options = options
        self._collector = Collector(spool, options, None if origin is None else Origin(str(origin)))
        self._single = options.single_flush or options.at_states
        self._roots = options.batch_roots or default_roots()
        self._on_progress = on_progress
        self._router = Router()
        self._states = PendingStates()
        self._bad: list[BadRecord] = []
        self._bad_bytes = 0

    @property
    def counts(self) -> dict[str, StreamCount]:
        """Per stream, in order of their first SCHEMA, what it has brought so far."""
        seen = list(self._collector.streams.items())  # another thread may ask while this one reads
        return {name: stream.count for name, stream in seen}

    def __iter__(self) -> Iterator[Flush]:
        """Read the input to its end, once.

        Raises:
            BadRecords: a line that is no message, or a record before its stream's SCHEMA, under
                the policy `fail`; nothing since the last flush has been handed out.
            InputError: a SCHEMA or a BATCH that can't be used.
            SourceError: the input, a BATCH's file or the spool folder can't be read or written.
        """
        read = 0
        for block in read_blocks(self._input, self._options.max_record_mb << 20):
            yield from self._read(block)
            self._collector.advance(block.end)
            self._spool.settle()
            read += block.end
            reached(read, sum(count.records for count in self.counts.values()))
            if self._on_progress is not None:
                self._collector.report(self._on_progress)
        yield self._cut(last=True)

    def _read(self, block: Block) -> Iterator[Flush]:
        if block.too_long is not None:
            self.lines += 1
            self._collector.origin = None  # how far it reaches is not known any more
            limit = self._options.max_record_mb
            self._bad_line(f"longer than the limit of {limit} MB", block.too_long)
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
            case Record(stream):
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
        catalog = self._options.catalog
        if name not in self._collector.streams and name in catalog:
            self._schema(catalog[name])
        return self._collector.streams.get(name)

    def _bad_line(self, reason: str, raw: bytes, stream: str = "") -> None:
        bad = BadRecord(stream, self.lines, "", reason, raw)
        if self._options.on_bad_record != "quarantine":
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
        if self._options.stray_lines != "skip":
            self._bad_line("not a JSON object", text)
            return
        self.stray_lines_skipped += 1
        shown = text[: 4 * _SHOWN].decode(errors="backslashreplace")[:_SHOWN]
        shown = "".join(char if char.isprintable() else "?" for char in shown)
        _log.info("Unable to parse: %s", shown)

    def _schema(self, message: Schema) -> None:
        message = self._options.catalog.get(message.stream, message)
        try:
            new = self._collector.declare(message)
        except InputError as error:
            raise type(error)(f"line {self.lines}: {error.message}", error.hint) from None
        if new:
            self._router.add(message.stream)

    def _activate(self, stream: str, version: int) -> None:
        known = self._stream(stream)
        # Before its records a version is not complete: its turn comes at the input's end.
        early = known is None or known.count.records == 0
        (self._early if early else self._active)[stream] = version

    def _batch_files(self, message: BatchFiles) -> None:
        stream = self._stream(message.stream)
        if stream is None:
            raise InputError(
                f"line {self.lines}: BATCH of stream {message.stream!r} before its SCHEMA",
                "have the tap send the SCHEMA first",
            )
        limit = self._options.max_record_mb
        for piece in read_batch_files(message, self._roots, limit, self._options.limits):
            if piece.too_long is not None:
                reason = f"in a BATCH file: line {piece.line} is longer than {limit} MB"
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
