"""The spool: what the driver writes so that tasks can read it.

A sidecar is a row of pairs of little-endian unsigned 64-bit numbers: a record's ordinal within the
file, from 0, and what holds from that record on.

| suffix | second number |
|---|---|
| `.lines` | the record's line number in the input; those behind it follow |
| `.times` | when records were read, in microseconds since 1970 |
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.host.scratch import scratch
from lakeport.model import Flush, Split
from lakeport.sources.input.lines import count_lines
from lakeport.storage.base import created

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.model import Batch, Storage


_CHUNK = 1 << 20
_THREADS = 4

LINES = ".lines"
TIMES = ".times"

_PAIR = struct.Struct("<QQ")

_SEGMENT_BUFFER = 1 << 20
_DIRECT = 1 << 18  # a run of this size is written from where it is
_ALL_BUFFERS = 64 << 20
_TICK = 1000  # microseconds
_REFERRED = 4 << 20  # shorter runs would make many small inputs of tasks


@dataclass(frozen=True, slots=True)
class SpoolLocation:
    """A spool. Picklable, because tasks write to it, too.

    Attributes:
        folder: an empty private folder: the spool itself, or what the driver needs before it
            moves it to `storage`.
        storage: the store that tasks read from; None where they read `folder`.
        local: whether tasks run on this machine and read its files where they are.
        mount: the shared folder, which tasks read in place on a cluster; None for none.
    """

    folder: Path
    storage: Storage | None = None
    local: bool = True
    mount: Path | None = None

    def reaches(self, uri: str, storage: Storage | None) -> bool:
        """Whether tasks can read ranges of a file where it is: in a store, or at a local path."""
        if storage is not None:
            return self.storage is not None
        return self.local or (self.mount is not None and Path(uri).is_relative_to(self.mount))

    def new(self, number: int, name: str) -> str:
        """Return a new key, or local path; a task that runs again gets another one."""
        unique = f"{number:06d}-{secrets.token_hex(4)}-{name}"
        return unique if self.storage is not None else str(self.folder / unique)

    @contextmanager
    def create(self, at: str) -> Iterator[BinaryIO]:
        """Write a file that `new` named; it is there whole once the body has ended.

        Raises:
            DestinationError: the store refuses.
        """
        if self.storage is None:
            with open_new(Path(at)) as file:
                yield file
            return
        with created(self.storage, at) as file:
            yield file


def number_of(at: str) -> int:
    """The number that `SpoolLocation.new` took for a key, a path, or a URI of it.

    >>> number_of("/spool/000012-9f3c01ab-a.csv")
    12
    """
    return int(PurePosixPath(at).name.partition("-")[0])


def open_new(path: Path) -> BinaryIO:
    """Create a file that only this user can read; never follows a link, never overwrites."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK)


@contextmanager
def open_spool(config: DestinationConfig, engine: Engine) -> Iterator[SpoolLocation]:
    """A spool for one run, which is gone afterwards.

    Args:
        config: its `spool_dir`, `spool_uri` and credentials.
        engine: where its tasks run on this machine, `spool_uri` is not needed and not used.

    Raises:
        ConfigError: `spool_uri` names neither a folder nor a store, or can't be used.
    """
    mount, storage = (None, None) if engine.is_local else _shared(config)
    folder = config.spool_dir if mount is None else str(mount)
    with scratch(parent=folder) as path:
        try:
            yield SpoolLocation(path, storage, engine.is_local, mount)
        finally:
            if storage is not None:
                _remove(storage)


def _shared(config: DestinationConfig) -> tuple[Path | None, Storage | None]:
    """The mounted folder or the store that `spool_uri` names, if it is set."""
    uri = config.spool_uri
    if uri is None:
        return None, None
    scheme, mark, path = uri.partition("://")
    if not mark or scheme == "file":
        folder = Path(path if mark else uri).absolute()
        if not folder.is_dir():
            raise ConfigError(
                f"`spool_uri` is {uri!r}, and there is no such folder",
                "name one that this machine and every worker mount under the same path, or a "
                "prefix in a store, such as s3://bucket/spool.",
            )
        return folder, None
    from lakeport.sources.target import open_folder_storage

    return None, open_folder_storage(config, f"{uri.rstrip('/')}/lakeport-{secrets.token_hex(8)}")


def _remove(storage: Storage) -> None:
    """Empty a store's spool; what can't be removed is left to the store's lifecycle rule."""
    with suppress(LakeportError), ThreadPoolExecutor(_THREADS, "lakeport-spool") as executor:
        for done in [executor.submit(storage.delete, found.key) for found in storage.list("")]:
            done.result()


pack_pair = _PAIR.pack
"""A record's ordinal, and what holds from it on -> bytes to append to a sidecar."""


def read_sidecar(split: Split, name: str) -> list[tuple[int, int]]:
    """Read a split's sidecar, `split.lines` or `split.times`, as pairs.

    Raises:
        SourceError: it has gone, or is cut off.
        DestinationError: the store does not give it.
    """
    try:
        data = Path(name).read_bytes() if split.storage is None else split.storage.get(name)
        pairs = [(record, value) for record, value in _PAIR.iter_unpack(data or b"")]
    except (OSError, struct.error):
        pairs = []
    if not pairs:
        raise SourceError(
            f"file {name!r} can't be read",
            "it belongs to the spooled input: leave the spool alone during the load.",
        )
    return pairs


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
        self.split_bytes = max(1, split_bytes)
        self.digest = digest
        self.times = times
        self.on_file = on_file
        self._folder = folder
        self._made = 0
        self._open: dict[Segment, None] = {}

    def segment(self) -> Segment:
        """Begin a segment."""
        stem = self._folder / f"{self._made:08d}"
        self._made += 1
        segment = Segment(stem, self)
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

    def __init__(self, stem: Path, writer: SpoolWriter) -> None:
        self.records = 0
        self.bytes = 0
        self._stem = stem
        self._writer = writer
        self._hash = hashlib.sha256() if writer.digest else None
        self._splits: list[Split] = []
        self._lines = bytearray()
        self._marks = bytearray()
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
        while stop - start >= self._writer.split_bytes - self._file_bytes:
            reached = start + self._writer.split_bytes - self._file_bytes - 1
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
        if self._writer.times:
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
        times = str(self._path.with_suffix(TIMES)) if self._writer.times else ""
        split = Split(str(self._path), 0, self._file_bytes, self._first_line, lines, times)
        self._splits.append(split)
        self._writer.on_file(split)
        self._begin()

    def finish(self) -> tuple[Split, ...]:
        """Write what is left and list the files; see `SpoolWriter.finish`."""
        if self._file_records:
            self._close_file()
        return tuple(self._splits)


def _append(path: Path, data: bytearray | memoryview, *, new: bool) -> None:
    try:
        with open_new(path) if new else path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise SourceError(
            f"can't spool the input to {path.parent}: {error.strerror}",
            "point `spool_dir` at a disk with room for one batch being landed and one being read, "
            "or lower the batch size",
        ) from None


class SpoolUploader:
    """Moves what this machine spooled to the spool's store, while more is being spooled.

    Without a store, everything stays where it is.
    """

    def __init__(self, spool: SpoolLocation) -> None:
        self._spool = spool
        self._executor = ThreadPoolExecutor(_THREADS, "lakeport-spool")
        self._uploads: dict[str, Future[Split]] = {}

    def begin(self, split: Split) -> None:
        """Begin to move a file that is complete."""
        if self._spool.storage is not None:
            self._uploads[split.uri] = self._executor.submit(self._upload_split, split)

    def flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """The same flushes, their batches' files moved.

        Raises:
            DestinationError: the store refuses.
        """
        try:
            for flush in source:
                yield replace(flush, batches=tuple(map(self._uploaded, flush.batches)))
        finally:
            self._executor.shutdown(cancel_futures=True)

    def discard(self, flush: Flush) -> None:
        """Delete the spooled files of a flush that has landed; fine if they are gone.

        On this machine only they have a sidecar: the others are the user's own.
        """
        storage = self._spool.storage
        for split in (split for batch in flush.batches for split in batch.splits):
            if storage is None and split.lines:
                for path in filter(None, (split.uri, split.lines, split.times)):
                    Path(path).unlink(missing_ok=True)
            elif storage is not None and split.storage == storage:
                with suppress(LakeportError):
                    for key in filter(None, (split.key, split.lines, split.times)):
                        storage.delete(key)

    def _uploaded(self, batch: Batch) -> Batch:
        if self._spool.storage is None:
            return batch
        for split in batch.splits:
            if split.storage is None and split.uri not in self._uploads:
                self.begin(split)
        splits = tuple(
            split if split.storage is not None else self._uploads.pop(split.uri).result()
            for split in batch.splits
        )
        return replace(batch, splits=splits)

    def _upload_split(self, split: Split) -> Split:
        storage = self._spool.storage
        if storage is None:
            raise TypeError("nothing moves without a store")
        names = (split.uri, split.lines, split.times)
        key, lines, times = (self._upload_file(Path(name)) for name in names)
        uri = storage.uri(key)
        return replace(split, uri=uri, key=key, lines=lines, times=times, storage=storage)

    def _upload_file(self, path: Path) -> str:
        if path == Path():
            return ""
        with path.open("rb") as source, self._spool.create(path.name) as target:
            shutil.copyfileobj(source, target, _CHUNK)
        path.unlink()
        return path.name
