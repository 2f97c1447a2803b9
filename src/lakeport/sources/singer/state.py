"""Write Singer STATE values, once the records before them are committed."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import msgspec

from lakeport.errors import ConfigError, DestinationError
from lakeport.host.scratch import replace_file

_Object = dict[str, msgspec.Raw]


class StateOutput:
    """Writes STATE values to a stream, to a file, or to both.

    Args:
        stream: gets each value unchanged as one line, flushed at once; usually stdout.
        path: a file with the merged state (see `merge_state`), replaced atomically each time.

    Raises:
        ConfigError: the file holds no JSON object, can't be read, or its folder is missing.
    """

    def __init__(self, stream: BinaryIO | None = None, path: Path | None = None) -> None:
        self._stream = stream
        self._path = None if path is None else path.resolve()
        self._merged = b""
        if self._path is None:
            return
        if not self._path.parent.is_dir():
            raise ConfigError(
                f"there is no folder for the state file {path}", "make it, or name another file."
            )
        if self._path.is_dir():
            raise ConfigError(f"the state file {path} is a folder", "name a file.")
        if self._path.is_file():
            self._merged = _read_state_file(self._path)

    def emit(self, value: bytes) -> None:
        """Write a STATE value: append it to the stream as a line, and merge it into the file.

        Raises:
            DestinationError: the stream is closed, or the file can't be written. Rows that were
                committed stay.
        """
        if self._path is not None:
            self._merged = merge_state(self._merged, value)
            _replace_state_file(self._path, self._merged + b"\n")
        if self._stream is not None:
            try:
                self._stream.write(value + b"\n")
                self._stream.flush()
            except (OSError, ValueError) as error:
                raise DestinationError(
                    f"the data has landed, but its STATE could not be written: {error}",
                    "whatever reads the output has to stay until this process ends",
                ) from None


class PendingStates:
    """STATE values that wait until the records before them are committed.

    A value is dropped once later values have the bookmarks of all its streams. So at most one value
    is held per stream, and of a tap that writes all bookmarks each time only the last one.

    >>> pending = PendingStates()
    >>> pending.add(b'{"bookmarks": {"a": 1}}')
    >>> pending.add(b'{"bookmarks": {"b": 1}}')
    >>> pending.add(b'{"bookmarks": {"b": 2}}')
    >>> pending.take()
    (b'{"bookmarks": {"a": 1}}', b'{"bookmarks": {"b": 2}}')
    """

    def __init__(self) -> None:
        self._held: list[tuple[bytes, frozenset[str]]] = []

    def add(self, value: bytes) -> None:
        """Hold a STATE value; drop earlier values whose bookmarks are all in later ones."""
        named = frozenset(parse_bookmarks(value) or ())
        held, seen = [(value, named)], set(named)
        for earlier, names in reversed(self._held):
            if not names <= seen:
                held.append((earlier, names))
                seen |= names
        self._held = held[::-1]

    def take(self) -> tuple[bytes, ...]:
        """Return the held values in their order, and hold none any more."""
        values, self._held = tuple(value for value, _ in self._held), []
        return values


def merge_state(old: bytes, new: bytes) -> bytes:
    """Merge a new STATE into the old one and return the JSON; bookmarks of other streams stay.

    The bookmarks in `{"bookmarks": {stream: ...}}` stay for the streams that the new value does
    not name, also if it names none; a bookmark is replaced whole. Other keys are the new value's.
    An empty value (`{}` or `null`) changes nothing. A value that is no object, or has bookmarks of
    another shape, replaces the old one.

    >>> merge_state(b'{"bookmarks": {"a": 1, "b": 2}}', b'{"bookmarks": {"b": 3}}')
    b'{"bookmarks":{"a":1,"b":3}}'
    >>> merge_state(b'{"bookmarks": {"a": 1}, "at": 4}', b'{"at": 5}')
    b'{"at":5,"bookmarks":{"a":1}}'
    """
    if old and b"".join(new.split()) in (b"{}", b"null"):
        return old
    before, whole = parse_bookmarks(old), _parse_object(new)
    if not before or whole is None:
        return new
    after = _parse_object(whole.get("bookmarks", msgspec.Raw(b"{}")))
    if after is None:
        return new
    whole["bookmarks"] = msgspec.Raw(msgspec.json.encode({**before, **after}))
    return msgspec.json.encode(whole)


def parse_bookmarks(state: bytes) -> _Object | None:
    """Return a STATE's bookmarks by stream; empty for an empty STATE, None if it has none."""
    if not state:
        return {}
    whole = _parse_object(state) or {}
    return _parse_object(whole["bookmarks"]) if "bookmarks" in whole else None


def _parse_object(text: bytes) -> _Object | None:
    """Parse a JSON object, leaving its values as raw JSON; None if the text is no JSON object."""
    try:
        return msgspec.json.decode(text, type=_Object)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read_state_file(path: Path) -> bytes:
    """Return the JSON object of a state file, or of its last line; empty for an empty file.

    Singer's first targets appended each STATE as a line.
    """
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(
            f"can't read the state file {path}: {error.strerror}",
            "name a file that you may read and write.",
        ) from None
    for text in (content, content.rpartition(b"\n")[2]):
        if not text or _parse_object(text) is not None:
            return text
    raise ConfigError(
        f"the state file {path} does not hold a JSON object",
        "name another file, or move this one away to begin anew",
    )


def _replace_state_file(path: Path, content: bytes) -> None:
    """Replace a state file atomically; raise DestinationError if it can't be written."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise DestinationError(
            f"the data has landed, but the state file {path} could not be written: "
            f"{error.strerror}",
            "check that its folder exists and may be written to",
        ) from None
