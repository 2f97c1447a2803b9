"""Run a Singer tap, and keep its STATE in the bookmarks of the tables that it is landed in.

A flush of several streams is one commit per table. The tap's bookmark in each commit names the
flush's streams, the STATE behind the flush and the STATE before it. If a load ends between two of
these commits, some tables lack the newest flush. Then the STATE before the flush holds, with the
newer bookmarks of the streams that were committed. Source: Singer's specification, and the
bookmarks of its SDKs.

Markers in the lake, `_lakeport/taps/<tap>/<stream>`, list the tables whose bookmarks to read.
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
from lakeport.model import Batch, Bookmark, Flush, SavedBookmark
from lakeport.scrub import scrub
from lakeport.sources.singer.state import merge_state, parse_bookmarks

if TYPE_CHECKING:
    from lakeport.config.sources import TapSource
    from lakeport.model import BookmarkStore, Storage


_log = logging.getLogger(__name__)
_LAST_LINES: Final = 10
_LONGEST: Final = 500
_LEAVE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5

_MARKERS: Final = "_lakeport/taps"


class TapProcess(io.RawIOBase):
    """Raw stream of a Singer tap's standard output; creating it starts the tap.

    At the end of the output, reading waits for the process and raises if it failed: rows since the
    last flush are not landed then.

    Args:
        state: the STATE to pass to the tap; empty for none.
        folder: a private folder, for the file with the STATE.
        check: called twice a second while the tap writes nothing; raises to end the load.

    Raises:
        ConfigError: the program or its folder does not exist.
    """

    def __init__(
        self, source: TapSource, state: bytes, folder: Path, check: Callable[[], None]
    ) -> None:
        super().__init__()
        self._source = source
        self._check_load = check
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        command = list(source.tap)
        if state:
            path = folder / "state.json"
            path.write_bytes(state)
            command += ["--state", str(path)]
        self._process = _start_process(source, command)
        atexit.register(self._kill)  # in case the thread that closes it is ended first
        # For the type checker: both are pipes.
        assert self._process.stdout is not None and self._process.stderr is not None
        self._pipes = self._process.stdout, self._process.stderr
        self._output_descriptor = self._pipes[0].fileno()
        self._poller = select.poll()
        self._poller.register(self._output_descriptor, select.POLLIN)
        self._listener = threading.Thread(target=self._listen, name="lakeport-tap", daemon=True)
        self._listener.start()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for output, read it into `buffer`; 0 at its end, SourceError if the tap failed."""
        while not self._poller.poll(_LOOK_SECONDS * 1000):
            self._check_load()
        count = os.readv(self._output_descriptor, [buffer])
        if count == 0:
            self._check_end()
        return count

    def close(self) -> None:
        """End the tap and its child processes: by SIGTERM, and after five seconds by SIGKILL."""
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
        self._listener.join(_LEAVE_SECONDS)
        for pipe in self._pipes:
            pipe.close()
        super().close()

    def _check_end(self) -> None:
        """Wait for the process; raise SourceError with its last log lines if it failed."""
        code = self._process.wait()
        self._listener.join(_LEAVE_SECONDS)
        if code == 0:
            return
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        last = "".join(f"\n  {line}" for line in self._last_lines)
        said = f"; its last lines:{last}" if last else ", without a word"
        raise SourceError(
            f"the tap {self._source.program!r} failed with {how}{said}",
            "what it sent before its last STATE has landed, if that was a flush; mend what it "
            "says, and run the load again: it goes on from there.",
        )

    def _listen(self) -> None:
        """Log each line of the tap's standard error with secrets removed; keep the last ten."""
        secrets = self._source.secrets()
        for line in _read_log_lines(self._pipes[1]):
            text = scrub(line, secrets)
            self._last_lines.append(text)
            _log.info("%s: %s", self._source.program, text)

    def _kill(self) -> None:
        """Kill the tap and its child processes, if the tap still runs."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Send a signal to the tap's process group, if there still is one."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _start_process(source: TapSource, command: list[str]) -> subprocess.Popen[bytes]:
    """Start a tap in its own process group; raise ConfigError if program or folder is missing."""
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


def _read_log_lines(pipe: IO[bytes]) -> Iterable[str]:
    """Yield a tap's log lines as printable text; skip empty ones, split those over 500 bytes."""
    while line := pipe.readline(_LONGEST):
        text = line.decode(errors="replace").rstrip()
        if text:
            yield "".join(char if char.isprintable() else " " for char in text)


@dataclass
class TapBookmarks:
    """The bookmarks in the tables of one Singer tap, and the tap's STATE composed of them.

    Attributes:
        state: the STATE behind all rows that were landed or are being landed; empty for none.
        repeated_streams: streams whose rows may come again: the STATE has no bookmarks by stream.
    """

    name: str
    storage: Storage
    memory: Callable[[str], BookmarkStore]
    state: bytes = b""
    repeated_streams: tuple[str, ...] = ()
    _flush_order: int = 0
    _bookmark_numbers: dict[str, int] = field(default_factory=dict)
    _marked_streams: set[str] = field(default_factory=set)
    _tables: dict[str, BookmarkStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        markers = (item.key.rpartition("/")[2] for item in self.storage.list(self._folder))
        self._marked_streams.update(map(unquote, markers))
        found = {stream: self._read_bookmark(stream) for stream in self._marked_streams}
        values = {stream: one.value for stream, one in found.items() if one.value}
        self._flush_order = max((int(value["order"]) for value in values.values()), default=0)
        self.state, self.repeated_streams = compose_state(values)

    def next_bookmarks(self, streams: Sequence[str], state: bytes) -> dict[str, Bookmark]:
        """Return each stream's bookmark for a flush's commits; `state` becomes the current STATE.

        Args:
            streams: the streams that have rows in the flush.
            state: the STATE behind the flush, merged into those before.
        """
        self._flush_order = max(self._flush_order + 1, time.time_ns() // 1000)
        value = {
            "order": self._flush_order,
            "streams": list(streams),
            "state": _decode_state(state),
            "before": _decode_state(self.state),
        }
        self.state = state
        return {stream: self._next_bookmark(stream, value) for stream in streams}

    @property
    def streams(self) -> list[str]:
        """The streams that the tap has landed so far, sorted."""
        return sorted(self._marked_streams)

    def has_bookmark(self, stream: str) -> bool:
        """Whether the STATE has a bookmark of a stream; True if it is not divided by stream."""
        bookmarks = parse_bookmarks(self.state)
        if bookmarks is None:
            return True
        return bytes(bookmarks.get(stream, msgspec.Raw(b"{}"))) not in (b"{}", b"null")

    def write_marker(self, stream: str) -> None:
        """Write an object that lists a stream as the tap's, if missing; call it before a commit."""
        if stream in self._marked_streams:
            return
        self._marked_streams.add(stream)
        with suppress(ObjectExists):
            self.storage.put(f"{self._folder}/{quote(stream, safe='')}", b"{}", create_only=True)

    def _next_bookmark(self, stream: str, value: Mapping[str, Any]) -> Bookmark:
        """Return the bookmark for a stream's next commit, with the next number."""
        if stream not in self._bookmark_numbers and self._read_bookmark(stream).value:
            # Another load has written a bookmark since this one began.
            self._bookmark_numbers[stream] = SavedBookmark().number
        after = self._bookmark_numbers[stream]
        number = self._bookmark_numbers[stream] = self._open_memory(stream).next_number(after)
        return Bookmark(f"tap {self.name}", value, after, number)

    def _read_bookmark(self, stream: str) -> SavedBookmark:
        """Read the tap's bookmark from a stream's table; remember its number."""
        found = self._open_memory(stream).bookmark(f"tap {self.name}")
        self._bookmark_numbers[stream] = found.number
        return found

    def _open_memory(self, stream: str) -> BookmarkStore:
        """Return the bookmarks of a stream's table; opened once, as that takes requests."""
        if stream not in self._tables:
            self._tables[stream] = self.memory(stream)
        return self._tables[stream]

    @property
    def _folder(self) -> str:
        """The folder of the tap's markers in the store."""
        return f"{_MARKERS}/{quote(self.name, safe='')}"


def compose_state(values: Mapping[str, Mapping[str, Any]]) -> tuple[bytes, tuple[str, ...]]:
    """Return the STATE to resume a tap from, empty for none, and streams whose rows may repeat.

    Args:
        values: stream -> the value of its table's bookmark.

    >>> flush = {"order": 2, "streams": ["a", "b"], "before": '{"bookmarks":{"a":1,"b":1}}',
    ...     "state": '{"bookmarks":{"a":2,"b":2}}'}
    >>> compose_state({"a": flush, "b": {**flush, "order": 1}})
    (b'{"bookmarks":{"a":2,"b":1}}', ())
    """
    if not values:
        return b"", ()
    newest = max(values.values(), key=lambda value: int(value["order"]))
    landed = [name for name, value in values.items() if value["order"] == newest["order"]]
    if {*newest["streams"]} <= {*landed}:
        return newest["state"].encode(), ()
    before = newest["before"].encode()
    behind, since = parse_bookmarks(before), parse_bookmarks(newest["state"].encode())
    if behind is None or since is None:
        return before, tuple(landed)
    whole = msgspec.json.decode(before or b"{}", type=dict[str, msgspec.Raw])
    ours = {name: since[name] for name in landed if name in since}
    whole["bookmarks"] = msgspec.Raw(msgspec.json.encode({**behind, **ours}))
    return msgspec.json.encode(whole), ()


def _decode_state(state: bytes) -> str:
    """Return a STATE as text for the bookmark's JSON."""
    return state.decode(errors="surrogateescape")


@dataclass(frozen=True)
class TapFlushes:
    """Iterable of a tap's flushes; each batch gets the bookmark that its commit stores.

    Attributes:
        flushes: those of a `SingerSource` that cuts only behind STATEs.
    """

    flushes: Iterable[Flush]
    bookmarks: TapBookmarks

    def __iter__(self) -> Iterator[Flush]:
        """Yield each flush with bookmarks; list the streams without new rows as `quiet`."""
        seen = False
        for flush in self.flushes:
            seen = seen or bool(flush.batches)
            streams = list(dict.fromkeys(b.stream for b in flush.batches if not b.schema_only))
            state = reduce(merge_state, flush.states, self.bookmarks.state)
            bookmarks = self.bookmarks.next_bookmarks(streams, state)
            batches = tuple(
                batch if batch.schema_only else self._with_bookmark(batch, bookmarks[batch.stream])
                for batch in flush.batches
            )
            without = [batch.stream for batch in batches if batch.schema_only]
            if flush.last and not seen:
                without += self.bookmarks.streams
            quiet = tuple(stream for stream in without if self.bookmarks.has_bookmark(stream))
            yield replace(flush, batches=batches, quiet=quiet)

    def _with_bookmark(self, batch: Batch, bookmark: Bookmark) -> Batch:
        """Return a batch with its bookmark, and a warning if its rows may repeat loaded ones."""
        warnings = batch.warnings
        if batch.stream in self.bookmarks.repeated_streams:
            warnings += (
                f"stream {batch.stream!r}: the load before was cut off between two tables, and "
                "the tap's STATE tells no bookmarks by streams: rows may have come again.",
            )
        return replace(
            batch,
            bookmark=bookmark,
            before_commit=partial(self.bookmarks.write_marker, batch.stream),
            warnings=warnings,
        )
