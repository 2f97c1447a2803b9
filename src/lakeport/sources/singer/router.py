"""Runs of RECORD lines of one stream, found by their first bytes without parsing any of them."""

from __future__ import annotations

import re

from lakeport.native import kernel

_HEAD = re.compile(
    rb'\{[ \t]*"(?:'
    rb'type"[ \t]*:[ \t]*"(?i:RECORD)"[ \t]*,[ \t]*"stream"[ \t]*:[ \t]*"([^"\\\x00-\x1f]+)"|'
    rb'stream"[ \t]*:[ \t]*"([^"\\\x00-\x1f]+)"[ \t]*,[ \t]*"type"[ \t]*:[ \t]*"(?i:RECORD)"'
    rb")[ \t]*,[ \t]*"
)
_MAX_HEADS = 512  # more than a tap's ways to write a message; each costs a compiled pattern


def stream_of(line: bytes) -> str:
    """Tell the stream of a RECORD line that is broken further on; empty if it doesn't show.

    >>> stream_of(b'{"type": "RECORD", "stream": "users", "rec')
    'users'
    """
    found = _HEAD.match(line)
    return (found[1] or found[2]).decode(errors="backslashreplace") if found else ""


class Router:
    """Knows the streams, and tells which lines are records of one of them.

    A line belongs to a stream when it begins with `"type": "RECORD"` and the stream's name, in
    either order and any spacing, written without escapes. The rest of the line is for the source
    kernel to check, duplicate keys included.
    """

    def __init__(self) -> None:
        self._kernel = kernel()
        self._names: dict[bytes, str] = {}
        self._runs: dict[bytes, tuple[re.Pattern[bytes], bytes]] = {}

    def add(self, stream: str) -> None:
        """Make a stream known; records of others are not routed."""
        self._names[stream.encode()] = stream

    def run(self, data: bytearray, start: int, end: int) -> tuple[str, int, int] | None:
        """Find the run of record lines that begins at `start`.

        Args:
            data: a buffer of whole lines.
            start: where a line begins.
            end: one past the last newline.

        Returns:
            The stream, where the run ends, and how many lines it has; None if the first line is
            no record of a known stream, or doesn't tell by its first bytes.
        """
        found = _HEAD.match(data, start, end)
        if found is None:
            return None
        stream = self._names.get(found[1] or found[2])
        if stream is None:
            return None
        head = found[0]
        if self._kernel is not None:
            return stream, *self._kernel.run(data, start, end, head)
        return self._searched(stream, head, data, start, end)

    def _searched(
        self, stream: str, head: bytes, data: bytearray, start: int, end: int
    ) -> tuple[str, int, int] | None:
        """The run without the kernel: a pattern finds its end."""
        known = self._runs.get(head)
        if known is None:
            if len(self._runs) >= _MAX_HEADS:
                return stream, data.index(b"\n", start, end) + 1, 1
            pattern = re.compile(rb"\n(?!" + re.escape(head) + rb")")
            known = self._runs[head] = pattern, b"\n" + head
        last = known[0].search(data, start, end)
        if last is None:  # a buffer of whole lines ends with a newline that no head follows
            return None
        stop = last.end()
        return stream, stop, data.count(known[1], start, stop) + 1
