"""Whole lines out of a stream, many at a time, in one buffer of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

_CHUNK = 8 << 20
_HEAD_BYTES = 4096


class LineBlock(NamedTuple):
    """Some whole lines of the input, valid until the next block is asked for.

    Attributes:
        data: a buffer that starts with these lines.
        end: where they end, right behind a newline.
        cut_off: the input ended without a newline behind the last of them; one was added.
        too_long: the first bytes of a line longer than the limit, which stands here alone and was
            skipped; None for an ordinary block.
    """

    data: bytearray
    end: int
    cut_off: bool = False
    too_long: bytes | None = None


def read_blocks(stream: BinaryIO, max_line: int, chunk: int = _CHUNK) -> Iterator[LineBlock]:
    """Read a stream as blocks of whole lines; what is in them depends on how the reads fall.

    The buffer holds one line of the limit at most, so a complete line in it is never longer.

    Args:
        stream: binary, with `readinto1`, `readinto` or `read`.
        max_line: the longest line, in bytes, its newline not counted.
        chunk: usual size of the buffer in bytes.
    """
    usual = min(chunk, max_line + 1)
    fill = filler(stream)
    data = bytearray(usual)
    held = 0
    skipping = False
    while got := _fill_from(fill, data, held):
        total = held + got
        end = (data.find if skipping else data.rfind)(b"\n", held, total) + 1
        if skipping:
            if not end:
                continue
            skipping = False
            data[: total - end] = data[end:total]
            total -= end
            end = data.rfind(b"\n", 0, total) + 1
        if end:
            yield LineBlock(data, end)
        held = total - end
        data = _keep(data, end, total, usual)
        if held > max_line:
            yield LineBlock(data, 0, too_long=bytes(data[:_HEAD_BYTES]))
            skipping, held = True, 0
        elif held == len(data):
            data.extend(bytes(min(len(data), max_line + 1 - len(data))))
    if held:
        data[held] = 0x0A
        yield LineBlock(data, held + 1, cut_off=True)


def _keep(data: bytearray, start: int, stop: int, usual: int) -> bytearray:
    """Move the begun line to the front, into a buffer of the usual size when it fits again."""
    if len(data) > usual and stop - start < usual:
        smaller = bytearray(usual)
        smaller[: stop - start] = data[start:stop]
        return smaller
    if start:
        data[: stop - start] = data[start:stop]
    return data


def filler(stream: BinaryIO) -> Callable[[memoryview], int | None]:
    """The way to fill a buffer from a stream with what is there; it gives 0 at the end."""
    for name in ("readinto1", "readinto"):
        if method := getattr(stream, name, None):
            return method  # type: ignore[no-any-return]

    def fill(view: memoryview) -> int:
        got = stream.read(len(view))
        view[: len(got)] = got
        return len(got)

    return fill


def _fill_from(fill: Callable[[memoryview], int | None], data: bytearray, start: int) -> int:
    with memoryview(data) as whole, whole[start:] as view:
        return fill(view) or 0


def count_lines(data: bytes | bytearray, start: int, stop: int) -> int:
    """Count the newlines in a part of a buffer."""
    return data.count(b"\n", start, stop)


def line_end(data: bytes | bytearray, start: int, stop: int, lines: int) -> int:
    r"""Find where the `lines`-th line from `start` ends.

    >>> line_end(b"a\nbb\nccc\n", 0, 9, 2)
    5

    Raises:
        ValueError: the part has fewer lines.
    """
    for _ in range(lines):
        start = data.index(b"\n", start, stop) + 1
    return start
