"""Read whole lines of a stream, many at a time, in one buffer of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

_CHUNK = 8 << 20
_HEAD_BYTES = 4096


class LineBlock(NamedTuple):
    """Whole lines of the input, valid until the next block is read.

    Attributes:
        data: a buffer that starts with these lines.
        end: the offset behind the last line's newline.
        is_cut_off: whether the input ended without a newline behind the last line; one was added.
        too_long: the first bytes of a line that is longer than the limit and was skipped; the
            block has no other line then. None for an ordinary block.
    """

    data: bytearray
    end: int
    is_cut_off: bool = False
    too_long: bytes | None = None


def read_blocks(stream: BinaryIO, max_line: int, chunk: int = _CHUNK) -> Iterator[LineBlock]:
    """Yield a stream's content as blocks of whole lines, as many as each read returns.

    The buffer is as large as the longest allowed line, so a complete line in it is never longer.

    Args:
        stream: a binary stream with `readinto1`, `readinto` or `read`.
        max_line: the maximum length of a line in bytes, without its newline.
        chunk: the usual size of the buffer in bytes.
    """
    usual = min(chunk, max_line + 1)
    fill = get_fill_function(stream)
    data = bytearray(usual)
    held = 0
    skipping = False
    while got := _fill_buffer(fill, data, held):
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
        data = _move_rest_to_front(data, end, total, usual)
        if held > max_line:
            yield LineBlock(data, 0, too_long=bytes(data[:_HEAD_BYTES]))
            skipping, held = True, 0
        elif held == len(data):
            data.extend(bytes(min(len(data), max_line + 1 - len(data))))
    if held:
        data[held] = 0x0A
        yield LineBlock(data, held + 1, is_cut_off=True)


def _move_rest_to_front(data: bytearray, start: int, stop: int, usual: int) -> bytearray:
    """Move an incomplete line to the front of the buffer; return a smaller buffer if it fits."""
    if len(data) > usual and stop - start < usual:
        smaller = bytearray(usual)
        smaller[: stop - start] = data[start:stop]
        return smaller
    if start:
        data[: stop - start] = data[start:stop]
    return data


def get_fill_function(stream: BinaryIO) -> Callable[[memoryview], int | None]:
    """Return a function that reads a stream into a buffer and returns the bytes read, 0 at the end.

    The function returns what is available, if the stream's methods allow that.
    """
    for name in ("readinto1", "readinto"):
        if method := getattr(stream, name, None):
            return method  # type: ignore[no-any-return]

    def fill(view: memoryview) -> int:
        got = stream.read(len(view))
        view[: len(got)] = got
        return len(got)

    return fill


def _fill_buffer(fill: Callable[[memoryview], int | None], data: bytearray, start: int) -> int:
    """Read into a buffer from `start` on; return the number of bytes, 0 at the end."""
    with memoryview(data) as whole, whole[start:] as view:
        return fill(view) or 0


def count_lines(data: bytes | bytearray, start: int, stop: int) -> int:
    """Count the newlines from `start` to `stop` in a buffer."""
    return data.count(b"\n", start, stop)


def find_line_end(data: bytes | bytearray, start: int, stop: int, lines: int) -> int:
    r"""Return the offset behind the `lines`-th line from `start`.

    >>> find_line_end(b"a\nbb\nccc\n", 0, 9, 2)
    5

    Raises:
        ValueError: there are fewer lines before `stop`.
    """
    for _ in range(lines):
        start = data.index(b"\n", start, stop) + 1
    return start
