"""Newline-delimited files -> blocks of whole lines, in flat memory."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from lakeport.errors import SourceError
from lakeport.host.activity import advance
from lakeport.model import Split
from lakeport.sources.input import lines
from lakeport.sources.splits import open_range
from lakeport.sources.spool import read_sidecar

BLOCK = 4 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines.

    Attributes:
        data: the lines, the newline of the last one left out.
        first: ordinal of the first of them within the split, from 0.
    """

    data: bytes
    first: int


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is longer than the limit and was not held in memory.

    Attributes:
        head: its first 4096 bytes.
        first: its ordinal within the split, from 0.
    """

    head: bytes
    first: int


def read_blocks(split: Split, limit: int) -> Iterator[Block | LongLine]:
    """Read a range of a file that begins and ends between two lines.

    Args:
        split: what to read; `start` must be the start of a line.
        limit: bytes that a line may have.

    Raises:
        SourceError: the file can't be read, or is shorter than the split says.
    """
    first = 0
    with open_range(split) as file:
        for found in lines.read_blocks(cast(BinaryIO, _Range(file, split)), limit, BLOCK):
            if found.too_long is not None:
                yield LongLine(found.too_long, first)
                first += 1
                continue
            with memoryview(found.data) as whole:
                data = bytes(whole[: found.end - 1])
            yield Block(_unmarked(data), first)
            first += data.count(b"\n") + 1


class _Range:
    """The bytes of a split, from where its file stands."""

    def __init__(self, file: BinaryIO, split: Split) -> None:
        self._fill = lines.filler(file)
        self._uri = split.uri
        self._left = split.end - split.start if split.end >= 0 else -1

    def readinto(self, view: memoryview) -> int:
        count = self._fill(view if self._left < 0 else view[: self._left]) or 0
        advance(count)
        if self._left > 0 and not count:
            raise SourceError(
                f"file {self._uri!r} ends {self._left} bytes before it should",
                "leave the file as it is during the load, then load again.",
            )
        self._left -= count if self._left > 0 else 0
        return count


def _unmarked(data: bytes) -> bytes:
    """Lines without the byte order marks before them, which files have that were joined."""
    data = data.removeprefix(_BOM)
    return data.replace(b"\n" + _BOM, b"\n") if b"\xef" in data else data


def cut_lines(data: bytes, start: int, most: int) -> tuple[list[bytes], int]:
    """Some lines from `start` on, and where the next one begins."""
    found: list[bytes] = []
    while len(found) < most and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        found.append(data[start:end])
        start = end + 1
    return found, start


class LineNumbers:
    """Ordinals of lines within a split -> line numbers of the input."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._runs: list[tuple[int, int]] | None = None

    def __getitem__(self, ordinal: int) -> int:
        """Tell a line's number, from 1; 0 where lines mean nothing.

        Raises:
            SourceError: the sidecar with the numbers can't be read.
        """
        if not self._split.lines:
            return self._split.first_line + ordinal if self._split.first_line else 0
        if self._runs is None:
            self._runs = read_sidecar(self._split, self._split.lines)
        first, line = self._runs[bisect.bisect_right(self._runs, (ordinal, 2**64)) - 1]
        return line + ordinal - first
