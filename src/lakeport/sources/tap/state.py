"""The STATE that a tap goes on from, as the commits of its tables tell it together.

A flush of several streams is a commit for each table. Each says, in its bookmark of the tap, which
streams the flush had, the STATE behind it and the one before. Where a table lacks its commit of the
newest flush, as the load was cut off between two, the STATE before holds, but for the bookmarks of
the streams that have theirs. Source: Singer's specification, and the bookmarks of its SDKs.

Which tables a tap has ever landed in is told by markers beside the lake, `_lakeport/taps/<tap>/`:
they only say where to look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import msgspec

from lakeport.errors import ObjectExists
from lakeport.model import Bookmark, Remembered

if TYPE_CHECKING:
    from lakeport.model import Memory, Storage

_MARKERS: Final = "_lakeport/taps"


@dataclass
class TapMemory:
    """What the tables of one tap remember.

    Attributes:
        name: what the tables know the tap by.
        storage: the target's store, whose root is the lake's.
        memory: what the table of a stream remembers.
        state: the STATE behind everything that was landed, or that is on its way; empty for none.
        disagree: streams whose rows may come again, as the STATE tells no bookmarks by streams.
    """

    name: str
    storage: Storage
    memory: Callable[[str], Memory]
    state: bytes = b""
    disagree: tuple[str, ...] = ()
    _order: int = 0
    _numbers: dict[str, int] = field(default_factory=dict)
    _marked: set[str] = field(default_factory=set)
    _tables: dict[str, Memory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._marked.update(self._known())
        found = {stream: self._remembered(stream) for stream in self._marked}
        values = {stream: one.value for stream, one in found.items() if one.value}
        self._order = max((int(value["order"]) for value in values.values()), default=0)
        self.state, self.disagree = composed(values)

    def moved(self, streams: Sequence[str], state: bytes) -> dict[str, Bookmark]:
        """The bookmarks with which a flush's streams land.

        Args:
            streams: those that have rows in it.
            state: the STATE behind it, merged into those before.
        """
        self._order = max(self._order + 1, time.time_ns() // 1000)
        value = {
            "order": self._order,
            "streams": list(streams),
            "state": _text(state),
            "before": _text(self.state),
        }
        self.state = state
        return {stream: self._next(stream, value) for stream in streams}

    @property
    def streams(self) -> list[str]:
        """The streams that the tap has landed so far."""
        return sorted(self._marked)

    def knows(self, stream: str) -> bool:
        """Whether the tap goes on from a bookmark of a stream, as far as the STATE tells."""
        bookmarks = _bookmarks(_text(self.state))
        if bookmarks is None:
            return True
        return bytes(bookmarks.get(stream, msgspec.Raw(b"{}"))) not in (b"{}", b"null")

    def mark(self, stream: str) -> None:
        """Tell later loads to look at a stream's table; before its first commit.

        Raises:
            DestinationError: the store refused.
        """
        if stream in self._marked:
            return
        self._marked.add(stream)
        with suppress(ObjectExists):
            self.storage.put(f"{self._folder}/{quote(stream, safe='')}", b"{}", create_only=True)

    def _next(self, stream: str, value: Mapping[str, Any]) -> Bookmark:
        if stream not in self._numbers and self._remembered(stream).value:
            self._numbers[stream] = Remembered().number  # another load came since this one began
        after = self._numbers[stream]
        number = self._numbers[stream] = self._table(stream).next_number(after)
        return Bookmark(f"tap {self.name}", value, after, number)

    def _remembered(self, stream: str) -> Remembered:
        found = self._table(stream).bookmark(f"tap {self.name}")
        self._numbers[stream] = found.number
        return found

    def _table(self, stream: str) -> Memory:
        """What a stream's table remembers; to open it takes requests."""
        if stream not in self._tables:
            self._tables[stream] = self.memory(stream)
        return self._tables[stream]

    @property
    def _folder(self) -> str:
        return f"{_MARKERS}/{quote(self.name, safe='')}"

    def _known(self) -> list[str]:
        names = (item.key.rpartition("/")[2] for item in self.storage.list(self._folder))
        return [unquote(name) for name in names]


def composed(values: Mapping[str, Mapping[str, Any]]) -> tuple[bytes, tuple[str, ...]]:
    """The STATE that all tables together allow, and the streams whose rows may come again.

    Args:
        values: stream -> the value of its table's bookmark.

    >>> flush = {"order": 2, "streams": ["a", "b"], "before": '{"bookmarks":{"a":1,"b":1}}',
    ...     "state": '{"bookmarks":{"a":2,"b":2}}'}
    >>> composed({"a": flush, "b": {**flush, "order": 1}})
    (b'{"bookmarks":{"a":2,"b":1}}', ())
    """
    if not values:
        return b"", ()
    newest = max(values.values(), key=lambda value: int(value["order"]))
    landed = [name for name, value in values.items() if value["order"] == newest["order"]]
    if {*newest["streams"]} <= {*landed}:
        return newest["state"].encode(), ()
    before = newest["before"].encode()
    behind, since = _bookmarks(newest["before"]), _bookmarks(newest["state"])
    if behind is None or since is None:
        return before, tuple(landed)
    whole = msgspec.json.decode(before or b"{}", type=dict[str, msgspec.Raw])
    ours = {name: since[name] for name in landed if name in since}
    whole["bookmarks"] = msgspec.Raw(msgspec.json.encode({**behind, **ours}))
    return msgspec.json.encode(whole), ()


def _bookmarks(state: str) -> dict[str, msgspec.Raw] | None:
    """Those of a STATE, by streams; None where it has another shape."""
    if not state:
        return {}
    try:
        whole = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(whole["bookmarks"], type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, KeyError):
        return None


def _text(state: bytes) -> str:
    return state.decode(errors="surrogateescape")
