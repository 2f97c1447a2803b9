"""The record of the files that a table has had.

The bookmark `files` names segments. A load adds one with its new files, and takes those before it
that are not larger into it, so that each is larger than all behind it together: a million files are
in twenty segments at most, and each file is written twenty times at most.

A segment that is not named any more stays for thirty days at least, for who brings an older version
of the table back.
"""

from __future__ import annotations

import io
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeport.errors import DestinationError
from lakeport.model import Bookmark, Memory
from lakeport.sources.files.places import Listed
from lakeport.sources.new_files.segments import merged, read_segment, write_segment
from lakeport.storage.base import created

_NAME: Final = "files"
_FORMAT: Final = 1
_KEPT: Final = 30 * 24 * 3600.0  # seconds, as long as Delta keeps its log
_SKEW: Final = 3600.0  # between the store's clock and ours
_SMALL = 50_000  # files of a segment that is put in one request


@dataclass(frozen=True, slots=True)
class Change:
    """What a load does to the record.

    Attributes:
        bookmark: the record after the load.
        write: writes the segment that only the bookmark names; call it before the commit.
    """

    bookmark: Bookmark
    write: Callable[[], None]


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


class Record:
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
        """Place -> the last URI that was listed there, where names grow with time."""
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

    def extended(self, new: Sequence[Listed], reached: Mapping[str, str]) -> Change:
        """The record with more files.

        Args:
            new: in the order of their URIs.
            reached: replaces that of the places that are named.
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

        return Change(Bookmark(_NAME, value, self._number), write)

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
