"""Singer taps that lakeport starts, and whose STATE the tables remember.

A flush of several streams is a commit for each table. Each says, in its bookmark of the tap, which
streams the flush had, the STATE behind it and the one before. Where a table lacks its commit of the
newest flush, as the load was cut off between two, the STATE before holds, but for the bookmarks of
the streams that have theirs. Source: Singer's specification, and the bookmarks of its SDKs.

Which tables a tap has ever landed in is told by markers beside the lake, `_lakeport/taps/<tap>/`:
they only say where to look.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import msgspec

from lakeport.errors import ConfigError, ObjectExists, SourceError
from lakeport.model import Batch, Bookmark, Flush, Remembered
from lakeport.scrub import scrub
from lakeport.sources.singer.state import merge_state

if TYPE_CHECKING:
    from lakeport.config.inputs import TapSource
    from lakeport.model import Memory, Storage


_log = logging.getLogger(__name__)
_LAST_LINES: Final = 10
_LONGEST: Final = 500
_LEAVE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5

_MARKERS: Final = "_lakeport/taps"


class TapProcess(io.RawIOBase):
    """Starts a tap; reads what it writes to its standard output.

    At the end of that it waits for the tap, and raises if that failed: what came since the last
    flush is not landed then.

    Args:
        source: the tap.
        state: the STATE that it goes on from; empty for none.
        folder: a private folder, for the file that hands the STATE over.
        check: called while a silent tap is waited for; raises when the load is to end.

    Raises:
        ConfigError: there is no such program or folder.
    """

    def __init__(
        self, source: TapSource, state: bytes, folder: Path, check: Callable[[], None]
    ) -> None:
        super().__init__()
        self._source = source
        self._check = check
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        command = list(source.tap)
        if state:
            path = folder / "state.json"
            path.write_bytes(state)
            command += ["--state", str(path)]
        self._process = _started(source, command)
        atexit.register(self._kill)  # where the thread that would close it does not come to it
        # For the type checker: both were asked for.
        assert self._process.stdout is not None and self._process.stderr is not None
        self._pipes = self._process.stdout, self._process.stderr
        self._output = self._pipes[0].fileno()
        self._ready = select.poll()
        self._ready.register(self._output, select.POLLIN)
        self._heard = threading.Thread(target=self._listen, name="lakeport-tap", daemon=True)
        self._heard.start()

    def readable(self) -> bool:
        """It is, until it is closed."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what the tap has written.

        Raises:
            SourceError: the tap has ended, and says that it failed.
        """
        while not self._ready.poll(_LOOK_SECONDS * 1000):
            self._check()
        count = os.readv(self._output, [buffer])
        if count == 0:
            self._check_end()
        return count

    def close(self) -> None:
        """End the tap if it runs, and what it has started."""
        if self.closed:
            return
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(_LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        atexit.unregister(self._kill)
        self._heard.join(_LEAVE_SECONDS)
        for pipe in self._pipes:
            pipe.close()
        super().close()

    def _check_end(self) -> None:
        code = self._process.wait()
        self._heard.join(_LEAVE_SECONDS)
        if code == 0:
            return
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        last = "".join(f"\n  {line}" for line in self._last)
        said = f"; its last lines:{last}" if last else ", without a word"
        raise SourceError(
            f"the tap {self._source.program!r} failed with {how}{said}",
            "what it sent before its last STATE has landed, if that was a flush; mend what it "
            "says, and run the load again: it goes on from there.",
        )

    def _listen(self) -> None:
        """Hand the tap's own words on, and keep the last ones."""
        secrets = self._source.secrets()
        for line in _lines(self._pipes[1]):
            text = scrub(line, secrets)
            self._last.append(text)
            _log.info("%s: %s", self._source.program, text)

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _started(source: TapSource, command: list[str]) -> subprocess.Popen[bytes]:
    folder = source.folder or None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **source.env},
            start_new_session=True,  # an interrupt at the terminal reaches it through us
        )
    except OSError as error:
        if folder is not None and not Path(folder).is_dir():
            raise ConfigError(
                f"there is no folder {folder!r} to run the tap in", "name one that exists."
            ) from None
        raise ConfigError(
            f"the tap {source.tap[0]!r} can't be started: {error.strerror}",
            "install it, or name the program with its path.",
        ) from None


def _lines(pipe: IO[bytes]) -> Iterable[str]:
    """What a tap says, line by line; endless lines in parts."""
    while line := pipe.readline(_LONGEST):
        text = line.decode(errors="replace").rstrip()
        if text:
            yield "".join(char if char.isprintable() else " " for char in text)


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


@dataclass(frozen=True)
class TapFlushes:
    """Iterates the flushes of a Singer source that is cut behind STATEs alone.

    Attributes:
        flushes: the Singer source's.
        memory: what the tap's tables remember.
    """

    flushes: Iterable[Flush]
    memory: TapMemory

    def __iter__(self) -> Iterator[Flush]:
        """Hand each flush on, its rows with their bookmarks."""
        seen = False
        for flush in self.flushes:
            seen = seen or bool(flush.batches)
            streams = list(dict.fromkeys(b.stream for b in flush.batches if not b.schema_only))
            state = reduce(merge_state, flush.states, self.memory.state)
            marks = self.memory.moved(streams, state)
            batches = tuple(
                batch if batch.schema_only else self._remembered(batch, marks[batch.stream])
                for batch in flush.batches
            )
            without = [batch.stream for batch in batches if batch.schema_only]
            if flush.last and not seen:
                without += self.memory.streams
            quiet = tuple(stream for stream in without if self.memory.knows(stream))
            yield replace(flush, batches=batches, quiet=quiet)

    def _remembered(self, batch: Batch, bookmark: Bookmark) -> Batch:
        again = (
            f"stream {batch.stream!r}: the load before was cut off between two tables, and the "
            "tap's STATE tells no bookmarks by streams: rows may have come again.",
        )
        return replace(
            batch,
            bookmark=bookmark,
            before_commit=partial(self.memory.mark, batch.stream),
            warnings=(*batch.warnings, *(again if batch.stream in self.memory.disagree else ())),
        )
