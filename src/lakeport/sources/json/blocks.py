"""Newline-delimited files -> blocks of whole lines, in flat memory."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from lakeport.errors import SourceError
from lakeport.host.activity import advance
from lakeport.model import Split
from lakeport.sources.splits import open_split
from lakeport.sources.spool import read_sidecar

BLOCK = 4 << 20
_HEAD = 4096
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
    try:
        with open_split(split) as file:
            file.seek(split.start)
            yield from _blocks(file, split, limit)
    except OSError as error:
        raise SourceError(
            f"file {split.uri!r} can't be read: {error.strerror or error}",
            "check that it is there, readable and not changed during the load.",
        ) from error


def _blocks(file: BinaryIO, split: Split, limit: int) -> Iterator[Block | LongLine]:
    first = 0
    held: list[bytes] = []
    size = 0
    skipping = b""
    for chunk in _chunks(file, split):
        cut = chunk.rfind(b"\n")
        if skipping:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            yield LongLine(skipping, first)
            first += 1
            skipping = b""
            chunk = chunk[end + 1 :]
            cut -= end + 1
        if cut >= 0:
            yield from _checked(_unmarked(b"".join((*held, memoryview(chunk)[:cut]))), first, limit)
            first += chunk.count(b"\n")
            held, size = [], 0
        held.append(chunk[cut + 1 :])
        size += len(held[-1])
        if size > limit:
            skipping = b"".join(held)[:_HEAD]
            held, size = [], 0
    if skipping:
        yield LongLine(skipping, first)
    elif size:
        yield Block(_unmarked(b"".join(held)), first)


def _chunks(file: BinaryIO, split: Split) -> Iterator[bytes]:
    left = split.end - split.start if split.end >= 0 else -1
    while left:
        chunk = file.read(BLOCK if left < 0 else min(BLOCK, left))
        if not chunk:
            break
        left -= len(chunk) if left > 0 else 0
        advance(len(chunk))
        yield chunk
    if left > 0:
        raise SourceError(
            f"file {split.uri!r} ends {left} bytes before it should",
            "leave the file as it is during the load, then load again.",
        )


def _unmarked(lines: bytes) -> bytes:
    """Lines without the byte order marks before them, which files have that were joined."""
    lines = lines.removeprefix(_BOM)
    return lines.replace(b"\n" + _BOM, b"\n") if b"\xef" in lines else lines


def _checked(data: bytes, first: int, limit: int) -> Iterator[Block | LongLine]:
    """A block, cut at lines that turned out longer than the limit once they were whole."""
    if len(data) <= limit:
        yield Block(data, first)
        return
    kept: list[bytes] = []
    for number, line in enumerate(data.split(b"\n"), first):
        if len(line) <= limit:
            kept.append(line)
            continue
        if kept:
            yield Block(b"\n".join(kept), number - len(kept))
        kept = []
        yield LongLine(line[:_HEAD], number)
    if kept:
        yield Block(b"\n".join(kept), first + data.count(b"\n") + 1 - len(kept))


def cut_lines(data: bytes, start: int, most: int) -> tuple[list[bytes], int]:
    """Some lines from `start` on, and where the next one begins."""
    lines: list[bytes] = []
    while len(lines) < most and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        lines.append(data[start:end])
        start = end + 1
    return lines, start


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
