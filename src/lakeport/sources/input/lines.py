"""Read whole lines of a stream, many at a time, in one buffer of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

_CHUNK = 8 << 20
_HEAD_BYTES = 4096


class LineBlock(NamedTuple):
    """Whole lines at the start of a reused buffer, valid until the next block is read.

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


def read_blocks(
    stream: BinaryIO, max_line_bytes: int, chunk_bytes: int = _CHUNK
) -> Iterator[LineBlock]:
    """Yield a stream's whole lines in blocks; of a line over `max_line_bytes`, only its beginning.

    A block has as many lines as a read returns. The buffer is as large as the longest allowed line,
    so a complete line in it is never longer. `chunk_bytes` is the usual size of the buffer.
    """
    usual = min(chunk_bytes, max_line_bytes + 1)
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
        if held > max_line_bytes:
            yield LineBlock(data, 0, too_long=bytes(data[:_HEAD_BYTES]))
            skipping, held = True, 0
        elif held == len(data):
            data.extend(bytes(min(len(data), max_line_bytes + 1 - len(data))))
    if held:
        data[held] = 0x0A
        yield LineBlock(data, held + 1, is_cut_off=True)


def _move_rest_to_front(data: bytearray, start: int, stop: int, usual_bytes: int) -> bytearray:
    """Move an incomplete line to the buffer's front; return the buffer, or a smaller new one.

    Only a buffer that has grown is replaced, and only if the line fits.
    """
    if len(data) > usual_bytes and stop - start < usual_bytes:
        smaller = bytearray(usual_bytes)
        smaller[: stop - start] = data[start:stop]
        return smaller
    if start:
        data[: stop - start] = data[start:stop]
    return data


def get_fill_function(stream: BinaryIO) -> Callable[[memoryview], int | None]:
    """Return a function that reads from a stream into a buffer and returns the count, 0 at the end.

    It uses the first method of the stream among `readinto1`, `readinto` and `read`.
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


def find_line_end(data: bytes | bytearray, start: int, stop: int, lines: int) -> int:
    r"""Return the offset behind the next `lines` lines; ValueError if `stop` comes first.

    >>> find_line_end(b"a\nbb\nccc\n", 0, 9, 2)
    5
    """
    for _ in range(lines):
        start = data.index(b"\n", start, stop) + 1
    return start
