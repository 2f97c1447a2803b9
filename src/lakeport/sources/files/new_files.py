"""Read only the files of a source that its table has not had, and record those landed.

```
places ─▶ listing, sorted ─┐
                           ├─▶ compare ─▶ new files ─▶ one batch, with the bookmark `files`
bookmark ─▶ segments ──────┘
```

A segment is an Arrow IPC stream of files, sorted by URI. URIs are stored as bytes: names on a disk
need not be text.

The bookmark `files` names segments. A load adds one segment with its new files, and merges the last
segments that are not larger into it. So each segment is larger than all later ones together: a
million files are in at most twenty segments, and each file is written at most twenty times.

A segment that the bookmark names no more stays for at least thirty days, for users who restore an
older version of the table.
"""

from __future__ import annotations

import heapq
import io
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyarrow import ipc

from lakeport.errors import ConfigError, DestinationError, SourceError
from lakeport.model import Bookmark, BookmarkStore, Flush, Mode
from lakeport.sources.files.discovery import (
    ListedFile,
    SourcePath,
    check_format,
    check_one_format,
    expand_archive,
    no_files_error,
    select_format,
    stream_name,
)
from lakeport.sources.input.decompression import unpack_limits
from lakeport.sources.target import delete_old_objects, fixed_table_name, open_folder_storage
from lakeport.storage.base import create_object
from lakeport.units import pluralize

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.sources import FilesSource
    from lakeport.sources.files.source_file import SourceFile
    from lakeport.sources.input.decompression import UnpackLimits
    from lakeport.sources.options import ReadOptions

_ROWS = 4096  # of a batch: a few dozen segments are read side by side
_SORTED = 65_536  # files that are sorted in memory
_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.binary(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("tag", pa.string(), nullable=False),
    ]
)

_THREADS = 16
_PAGE = 1000  # objects that stores list in one request
_MAX_NAMED = 20  # files that an error may name

_NAME: Final = "files"
_FORMAT: Final = 1
_RETENTION_SECONDS: Final = 30 * 24 * 3600.0  # as long as Delta keeps its log
_CLOCK_SKEW_SECONDS: Final = 3600.0  # between the store's clock and ours
_SMALL = 50_000  # files of a segment that is put in one request


def compare_listings(
    listed: Iterable[ListedFile], known_files: Iterable[ListedFile]
) -> Iterator[tuple[ListedFile, ListedFile | None]]:
    """Yield new or changed files, each with its known entry or None; both inputs are sorted.

    Args:
        listed: files as they are now, sorted by URI.
        known_files: files as they were, sorted by URI.

    >>> now = [ListedFile("a", 1, ""), ListedFile("b", 2, "")]
    >>> list(compare_listings(now, [ListedFile("b", 1, "")]))
    ... # doctest: +NORMALIZE_WHITESPACE
    [(ListedFile(uri='a', bytes=1, tag=''), None),
     (ListedFile(uri='b', bytes=2, tag=''), ListedFile(uri='b', bytes=1, tag=''))]
    """
    waiting = iter(known_files)
    known = next(waiting, None)
    for file in listed:
        while known is not None and known.uri < file.uri:
            known = next(waiting, None)
        if known is None or known.uri != file.uri:
            yield file, None
        elif known != file:
            yield file, known


def select_new_files(
    found: Iterable[tuple[ListedFile, ListedFile | None]], again: Literal["fail", "land", "ignore"]
) -> Iterator[ListedFile]:
    """Yield the files to load; `again`: a changed one is loaded, skipped, or raises SourceError."""
    for file, known in found:
        if known is None or again == "land":
            yield file
        elif again == "fail":
            raise SourceError(
                f"file {file.uri!r} has changed since it was landed: "
                f"{describe_change(known, file)}",
                "`again: land` (`--again land`) lands all its rows once more, `again: ignore` "
                "leaves it out; a file that is still written should get its name when it is whole.",
            )


def describe_change(before: ListedFile, now: ListedFile) -> str:
    """Return the change of a file's size and tag in words."""
    return f"it had {_describe_file(before)}, and has {_describe_file(now)}"


def _describe_file(file: ListedFile) -> str:
    """Return a file's size and time of writing, or its tag, as words for messages."""
    if file.tag.isdecimal():  # of a file on a disk
        written = datetime.fromtimestamp(int(file.tag) / 1e9, UTC)
        return f"{file.bytes:,} bytes of {written:%Y-%m-%d %H:%M:%S.%f}"
    return f"{file.bytes:,} bytes with the tag {file.tag}"


def write_segment(files: Iterable[ListedFile], target: Any) -> None:
    """Write sorted files to `target`, a file object, as an Arrow IPC stream."""
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_stream(target, _SCHEMA, options=options) as writer:
        waiting = iter(files)
        while rows := list(islice(waiting, _ROWS)):
            names = (row.uri.encode("utf-8", "surrogateescape") for row in rows)
            _, sizes, tags = zip(*rows, strict=True)
            columns = dict(zip(_SCHEMA.names, ([*names], sizes, tags), strict=True))
            writer.write_batch(pa.RecordBatch.from_pydict(columns, _SCHEMA))


def read_segment(source: Any) -> Iterator[ListedFile]:
    """Yield the files of an Arrow IPC stream, sorted by URI; pa.ArrowInvalid if it is damaged."""
    with ipc.open_stream(source) as reader:
        for batch in reader:
            names, sizes, tags = (column.to_pylist() for column in batch.columns)
            uris = (name.decode("utf-8", "surrogateescape") for name in names)
            yield from map(ListedFile, uris, sizes, tags)


def merge_segments(segments: Sequence[Iterable[ListedFile]]) -> Iterator[ListedFile]:
    """Merge sorted segments; for a file in several of them, yield the last segment's entry."""
    before = None
    for file in heapq.merge(*reversed(segments), key=attrgetter("uri")):
        if file.uri != before:
            yield file
        before = file.uri


def sort_listing(files: Iterable[ListedFile], folder: Path) -> Iterator[ListedFile]:
    """Yield the files sorted by URI, without duplicates; spill to `folder` beyond 65,536 files.

    Every listing is sorted: S3 Express lists in no order, and Azure's order depends on the account.
    """
    runs: list[Path] = []
    waiting = iter(files)
    while len(group := sorted(islice(waiting, _SORTED))) == _SORTED:
        runs.append(folder / f"listing-{len(runs)}.arrow")
        with runs[-1].open("xb") as target:
            write_segment(group, target)
    return merge_segments([*map(_read_sorted_run, runs), group])


def _read_sorted_run(path: Path) -> Iterator[ListedFile]:
    """Yield the files of a spilled part, sorted by URI."""
    with path.open("rb") as source:
        yield from read_segment(source)


class NewFiles:
    """The new files of a source: those that its table has not loaded.

    Attributes:
        files: the files to land, each archive replaced by the files in it. Empty files count as
            landed, and are not in here.

    Raises:
        SourceError: a file has changed since it was landed, the new files are of several formats,
            or the table has had no file and there is none.
    """

    def __init__(
        self,
        source: FilesSource,
        places: Sequence[SourcePath],
        record: LandedFiles,
        folder: Path,
        limits: UnpackLimits,
        format: str = "",  # noqa: A002
    ) -> None:
        self._format = format
        self._source, self._places, self._landed_files = source, places, record
        self._by_root = {place.root: place for place in places}
        self._by_name = {place.name: place for place in places}
        self._folder = folder
        self._listed_count = 0
        self._last_listed: dict[str, str] = {}
        self._new_files: list[ListedFile] = []
        self._unknown_files: list[SourceFile] = []
        self.files: list[SourceFile] = []
        listed = sort_listing(map(self._count_file, self._list_places()), folder)
        first = next(listed, None)
        known_files = record.list_files(first.uri if first else "")
        found = compare_listings(chain([first] if first else [], listed), known_files)
        for file in select_new_files(found, source.again):
            self._queue_file(file, limits)
        if record.empty and not self._new_files:
            raise no_files_error(places[0], self._unknown_files)
        check_one_format(self.files)

    def report_nothing_new(self, stream: str) -> Iterator[Flush]:
        """Yield one flush without batches, with a note that no file is new."""
        note = f"nothing new: {pluralize(self._listed_count, 'file')} looked at"
        yield Flush((), last=True, notes={stream: note}, quiet=(stream,))

    def flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """Yield `source`'s flushes with a new bookmark; commits fail if a new file has changed."""
        bookmark, write = self._landed_files.extend(self._new_files, self._last_listed)
        looked_at = f"{pluralize(self._listed_count, 'file')} looked at"
        note = f"{pluralize(len(self._new_files), 'new file')}, {looked_at}"

        def before_commit() -> None:
            self._check_unchanged()
            write()

        for flush in source:
            batches = tuple(
                replace(
                    batch,
                    notes=(*batch.notes, note),
                    tracks_content=False,  # the bookmark records the files
                    bookmark=bookmark,
                    before_commit=before_commit,
                )
                for batch in flush.batches
            )
            yield replace(flush, batches=batches)

    def _list_places(self) -> Iterator[ListedFile]:
        """Yield the files of all paths; with `ordered`, only after the last URI, which it notes."""
        for place in self._places:
            if not self._source.ordered:
                yield from place.list_files()
                continue
            last = after = self._landed_files.last_listed.get(place.name, "")
            for file in place.list_files(after):
                last = max(last, file.uri)
                yield file
            if last:
                self._last_listed[place.name] = last

    def _count_file(self, file: ListedFile) -> ListedFile:
        """Count a listed file, and return it."""
        self._listed_count += 1
        return file

    def _queue_file(self, file: ListedFile, limits: UnpackLimits) -> None:
        """Queue a file, or an archive's files, for loading; only note files of unknown format."""
        place = self._find_place(file)
        files = select_format(expand_archive(place.file(file), limits), place, self._format)
        if files:
            self._new_files.append(file)
            self.files += (one for one in files if one.bytes)
        elif len(self._unknown_files) < _MAX_NAMED:
            self._unknown_files.append(place.file(file))

    def _find_place(self, file: ListedFile) -> SourcePath:
        """Return the place that listed a file."""
        found = self._by_name.get(file.uri)
        return found or next(p for root, p in self._by_root.items() if file.uri.startswith(root))

    def _check_unchanged(self) -> None:
        """Raise SourceError if a new file has changed or was removed since it was listed."""
        for file, now in compare_listings(self._new_files, self._relist()):
            what = f"changed: {describe_change(file, now)}" if now else "went"
            raise SourceError(
                f"while it was read, file {file.uri!r} {what}; nothing was landed",
                "land once more. What writes such files should give them their names when they "
                "are whole.",
            )

    def _relist(self) -> Iterator[ListedFile]:
        """Stat or list the new files again; yield them sorted by URI, perhaps with other files."""
        stored = any(place.storage is not None for place in self._places)
        if stored and self._listed_count < _PAGE * len(self._new_files):  # that is fewer requests
            yield from sort_listing(self._list_places(), Path(mkdtemp(dir=self._folder)))
            return
        with ThreadPoolExecutor(_THREADS, "lakeport-look") as executor:
            found = executor.map(lambda file: self._find_place(file).refresh(file), self._new_files)
            yield from (file for file in found if file is not None)


@dataclass(frozen=True, slots=True)
class _SegmentEntry:
    """A segment's entry in the bookmark: object name, maximum number of files, last URI.

    Attributes:
        files: the maximum number of its files; a file that was landed again counts each time.
    """

    name: str
    files: int
    last: str


class LandedFiles:
    """The files that a table has loaded: the bookmark `files` and the segments that it names.

    Args:
        now: returns the time, in seconds since 1970.

    Attributes:
        last_listed: a place's name -> the last URI that was listed there, if names grow with time.

    Raises:
        DestinationError: the store refuses, or another version of lakeport wrote the record.
    """

    def __init__(self, memory: BookmarkStore, now: Callable[[], float] = time.time) -> None:
        self._memory = memory
        saved = memory.bookmark(_NAME)
        self._number, value = saved.number, saved.value
        self.empty: bool = not value
        if value and value.get("format") != _FORMAT:
            raise DestinationError(
                f"the record of the files that {memory.storage.uri()} has had is of format "
                f"{value.get('format')!r}, and this version of lakeport knows format {_FORMAT}",
                "use the version that wrote it, or a newer one.",
            )
        self.last_listed: Mapping[str, str] = value.get("reached", {})
        self._segments = [_SegmentEntry(*segment) for segment in value.get("segments", ())]
        self._now = now()
        swept = value.get("swept", {"at": self._now, "named": []})
        self._swept_at: float = swept["at"]
        self._kept_segments = frozenset[str](swept["named"])

    def list_files(self, first_uri: str = "") -> Iterator[ListedFile]:
        """Yield the loaded files, sorted by URI; files before `first_uri` may be left out.

        Raises:
            DestinationError: a segment is damaged or missing (while iterating).
        """
        return merge_segments(
            [self._read_segment(one.name) for one in self._segments if one.last >= first_uri]
        )

    def extend(
        self, new_files: Sequence[ListedFile], last_listed: Mapping[str, str]
    ) -> tuple[Bookmark, Callable[[], None]]:
        """Return the bookmark with `new_files` added, and a function that writes their segment.

        The function is called before the commit; it deletes old segments, too.

        Args:
            last_listed: a place's name -> its last listed URI; other places keep theirs.
        """
        kept = list(self._segments)
        taken: list[_SegmentEntry] = []
        files, last = len(new_files), new_files[-1].uri if new_files else ""
        while new_files and kept and kept[-1].files <= files:
            taken.insert(0, kept.pop())
            files, last = files + taken[0].files, max(last, taken[0].last)
        name = f"{secrets.token_hex(16)}.arrow"
        if new_files:
            kept.append(_SegmentEntry(name, files, last))
        named = {one.name for one in kept}
        due = self._now - self._swept_at >= _RETENTION_SECONDS
        value: dict[str, Any] = {
            "format": _FORMAT,
            "segments": [[one.name, one.files, one.last] for one in kept],
            "reached": {**self.last_listed, **last_listed},
            "swept": {"at": self._now, "named": sorted(named)}
            if due or not self._kept_segments
            else {"at": self._swept_at, "named": sorted(self._kept_segments)},
        }

        def write() -> None:
            if new_files:
                self._write_segment(
                    name,
                    files,
                    merge_segments([*(self._read_segment(s.name) for s in taken), new_files]),
                )
            if due:
                old = self._swept_at - _CLOCK_SKEW_SECONDS
                kept_names = {*named, *self._kept_segments}  # the bookmark's now and then
                folder = self._segment_key("").rstrip("/")
                delete_old_objects(self._memory.storage, folder, old, kept_names)

        return Bookmark(_NAME, value, self._number), write

    def _segment_key(self, name: str) -> str:
        """Return the key of a segment in the store; of an empty name the folder's, with a slash."""
        return f"{self._memory.folder}/files/{name}"

    def _read_segment(self, name: str) -> Iterator[ListedFile]:
        """Yield a stored segment's files; raise DestinationError if it is damaged or missing."""
        try:
            with self._memory.storage.open(self._segment_key(name)) as source:
                yield from read_segment(source)
        except pa.ArrowInvalid as error:
            raise DestinationError(
                f"{self._memory.storage.uri(self._segment_key(name))} is damaged, and holds files "
                f"that the table has had: {error}",
                "bring it back from a copy, or land all anew with a full refresh.",
            ) from error

    def _write_segment(self, name: str, file_count: int, files: Iterator[ListedFile]) -> None:
        """Store files as a segment: up to 50,000 in one request, more as a streamed upload."""
        storage = self._memory.storage
        if file_count > _SMALL:
            with create_object(storage, self._segment_key(name)) as target:
                write_segment(files, target)
            return
        small = io.BytesIO()
        write_segment(files, small)
        storage.put(self._segment_key(name), small.getvalue())


def open_new_files(
    source: FilesSource,
    options: ReadOptions,
    config: DestinationConfig,
    folder: Path,
    open_bookmarks: Callable[[str], BookmarkStore],
) -> tuple[str, NewFiles]:
    """List a source's files; return the stream's name and the files its table has not loaded.

    Raises:
        ConfigError: the source or the target does not support `new_only`.
        SourceError: see `NewFiles`.
        DestinationError: the record of landed files can't be read.
    """
    _check_source(source, options, config)
    places = [SourcePath.of(name, partial(open_folder_storage, config)) for name in source.names]
    stream = fixed_table_name(config) or _get_stream_name(places)
    record = LandedFiles(open_bookmarks(stream))
    limits = unpack_limits(config)
    return stream, NewFiles(source, places, record, folder, limits, options.format)


def _check_source(source: FilesSource, options: ReadOptions, config: DestinationConfig) -> None:
    """Raise ConfigError if the source or the target does not support `new_only`."""
    if not source.names or "-" in source.names:
        raise ConfigError(
            "`new_only` is about files, and the source names "
            + ("standard input" if source.names else "none"),
            "name files, folders or globs.",
        )
    if config.mode is Mode.OVERWRITE:
        raise ConfigError(
            "`new_only` gives new files alone, and `mode: overwrite` would replace the table by "
            "them",
            "use `mode: append` or `merge`; leave `new_only` out to land all files each time.",
        )
    check_format(options.format)
    if options.format == "singer":
        raise singer_files_error()


def singer_files_error() -> ConfigError:
    """Build the error for Singer files in a source with `new_only`."""
    return ConfigError(
        "`new_only` is about files of one table, and Singer files may hold several streams",
        "land Singer files without it.",
    )


def _get_stream_name(places: Sequence[SourcePath]) -> str:
    """Return the stream's name by the paths alone, so that it is the same at each load."""
    place = places[0]
    first = next(place.list_files(), None) if len(places) == 1 and not place.is_glob else None
    files = [place.file(first)] if first is not None and first.uri == place.name else []
    return stream_name([place.source for place in places], files)
