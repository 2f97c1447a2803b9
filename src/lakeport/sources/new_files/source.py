"""The files that a table has not had, as a source: one batch, with the record that has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from lakeport.errors import SourceError
from lakeport.model import Flush
from lakeport.sources.files.discovery import (
    check_formats,
    nothing_found,
    unfolded,
    with_format,
)
from lakeport.sources.files.places import Listed, Place
from lakeport.sources.new_files.compare import difference, unseen, wanted
from lakeport.sources.new_files.segments import in_order
from lakeport.units import counted

if TYPE_CHECKING:
    from lakeport.config.inputs import FilesSource
    from lakeport.sources.files.source_file import SourceFile
    from lakeport.sources.input.unpacking import UnpackLimits
    from lakeport.sources.new_files.record import Record

_THREADS = 16
_PAGE = 1000  # objects that stores list in one request
_TOLD = 20  # files whose names an error may tell


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
        places: Sequence[Place],
        record: Record,
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
        note = f"nothing new: {counted(self._count, 'file')} looked at"
        yield Flush((), last=True, notes={stream: note}, quiet=(stream,))

    def flushes(self, source: Iterable[Flush]) -> Iterator[Flush]:
        """The flushes of the new files, with what the table is to remember."""
        change = self._record.extended(self._new, self._reached)

        def before_commit() -> None:
            self._check()
            change.write()

        for flush in source:
            batches = tuple(
                replace(
                    batch,
                    notes=(*batch.notes, self._told()),
                    remembered=False,  # the record knows them
                    bookmark=change.bookmark,
                    before_commit=before_commit,
                )
                for batch in flush.batches
            )
            yield replace(flush, batches=batches)

    def _told(self) -> str:
        looked_at = f"{counted(self._count, 'file')} looked at"
        return f"{counted(len(self._new), 'new file')}, {looked_at}"

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

    def _place(self, file: Listed) -> Place:
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
