"""Record lines of one batch -> files on disk, each the input of one task.

A segment is what one batch is made of: whole lines, in order, cut into files of about equal size.
Beside each file stands its sidecar, which maps records to line numbers of the input, with one pair
for each run of consecutive lines. If asked for, a second one tells when the records were read, with
one pair for each millisecond in which some were. See `sources.spool.sidecar`.

Long runs out of a plain file that tasks can read are not copied: ranges of that file, without
sidecars, are inputs of tasks too.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.input.lines import count_lines
from lakeport.sources.spool.sidecar import LINES, TIMES, pack_pair

_SEGMENT_BUFFER = 1 << 20
_DIRECT = 1 << 18  # a run of this size is written from where it is
_ALL_BUFFERS = 64 << 20
_TICK = 1000  # microseconds
_REFERRED = 4 << 20  # shorter runs would make many small inputs of tasks
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_MORE = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


@dataclass(slots=True)
class Origin:
    """The plain file that a buffer was read from.

    Attributes:
        path: where the file is.
        start: where the buffer's first byte stands in it.
    """

    path: str
    start: int = 0


class SpoolWriter:
    """A folder of segments and what they hold back in memory, bounded over all of them.

    Args:
        folder: an empty private folder; the caller makes it and removes it.
        split_bytes: a file is full with the line that reaches this size.
        digest: whether segments compute the SHA-256 of their lines.
        times: whether files have the sidecar that tells when their records were read.
        on_file: is told of each file that is complete.
    """

    def __init__(
        self,
        folder: Path,
        split_bytes: int,
        *,
        digest: bool = False,
        times: bool = False,
        on_file: Callable[[Split], None] = lambda split: None,
    ) -> None:
        self._folder = folder
        self._split_bytes = max(1, split_bytes)
        self._digest = digest
        self._times = times
        self._on_file = on_file
        self._made = 0
        self._open: dict[Segment, None] = {}

    def segment(self) -> Segment:
        """Begin a segment."""
        stem = self._folder / f"{self._made:08d}"
        self._made += 1
        segment = Segment(
            stem, self._split_bytes, self._on_file, digest=self._digest, times=self._times
        )
        self._open[segment] = None
        return segment

    def settle(self) -> None:
        """Write held-back lines to disk if all segments together hold too much."""
        if sum(segment.held for segment in self._open) > _ALL_BUFFERS:
            for segment in self._open:
                segment.drain()

    def finish(self, segment: Segment) -> tuple[Split, ...]:
        """Complete a segment and list its files, in order."""
        del self._open[segment]
        return segment.finish()


class Segment:
    """The lines of one batch.

    Attributes:
        records: number of lines so far.
        bytes: their size.
    """

    def __init__(
        self,
        stem: Path,
        split_bytes: int,
        on_file: Callable[[Split], None],
        *,
        digest: bool,
        times: bool = False,
    ) -> None:
        self.records = 0
        self.bytes = 0
        self._stem = stem
        self._split_bytes = split_bytes
        self._on_file = on_file
        self._hash = hashlib.sha256() if digest else None
        self._splits: list[Split] = []
        self._lines = bytearray()
        self._marks = bytearray()
        self._timed = times
        self._times = bytearray()
        self._referred = -1  # one past the last byte that stays in the origin; -1 behind others
        self._begin()

    def _begin(self) -> None:
        self._path = Path(f"{self._stem}-{len(self._splits):04d}.jsonl")
        self._file_bytes = 0
        self._file_records = 0
        self._first_line = 0
        self._next_line = -1
        self._last_time = 0
        self._written = False
        self._origin: Origin | None = None

    @property
    def held(self) -> int:
        """Bytes that are still in memory."""
        return len(self._lines) + len(self._marks) + len(self._times)

    @property
    def digest(self) -> str:
        """SHA-256 of the lines, in hex; empty if not asked for."""
        return self._hash.hexdigest() if self._hash else ""

    def append(
        self,
        data: bytes | bytearray,
        start: int,
        stop: int,
        records: int,
        line: int,
        origin: Origin | None = None,
    ) -> None:
        """Add whole lines.

        Args:
            data: a buffer.
            start: where the first line begins in it.
            stop: one past the newline of the last.
            records: how many lines that is.
            line: number of the first of them in the input; the others follow it.
            origin: the file that the buffer was read from, if tasks can read it.

        Raises:
            SourceError: the folder's disk is full or refuses.
        """
        if origin and stop - start < _REFERRED and origin.start + start != self._referred:
            origin = None
        while stop - start >= self._split_bytes - self._file_bytes:
            reached = start + self._split_bytes - self._file_bytes - 1
            cut = data.index(b"\n", reached, stop) + 1
            count = count_lines(data, start, cut) if cut < stop else records
            self._add(data, start, cut, count, line, origin)
            self._close_file()
            start, records, line = cut, records - count, line + count
            if start == stop:
                return
        self._add(data, start, stop, records, line, origin)

    def _add(
        self,
        data: bytes | bytearray,
        start: int,
        stop: int,
        records: int,
        line: int,
        origin: Origin | None,
    ) -> None:
        """Add lines that all belong to the file which is open, or stay in the origin."""
        if origin:
            with memoryview(data) as whole, whole[start:stop] as lines:
                self._refer(Origin(origin.path, origin.start + start), lines, records, line)
            return
        if self._origin:  # lines of the origin and lines of our own don't share a split
            self._close_file()
        self._referred = -1
        if line != self._next_line:  # lines of other streams, or messages, came between
            self._marks += pack_pair(self._file_records, line)
            self._first_line = self._first_line or line
        self._next_line = line + records
        if self._timed:
            self._note_time()
        self._file_records += records
        self._file_bytes += stop - start
        self.records += records
        self.bytes += stop - start
        if stop - start < _DIRECT:  # `data` is only lent: what is held back has to be copied
            self._lines += data[start:stop]
            if self.held >= _SEGMENT_BUFFER:
                self.drain()
            return
        self.drain()  # what came before goes first
        with memoryview(data) as whole, whole[start:stop] as lines:
            self._write(lines)

    def _note_time(self) -> None:
        """Note when records were read, rounded up: never before they were made."""
        now = -(-time.time_ns() // 1000 // _TICK) * _TICK
        if now != self._last_time:
            self._times += pack_pair(self._file_records, now)
            self._last_time = now

    def _refer(self, origin: Origin, lines: memoryview, records: int, line: int) -> None:
        """Take lines that stay in the origin: a split is one range of it without a gap."""
        if origin.start != self._referred and self._file_records:
            self._close_file()
        if self._origin is None:
            self._origin, self._first_line = origin, line
        if self._hash:
            self._hash.update(lines)
        self._referred = origin.start + len(lines)
        self._file_records += records
        self._file_bytes += len(lines)
        self.records += records
        self.bytes += len(lines)

    def drain(self) -> None:
        """Write what is held back."""
        if self._lines:
            self._write(self._lines)
            self._lines = bytearray()

    def _write(self, lines: bytearray | memoryview) -> None:
        if self._hash:
            self._hash.update(lines)
        _append(self._path, lines, new=not self._written)
        if self._marks:
            _append(self._path.with_suffix(LINES), self._marks, new=not self._written)
            self._marks = bytearray()
        if self._times:
            _append(self._path.with_suffix(TIMES), self._times, new=not self._written)
            self._times = bytearray()
        self._written = True

    def _close_file(self) -> None:
        self.drain()
        if self._origin:
            start = self._origin.start
            split = Split(self._origin.path, start, start + self._file_bytes, self._first_line)
            self._splits.append(split)
            self._begin()
            return
        lines = str(self._path.with_suffix(LINES))
        times = str(self._path.with_suffix(TIMES)) if self._timed else ""
        split = Split(str(self._path), 0, self._file_bytes, self._first_line, lines, times)
        self._splits.append(split)
        self._on_file(split)
        self._begin()

    def finish(self) -> tuple[Split, ...]:
        """Write what is left and list the files; see `SpoolWriter.finish`."""
        if self._file_records:
            self._close_file()
        return tuple(self._splits)


def _append(path: Path, data: bytearray | memoryview, *, new: bool) -> None:
    try:
        descriptor = os.open(path, _NEW if new else _MORE, 0o600)
        try:
            with memoryview(data) as left:
                done = 0
                while done < len(left):
                    done += os.write(descriptor, left[done:])
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(
            f"can't spool the input to {path.parent}: {error.strerror}",
            "point `spool_dir` at a disk with room for one batch being landed and one being read, "
            "or lower the batch size",
        ) from None
