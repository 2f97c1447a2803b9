"""Read only the files of a source that its table has not had, and record those landed.

```
places ─▶ listing, sorted ─┐
                           ├─▶ compare ─▶ new files ─▶ one batch, with the bookmark `files`
bookmark ─▶ segments ──────┘
```

A name is bytes there: those of a disk need not be text.

The bookmark `files` names segments. A load adds one with its new files, and takes those before it
that are not larger into it, so that each is larger than all behind it together: a million files are
in twenty segments at most, and each file is written twenty times at most.

A segment that is not named any more stays for thirty days at least, for who brings an older version
of the table back.
"""

from __future__ import annotations

import heapq
import io
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
from lakeport.model import Bookmark, Flush, Memory, Mode
from lakeport.sources.files.discovery import (
    Listed,
    SourcePath,
    check_format,
    check_formats,
    nothing_found,
    stream_name,
    unfolded,
    with_format,
)
from lakeport.sources.input.decompression import unpack_limits
from lakeport.sources.target import fixed_table_name, open_folder_storage
from lakeport.storage.base import created
from lakeport.units import pluralize

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.inputs import FilesSource
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
_TOLD = 20  # files whose names an error may tell

_NAME: Final = "files"
_FORMAT: Final = 1
_KEPT: Final = 30 * 24 * 3600.0  # seconds, as long as Delta keeps its log
_SKEW: Final = 3600.0  # between the store's clock and ours
_SMALL = 50_000  # files of a segment that is put in one request


def unseen(
    listed: Iterable[Listed], seen: Iterable[Listed]
) -> Iterator[tuple[Listed, Listed | None]]:
    """The files that were not seen as they are now, each with what was seen of it.

    Args:
        listed: in the order of their URIs.
        seen: in the order of their URIs.

    >>> list(unseen([Listed("a", 1, ""), Listed("b", 2, "")], [Listed("b", 1, "")]))
    ... # doctest: +NORMALIZE_WHITESPACE
    [(Listed(uri='a', bytes=1, tag=''), None),
     (Listed(uri='b', bytes=2, tag=''), Listed(uri='b', bytes=1, tag=''))]
    """
    waiting = iter(seen)
    known = next(waiting, None)
    for file in listed:
        while known is not None and known.uri < file.uri:
            known = next(waiting, None)
        if known is None or known.uri != file.uri:
            yield file, None
        elif known != file:
            yield file, known


def wanted(
    found: Iterable[tuple[Listed, Listed | None]], again: Literal["fail", "land", "ignore"]
) -> Iterator[Listed]:
    """Those of `unseen` that are to be landed.

    Raises:
        SourceError: a file has changed since it was landed, and `again` is `fail`.
    """
    for file, known in found:
        if known is None or again == "land":
            yield file
        elif again == "fail":
            raise SourceError(
                f"file {file.uri!r} has changed since it was landed: {difference(known, file)}",
                "`again: land` (`--again land`) lands all its rows once more, `again: ignore` "
                "leaves it out; a file that is still written should get its name when it is whole.",
            )


def difference(before: Listed, now: Listed) -> str:
    """How a file differs from what was known of it, in words."""
    return f"it had {_described(before)}, and has {_described(now)}"


def _described(file: Listed) -> str:
    if file.tag.isdecimal():  # of a disk
        moment = datetime.fromtimestamp(int(file.tag) / 1e9, UTC)
        return f"{file.bytes:,} bytes of {moment:%Y-%m-%d %H:%M:%S.%f}"
    return f"{file.bytes:,} bytes with the tag {file.tag}"


def write_segment(files: Iterable[Listed], target: Any) -> None:
    """Write files, which come in the order of their URIs, to something with `write`."""
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_stream(target, _SCHEMA, options=options) as writer:
        for rows in _groups(files, _ROWS):
            names = (row.uri.encode("utf-8", "surrogateescape") for row in rows)
            _, sizes, tags = zip(*rows, strict=True)
            columns = dict(zip(_SCHEMA.names, ([*names], sizes, tags), strict=True))
            writer.write_batch(pa.RecordBatch.from_pydict(columns, _SCHEMA))


def read_segment(source: Any) -> Iterator[Listed]:
    """The files of a segment, in the order of their URIs.

    Raises:
        pa.ArrowInvalid: it is no segment.
    """
    with ipc.open_stream(source) as reader:
        for batch in reader:
            names, sizes, tags = (column.to_pylist() for column in batch.columns)
            uris = (name.decode("utf-8", "surrogateescape") for name in names)
            yield from map(Listed, uris, sizes, tags)


def merged(segments: Sequence[Iterable[Listed]]) -> Iterator[Listed]:
    """The files of all segments, each once, as the last of the segments that have it says.

    Args:
        segments: each in the order of its URIs.
    """
    before = None
    for file in heapq.merge(*reversed(segments), key=attrgetter("uri")):
        if file.uri != before:
            yield file
        before = file.uri


def in_order(files: Iterable[Listed], folder: Path) -> Iterator[Listed]:
    """Files that come in any order in the order of their URIs, each once.

    No store is trusted with it: S3 Express lists in no order, and Azure's depends on the account.

    Args:
        files: as they are listed.
        folder: takes what does not fit into memory.
    """
    runs: list[Path] = []
    waiting = iter(files)
    while len(group := sorted(islice(waiting, _SORTED))) == _SORTED:
        runs.append(folder / f"listing-{len(runs)}.arrow")
        with runs[-1].open("xb") as target:
            write_segment(group, target)
    return merged([*map(_from_disk, runs), group])


def _from_disk(path: Path) -> Iterator[Listed]:
    with path.open("rb") as source:
        yield from read_segment(source)


def _groups(files: Iterable[Listed], size: int) -> Iterator[list[Listed]]:
    waiting = iter(files)
    while group := list(islice(waiting, size)):
        yield group


class NewFiles:
    """What is new in the places that a description names.

    Args:
        source: the description.
        places: what it names.
        record: what the table has had.
        folder: takes long listings.
        limits: what archives may become.
        format: see `discover`.

    Attributes:
        files: those to land, with the files of archives in their place. Empty ones are seen, and
            have no row.

    Raises:
        SourceError: a file has changed since it was landed, the new ones are of several formats, or
            the places are empty and always were.
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
        self._source, self._places, self._record = source, places, record
        self._by_root = {place.root: place for place in places}
        self._by_name = {place.name: place for place in places}
        self._folder = folder
        self._count = 0
        self._reached: dict[str, str] = {}
        self._new: list[Listed] = []
        self._of_no_format: list[SourceFile] = []
        self.files: list[SourceFile] = []
        listed = in_order(map(self._counted, self._listed()), folder)
        first = next(listed, None)
        seen = record.seen(first.uri if first else "")
        found = unseen(chain([first] if first else [], listed), seen)
        for file in wanted(found, source.again):
            self._take(file, limits)
        if record.empty and not self._new:
            raise nothing_found(places[0], self._of_no_format)
        check_formats(self.files)

    def nothing(self, stream: str) -> Iterator[Flush]:
        """The flush that says that there is nothing new."""
        note = f"nothing new: {pluralize(self._count, 'file')} looked at"
        yield Flush((), last=True, notes={stream: note}, quiet=(stream,))

    def flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """The flushes of the new files, with what the table is to remember."""
        bookmark, write = self._record.extended(self._new, self._reached)

        def before_commit() -> None:
            self._check()
            write()

        for flush in source:
            batches = tuple(
                replace(
                    batch,
                    notes=(*batch.notes, self._told()),
                    remembered=False,  # the record knows them
                    bookmark=bookmark,
                    before_commit=before_commit,
                )
                for batch in flush.batches
            )
            yield replace(flush, batches=batches)

    def _told(self) -> str:
        looked_at = f"{pluralize(self._count, 'file')} looked at"
        return f"{pluralize(len(self._new), 'new file')}, {looked_at}"

    def _listed(self) -> Iterator[Listed]:
        for place in self._places:
            if not self._source.ordered:
                yield from place.listed()
                continue
            last = after = self._record.reached.get(place.name, "")
            for file in place.listed(after):
                last = max(last, file.uri)
                yield file
            if last:
                self._reached[place.name] = last

    def _counted(self, file: Listed) -> Listed:
        self._count += 1
        return file

    def _take(self, file: Listed, limits: UnpackLimits) -> None:
        place = self._place(file)
        files = with_format(unfolded(place.file(file), limits), place, self._format)
        if files:
            self._new.append(file)
            self.files += (one for one in files if one.bytes)
        elif len(self._of_no_format) < _TOLD:
            self._of_no_format.append(place.file(file))

    def _place(self, file: Listed) -> SourcePath:
        found = self._by_name.get(file.uri)
        return found or next(p for root, p in self._by_root.items() if file.uri.startswith(root))

    def _check(self) -> None:
        """See that what was read is what was listed.

        Raises:
            SourceError: a file has changed, or is gone.
        """
        for file, now in unseen(self._new, self._again()):
            what = f"changed: {difference(file, now)}" if now else "went"
            raise SourceError(
                f"while it was read, file {file.uri!r} {what}; nothing was landed",
                "land once more. What writes such files should give them their names when they "
                "are whole.",
            )

    def _again(self) -> Iterator[Listed]:
        """The new files as they are now, in the order of their URIs, and perhaps others."""
        stored = any(place.storage is not None for place in self._places)
        if stored and self._count < _PAGE * len(self._new):  # that is fewer requests
            yield from in_order(self._listed(), Path(mkdtemp(dir=self._folder)))
            return
        with ThreadPoolExecutor(_THREADS, "lakeport-look") as executor:
            found = executor.map(lambda file: self._place(file).again(file), self._new)
            yield from (file for file in found if file is not None)


@dataclass(frozen=True, slots=True)
class _Segment:
    """One segment, as the bookmark names it.

    Attributes:
        name: of its object.
        files: how many it has at most; those that came again are counted each time.
        last: the last URI in it.
    """

    name: str
    files: int
    last: str


class LandedFiles:
    """The files that a table has had.

    Args:
        memory: the table's.
        now: the time, in seconds since 1970.

    Raises:
        DestinationError: the store refused, or another version of lakeport wrote the record.
    """

    def __init__(self, memory: Memory, now: Callable[[], float] = time.time) -> None:
        self._memory = memory
        remembered = memory.bookmark(_NAME)
        self._number = remembered.number
        value = remembered.value
        self.empty: bool = not value
        """Whether the table has had none."""
        if value and value.get("format") != _FORMAT:
            raise DestinationError(
                f"the record of the files that {memory.storage.uri()} has had is of format "
                f"{value.get('format')!r}, and this version of lakeport knows format {_FORMAT}",
                "use the version that wrote it, or a newer one.",
            )
        self.reached: Mapping[str, str] = value.get("reached", {})
        """SourcePath -> the last URI that was listed there, where names grow with time."""
        self._segments = [_Segment(*segment) for segment in value.get("segments", ())]
        self._now = now()
        swept = value.get("swept", {"at": self._now, "named": []})
        self._swept_at: float = swept["at"]
        self._named_then = frozenset[str](swept["named"])

    def seen(self, first: str = "") -> Iterator[Listed]:
        """The files that the table has had, in the order of their URIs.

        Args:
            first: files before this URI may be left out.

        Raises:
            DestinationError: a segment is damaged or missing (while iterating).
        """
        return merged([self._read(one.name) for one in self._segments if one.last >= first])

    def extended(
        self, new: Sequence[Listed], reached: Mapping[str, str]
    ) -> tuple[Bookmark, Callable[[], None]]:
        """The record with more files.

        Args:
            new: in the order of their URIs.
            reached: replaces that of the places that are named.

        Returns:
            The record after the load, and what writes the segment that only this names: to be
            called before the commit.
        """
        kept = list(self._segments)
        taken: list[_Segment] = []
        files, last = len(new), new[-1].uri if new else ""
        while new and kept and kept[-1].files <= files:
            taken.insert(0, kept.pop())
            files, last = files + taken[0].files, max(last, taken[0].last)
        name = f"{secrets.token_hex(16)}.arrow"
        if new:
            kept.append(_Segment(name, files, last))
        named = {one.name for one in kept}
        due = self._now - self._swept_at >= _KEPT
        value: dict[str, Any] = {
            "format": _FORMAT,
            "segments": [[one.name, one.files, one.last] for one in kept],
            "reached": {**self.reached, **reached},
            "swept": {"at": self._now, "named": sorted(named)}
            if due or not self._named_then
            else {"at": self._swept_at, "named": sorted(self._named_then)},
        }

        def write() -> None:
            if new:
                self._write(name, files, merged([*(self._read(s.name) for s in taken), new]))
            if due:
                self._sweep(named)

        return Bookmark(_NAME, value, self._number), write

    def _sweep(self, named: Collection[str]) -> None:
        """Remove what was not named thirty days ago, nor is now."""
        storage = self._memory.storage
        with suppress(DestinationError):  # it may not be allowed, and can wait
            for found in storage.list(self._key("").rstrip("/")):
                name = found.key.rpartition("/")[2]
                old = found.modified < self._swept_at - _SKEW
                if old and name not in named and name not in self._named_then:
                    storage.delete(found.key)

    def _key(self, name: str) -> str:
        return f"{self._memory.folder}/files/{name}"

    def _read(self, name: str) -> Iterator[Listed]:
        try:
            with self._memory.storage.open(self._key(name)) as source:
                yield from read_segment(source)
        except pa.ArrowInvalid as error:
            raise DestinationError(
                f"{self._memory.storage.uri(self._key(name))} is damaged, and holds files that the "
                f"table has had: {error}",
                "bring it back from a copy, or land all anew with a full refresh.",
            ) from error

    def _write(self, name: str, size: int, files: Iterator[Listed]) -> None:
        storage = self._memory.storage
        if size > _SMALL:
            with created(storage, self._key(name)) as target:
                write_segment(files, target)
            return
        small = io.BytesIO()
        write_segment(files, small)
        storage.put(self._key(name), small.getvalue())


def open_new_files(
    source: FilesSource,
    options: ReadOptions,
    config: DestinationConfig,
    folder: Path,
    memory_of: Callable[[str], Memory],
) -> tuple[str, NewFiles]:
    """List what a description names, and find what is new.

    Args:
        source: the description.
        options: how to read the files.
        config: the target's.
        folder: takes long listings.
        memory_of: gives what the table of a stream remembers.

    Returns:
        The stream's name, and the files.

    Raises:
        ConfigError: the source or the target does not go with it.
        SourceError: see `NewFiles`.
        DestinationError: the record can't be read.
    """
    _check(source, options, config)
    places = [SourcePath.of(name, partial(open_folder_storage, config)) for name in source.names]
    stream = fixed_table_name(config) or _name_of(places)
    record = LandedFiles(memory_of(stream))
    limits = unpack_limits(config)
    return stream, NewFiles(source, places, record, folder, limits, options.format)


def _check(source: FilesSource, options: ReadOptions, config: DestinationConfig) -> None:
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
        raise singer_files()


def singer_files() -> ConfigError:
    """The error that a source has Singer files."""
    return ConfigError(
        "`new_only` is about files of one table, and Singer files may hold several streams",
        "land Singer files without it.",
    )


def _name_of(places: Sequence[SourcePath]) -> str:
    """The stream's name, by what is named alone: the same whatever is new."""
    place = places[0]
    first = next(place.listed(), None) if len(places) == 1 and not place.wild else None
    files = [place.file(first)] if first is not None and first.uri == place.name else []
    return stream_name([place.source for place in places], files)
