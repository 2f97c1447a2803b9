"""The spool: files that the driver writes for tasks to read.

A sidecar of a spooled file is a sequence of pairs of little-endian unsigned 64-bit numbers: a
record's ordinal in the file, from 0, and a value that holds from that record on.

| suffix | value |
|---|---|
| `.lines` | the record's line number in the input; the next records have the next numbers |
| `.times` | when the records were read, in microseconds since 1970 |
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
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import ConfigError, LakeportError, SourceError
from lakeport.host.scratch import scratch_folder
from lakeport.model import Flush, Split
from lakeport.storage.base import create_object

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.model import Batch, Storage


_CHUNK = 1 << 20
_THREADS = 4

LINES = ".lines"
TIMES = ".times"

_PAIR = struct.Struct("<QQ")  # of a sidecar: a record's ordinal, and the value from it on

_SEGMENT_BUFFER = 1 << 20
_DIRECT = 1 << 18  # a run of this size is written from where it is
_ALL_BUFFERS = 64 << 20
_TICK = 1000  # microseconds: times are rounded up, never to before the record existed
_REFERRED = 4 << 20  # shorter runs would make many small inputs of tasks


@dataclass(frozen=True, slots=True)
class SpoolLocation:
    """Folder or object store for a load's temporary files. Picklable: tasks write to it, too.

    Attributes:
        folder: an empty private folder: the spool itself, or files to be moved to `storage`.
        storage: the store that tasks read from; None if they read `folder`.
        local: whether tasks run on this machine and can read its files.
        mount: the shared folder of a cluster's machines; None if there is none.
    """

    folder: Path
    storage: Storage | None = None
    local: bool = True
    mount: Path | None = None

    def is_readable_by_tasks(self, uri: str, storage: Storage | None) -> bool:
        """Whether tasks can read ranges of a file in place, in its `storage` or at a local path."""
        if storage is not None:
            return self.storage is not None
        return self.local or (self.mount is not None and Path(uri).is_relative_to(self.mount))

    def new_name(self, file_number: int, name: str) -> str:
        """Return a unique store key or local path that begins with a file number."""
        unique = f"{file_number:06d}-{secrets.token_hex(4)}-{name}"
        return unique if self.storage is not None else str(self.folder / unique)

    def create_file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Context manager that creates the file `name`, complete once the body ends."""
        if self.storage is None:
            return create_private_file(Path(name))
        return create_object(self.storage, name)


def parse_spool_number(name: str) -> int:
    """Return the file number that begins a spooled file's name, given its key, path or URI.

    >>> parse_spool_number("/spool/000012-9f3c01ab-a.csv")
    12
    """
    return int(PurePosixPath(name).name.partition("-")[0])


def create_private_file(path: Path) -> BinaryIO:
    """Create a file only this user can read; raise OSError if the path exists or is a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK)


@contextmanager
def open_spool(config: DestinationConfig, engine: Engine) -> Iterator[SpoolLocation]:
    """Context manager that creates one run's spool, and deletes its files when the body ends.

    Args:
        engine: runs the tasks; if they run on this machine, `spool_uri` is not used.

    Raises:
        ConfigError: `spool_uri` names neither a folder nor a store, or can't be used.
    """
    mount, storage = (None, None) if engine.is_local else _open_shared_spool(config)
    folder = config.spool_dir if mount is None else str(mount)
    with scratch_folder(parent=folder) as path:
        try:
            yield SpoolLocation(path, storage, engine.is_local, mount)
        finally:
            if storage is not None:
                _empty_storage(storage)


def _open_shared_spool(config: DestinationConfig) -> tuple[Path | None, Storage | None]:
    """Return `spool_uri` as folder or store, the other None; ConfigError for a missing folder."""
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


def _empty_storage(storage: Storage) -> None:
    """Delete all objects of a spool; ignore errors, as a lifecycle rule may delete the rest."""
    with suppress(LakeportError), ThreadPoolExecutor(_THREADS, "lakeport-spool") as executor:
        for deletion in [executor.submit(storage.delete, found.key) for found in storage.list("")]:
            deletion.result()


def read_sidecar(split: Split, name: str) -> list[tuple[int, int]]:
    """Read a sidecar file: pairs of a record's ordinal and the value that holds from there on.

    Raises:
        SourceError: the sidecar is missing or cut off.
        DestinationError: the store refuses.
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
class OriginFile:
    """An uncompressed input file, and the offset that the current buffer was read from.

    Attributes:
        start: the offset in the file of the buffer's first byte.
    """

    path: str
    start: int = 0


class SpoolWriter:
    """Creates segments of spooled lines in a folder, and limits the memory of all their buffers.

    Args:
        folder: an empty private folder; the caller creates and removes it.
        split_bytes: a file is complete with the line that reaches this size.
        digest: whether segments compute the SHA-256 of their lines.
        times: whether files get a `.times` sidecar.
        on_file: called with each complete file.
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
        self._begun_segments = 0
        self._open_segments: dict[SpoolSegment, None] = {}

    def begin_segment(self) -> SpoolSegment:
        """Create and register a new, empty segment."""
        stem = self._folder / f"{self._begun_segments:08d}"
        self._begun_segments += 1
        segment = SpoolSegment(stem, self)
        self._open_segments[segment] = None
        return segment

    def limit_buffers(self) -> None:
        """Write all buffers to disk if they hold more than 64 MiB together."""
        if sum(segment.buffered_bytes for segment in self._open_segments) > _ALL_BUFFERS:
            for segment in self._open_segments:
                segment.flush_buffers()

    def finish(self, segment: SpoolSegment) -> tuple[Split, ...]:
        """Flush a segment, drop it from the open ones, and return its files as splits, in order."""
        del self._open_segments[segment]
        return segment.finish()


class SpoolSegment:
    """The spooled lines of one batch, in files of their own or as ranges of the input file.

    Attributes:
        records: the number of lines so far.
    """

    def __init__(self, stem: Path, writer: SpoolWriter) -> None:
        self.records = 0
        self.bytes = 0
        self._stem = stem
        self._writer = writer
        self._hasher = hashlib.sha256() if writer.digest else None
        self._splits: list[Split] = []
        self._lines = bytearray()
        self._line_marks = bytearray()
        self._time_marks = bytearray()
        self._referred_end = -1  # behind the last byte that stays in the origin; -1 if none does
        self._begin_file()

    def _begin_file(self) -> None:
        """Reset the state of the open file or origin range; its first write creates the file."""
        self._path = Path(f"{self._stem}-{len(self._splits):04d}.jsonl")
        self._file_bytes = 0
        self._file_records = 0
        self._first_line = 0
        self._next_line = -1
        self._last_time = 0
        self._written = False
        self._origin: OriginFile | None = None

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that are still in memory."""
        return len(self._lines) + len(self._line_marks) + len(self._time_marks)

    @property
    def digest(self) -> str:
        """SHA-256 of the lines, in hex; empty if the writer computes none."""
        return self._hasher.hexdigest() if self._hasher else ""

    def append(
        self,
        data: bytes | bytearray,
        start: int,
        stop: int,
        records: int,
        line: int,
        origin: OriginFile | None = None,
    ) -> None:
        """Add whole lines to spool files; long runs from `origin` are referred to, not copied.

        Args:
            start: the offset of the first line.
            stop: the offset behind the last line's newline.
            line: the first line's number in the input; the next lines have the next numbers.
            origin: the file that the buffer was read from, if tasks can read it.

        Raises:
            SourceError: the folder's disk is full or refuses.
        """
        if origin and stop - start < _REFERRED and origin.start + start != self._referred_end:
            origin = None
        while stop - start >= self._writer.split_bytes - self._file_bytes:
            reached = start + self._writer.split_bytes - self._file_bytes - 1
            cut = data.index(b"\n", reached, stop) + 1
            count = data.count(b"\n", start, cut) if cut < stop else records
            self._add_lines(data, start, cut, count, line, origin)
            self._close_file()
            start, records, line = cut, records - count, line + count
            if start == stop:
                return
        self._add_lines(data, start, stop, records, line, origin)

    def _add_lines(
        self,
        data: bytes | bytearray,
        start: int,
        stop: int,
        records: int,
        line: int,
        origin: OriginFile | None,
    ) -> None:
        """Add lines to the open spool file, or record their range of the origin file."""
        if origin:
            with memoryview(data) as whole, whole[start:stop] as lines:
                self._refer_to_origin(
                    OriginFile(origin.path, origin.start + start), lines, records, line
                )
            return
        if self._origin:  # lines of the origin and spooled lines don't share a split
            self._close_file()
        self._referred_end = -1
        if line != self._next_line:  # the input has other lines in between
            self._line_marks += _PAIR.pack(self._file_records, line)
            self._first_line = self._first_line or line
        self._next_line = line + records
        if self._writer.times:
            self._mark_time()
        self._file_records += records
        self._file_bytes += stop - start
        self.records += records
        self.bytes += stop - start
        if stop - start < _DIRECT:  # the caller reuses `data`: buffered lines have to be copied
            self._lines += data[start:stop]
            if self.buffered_bytes >= _SEGMENT_BUFFER:
                self.flush_buffers()
            return
        self.flush_buffers()  # earlier lines go first
        with memoryview(data) as whole, whole[start:stop] as lines:
            self._write(lines)

    def _mark_time(self) -> None:
        """Add the time, rounded up to a millisecond, to the sidecar if it has changed."""
        now = -(-time.time_ns() // 1000 // _TICK) * _TICK
        if now != self._last_time:
            self._time_marks += _PAIR.pack(self._file_records, now)
            self._last_time = now

    def _refer_to_origin(
        self, origin: OriginFile, lines: memoryview, records: int, line: int
    ) -> None:
        """Record lines as a range of the origin file; after a gap, begin a new split."""
        if origin.start != self._referred_end and self._file_records:
            self._close_file()
        if self._origin is None:
            self._origin, self._first_line = origin, line
        if self._hasher:
            self._hasher.update(lines)
        self._referred_end = origin.start + len(lines)
        self._file_records += records
        self._file_bytes += len(lines)
        self.records += records
        self.bytes += len(lines)

    def flush_buffers(self) -> None:
        """Append the buffered lines and sidecar pairs to the open file, if there are lines."""
        if self._lines:
            self._write(self._lines)
            self._lines = bytearray()

    def _write(self, lines: bytearray | memoryview) -> None:
        """Append lines to the open file, and pending pairs to its sidecars; hash the lines."""
        if self._hasher:
            self._hasher.update(lines)
        _append_to_file(self._path, lines, new=not self._written)
        if self._line_marks:
            _append_to_file(self._path.with_suffix(LINES), self._line_marks, new=not self._written)
            self._line_marks = bytearray()
        if self._time_marks:
            _append_to_file(self._path.with_suffix(TIMES), self._time_marks, new=not self._written)
            self._time_marks = bytearray()
        self._written = True

    def _close_file(self) -> None:
        """Finish the open file or origin range as a split; call `on_file` if it is a file."""
        self.flush_buffers()
        if self._origin:
            start = self._origin.start
            split = Split(self._origin.path, start, start + self._file_bytes, self._first_line)
            self._splits.append(split)
            self._begin_file()
            return
        lines = str(self._path.with_suffix(LINES))
        times = str(self._path.with_suffix(TIMES)) if self._writer.times else ""
        split = Split(str(self._path), 0, self._file_bytes, self._first_line, lines, times)
        self._splits.append(split)
        self._writer.on_file(split)
        self._begin_file()

    def finish(self) -> tuple[Split, ...]:
        """Close the open file, if it has records, and return all splits of the segment."""
        if self._file_records:
            self._close_file()
        return tuple(self._splits)


def _append_to_file(path: Path, data: bytearray | memoryview, *, new: bool) -> None:
    """Append bytes to a file, or create it if `new`; raise SourceError if writing fails."""
    try:
        with create_private_file(path) if new else path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise SourceError(
            f"can't spool the input to {path.parent}: {error.strerror}",
            "point `spool_dir` at a disk with room for one batch being landed and one being read, "
            "or lower the batch size",
        ) from None


class SpoolUploader:
    """Uploads spooled files to the spool's store in the background; does nothing without one."""

    def __init__(self, spool: SpoolLocation) -> None:
        self._spool = spool
        self._executor = ThreadPoolExecutor(_THREADS, "lakeport-spool")
        self._uploads: dict[str, Future[Split]] = {}

    def begin_upload(self, split: Split) -> None:
        """Begin to upload a complete file in the background; do nothing without a store."""
        if self._spool.storage is not None:
            self._uploads[split.uri] = self._executor.submit(
                self._upload_split, split, self._spool.storage
            )

    def upload_flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """Yield flushes once their files are uploaded; DestinationError if an upload fails."""
        try:
            for flush in source:
                yield replace(flush, batches=tuple(map(self._upload_batch, flush.batches)))
        finally:
            self._executor.shutdown(cancel_futures=True)

    def discard(self, flush: Flush) -> None:
        """Delete the spooled files of a flush that was landed, if they still exist.

        Local files without a sidecar stay: they are the user's own.
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

    def _upload_batch(self, batch: Batch) -> Batch:
        """Wait until a batch's files are in the store; return the batch with their new splits."""
        if self._spool.storage is None:
            return batch
        for split in batch.splits:
            if split.storage is None and split.uri not in self._uploads:
                self.begin_upload(split)
        splits = tuple(
            split if split.storage is not None else self._uploads.pop(split.uri).result()
            for split in batch.splits
        )
        return replace(batch, splits=splits)

    def _upload_split(self, split: Split, storage: Storage) -> Split:
        """Move a file and its sidecars into the store; return the split of the copies."""
        names = (split.uri, split.lines, split.times)
        key, lines, times = (self._upload_file(Path(name)) for name in names)
        uri = storage.uri(key)
        return replace(split, uri=uri, key=key, lines=lines, times=times, storage=storage)

    def _upload_file(self, path: Path) -> str:
        """Move a local file into the store; return its key, or an empty text for an empty path."""
        if path == Path():
            return ""
        with path.open("rb") as source, self._spool.create_file(path.name) as target:
            shutil.copyfileobj(source, target, _CHUNK)
        path.unlink()
        return path.name
