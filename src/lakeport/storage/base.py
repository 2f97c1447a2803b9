"""The base of all storages: keys below one prefix, listed, read by ranges, and put."""

from __future__ import annotations

import io
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from lakeport.errors import ConfigError, DestinationError, ObjectExists, PermissionRefused
from lakeport.host.packages import PACKAGES
from lakeport.model import Level, Staged, StageWriter, Storage, StoredObject
from lakeport.storage.checks import honours_create_only
from lakeport.storage.retry import CloudSettings, Connection, NotFound, found, replaced

MAX_KEY_BYTES = 1024
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_RULE = (
    "parts between slashes must not be empty, `.` or `..` (percent-encoded neither), must not "
    "hold backslashes or control characters, and must be Unicode text"
)

_LEAST = 256 << 10
_MOST = 8 << 20

_SDK_MODULES = (
    *(name for names in PACKAGES.values() for name in names),
    *(f"lakeport.storage.{extra}.store" for extra in PACKAGES),
    "google.auth.transport.requests",
    "google.oauth2.service_account",
)

_READ_BUFFER = 64 << 10
_LEVEL_PAGES = 10


def clean_prefix(text: str, name: str = "object_key_path") -> str:
    """A prefix as users write it -> without slashes at its ends and without empty parts.

    Raises:
        ConfigError: a part climbs out of the prefix or holds control characters.

    >>> clean_prefix("/raw//events/")
    'raw/events'
    """
    parts = [part for part in text.split("/") if part]
    for part in parts:
        if _bad(unquote(part)):
            raise ConfigError(f"`{name}` has the part {part!r}", f"{_RULE}.")
    return "/".join(parts)


def join_key(prefix: str, key: str) -> str:
    """The full key of `key` below a clean prefix; an empty `key` is the prefix itself.

    Raises:
        DestinationError: the key is not a plain relative one, or longer than 1,024 bytes.

    >>> join_key("raw", "events/20240101-000000.parquet")
    'raw/events/20240101-000000.parquet'
    """
    if key and any(not part or _bad(part) for part in key.split("/")):
        raise DestinationError(f"{key!r} is not a safe object name", f"{_RULE}.")
    full = "/".join(part for part in (prefix, key) if part)
    size = len(full.encode())
    if size > MAX_KEY_BYTES:
        raise DestinationError(
            f"the object name {full[:60]!r}… has {size} bytes, more than {MAX_KEY_BYTES}",
            "shorten `object_key_path`, the table's name or `date_partition_format`.",
        )
    return full


def under(prefix: str, full: str) -> str:
    """The key of a full key relative to a clean prefix.

    >>> under("raw", "raw/a/b")
    'a/b'
    """
    return full[len(prefix) + 1 :] if prefix else full


def _bad(part: str) -> bool:
    return part in {".", ".."} or _FORBIDDEN.search(part) is not None


@contextmanager
def created(storage: Storage, key: str) -> Iterator[BinaryIO]:
    """Write a new object, which is there whole once the body has ended, and not at all otherwise.

    Raises:
        ObjectExists: something has that name.
        DestinationError: the store refuses.
    """
    writer = storage.stage(key, "application/octet-stream")
    try:
        yield cast(BinaryIO, _Written(writer))
        done = writer.finish()
    except BaseException:
        writer.abort()
        raise
    staged = Staged(key, done["token"], 0, int(done["bytes"]))
    storage.publish(staged, key)
    storage.discard(staged)


class _Written(io.RawIOBase):
    """A stage writer as a file."""

    def __init__(self, writer: StageWriter) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._writer.write(data)


class RangedReader(io.RawIOBase):
    """One object, read in ranges.

    The read-ahead starts at 256 KiB, doubles up to 8 MiB while reads follow each other, and starts
    anew after a jump: small random reads stay cheap, a scan needs few requests.

    Args:
        fetch: `fetch(start, end)` returns the bytes of that half-open range.
        size: the object's size in bytes.
        name: the object's URI.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, name: str) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._at = 0
        self._buffer = memoryview(b"")
        self._start = 0
        self._ahead = _LEAST
        self.name = name

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position; nothing is fetched."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is before the start of {self.name}")
        self._at = base + offset
        return self._at

    def readinto(self, target: Any, /) -> int:
        """Fill a buffer as far as the object goes; fewer bytes only at its end."""
        view = memoryview(target).cast("B")
        wanted = max(0, min(len(view), self._size - self._at))
        filled = 0
        while filled < wanted:
            chunk = self._available(wanted - filled)
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
            self._at += len(chunk)
        return filled

    def _available(self, wanted: int) -> memoryview:
        end = self._start + len(self._buffer)
        if not self._start <= self._at < end:
            self._ahead = min(_MOST, self._ahead * 2) if self._at == end else _LEAST
            last = min(self._size, self._at + max(wanted, self._ahead))
            data = self._fetch(self._at, last)
            if not data:
                raise OSError(f"{self.name} ended at byte {self._at} of {self._size}")
            self._buffer, self._start = memoryview(data), self._at
        offset = self._at - self._start
        return self._buffer[offset : offset + wanted]


_honoured: dict[tuple[str, str], bool] = {}
"""Endpoint and folder -> whether the store honours create-only conditions, once probed."""


class ListingPage(NamedTuple):
    """One page of a listing, with full keys as `CloudStorage._rows` gets it.

    Attributes:
        objects: without what only stands for a folder.
        following: token of the next page; empty if there is none.
        folders: names of the folders, where one level was asked for.
    """

    objects: Sequence[StoredObject]
    following: str
    folders: Sequence[str] = ()


class CloudStorage(Storage, ABC):
    """The base of the clouds' storages: all of `model.Storage` but staging.

    Each cloud's class names its place, stages and publishes, and sends the requests below:
    `_put`, `_has_mark`, `_read`, `_size_and_version`, `_rows` and `_delete`.
    """

    __slots__ = ()

    prefix: str
    settings: CloudSettings

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """This process's client."""

    @property
    def listed_at_once(self) -> int:
        """A page of S3 and of Google; Azure's has 5,000."""
        return 1000

    def needs_unique_names(self) -> bool:
        """Whether the store ignores create-only conditions, so that names must not clash at all.

        The clouds honour them; any other endpoint is probed once per process.

        Raises:
            DestinationError: the probe can't be written.
        """
        if self.settings.is_native:
            return False
        if self._place not in _honoured:
            _honoured[self._place] = honours_create_only(self)
        return not _honoured[self._place]

    def sends_conditions(self) -> bool:
        """Whether to send the condition: always, unless a probe showed that it is of no use."""
        return _honoured.get(self._place, True)

    @property
    def _place(self) -> tuple[str, str]:
        return self.settings.endpoint, self.uri()

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible object carries the mark of what was staged."""
        return bool(self._carries(key, str(staged.token["id"]), said=False))

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object.

        A lost or untrue answer is made up for where reading is allowed; where it is not, the
        object counts as somebody else's.
        """
        mark = uuid.uuid4().hex
        try:
            self._put(key, data, mark, "" if create_only else None)
        except ObjectExists:
            if not self._readably_marked(key, mark):
                raise

    def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Write an object anew, unless it is another one meanwhile; see `model.Storage`."""
        mark = uuid.uuid4().hex
        size, version = self._size_and_version(key)
        data = change(self._read(key, 0, size, version))
        try:
            self._put(key, data, mark, version)
        except DestinationError:
            if not self._readably_marked(key, mark):
                raise

    def get(self, key: str) -> bytes | None:
        """Read one small object whole."""
        try:
            return self._read(key)
        except NotFound:
            return None

    def open(self, key: str) -> BinaryIO:
        """Open an object; it is an error if it is replaced while it is read."""
        size, version = self._size_and_version(key)

        def fetch(start: int, end: int) -> bytes:
            try:
                return self._read(key, start, end, version)
            except NotFound:
                raise replaced(self.uri(key)) from None

        reader = RangedReader(fetch, size, self.uri(key))
        return cast(BinaryIO, io.BufferedReader(reader, _READ_BUFFER))

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects named `prefix` or below it and behind `after`, in the order of their keys' bytes.

        Where the store can't begin at a key, the others are listed, too, and left out here.
        """
        if prefix > after:
            first = self._page(prefix, limit=1)
            yield from (found for found in first.objects if found.key == prefix)
        for page in self._pages(prefix, after=after):
            yield from (found for found in page.objects if found.key > after)

    def level(self, prefix: str) -> Level:
        """What lies right in the folder `prefix`, as far as ten pages tell."""
        pages = list(islice(self._pages(prefix, one_level=True), _LEVEL_PAGES))
        folders = {name for page in pages for name in page.folders}
        objects = tuple(found for page in pages for found in page.objects)
        return Level(tuple(sorted(folders)), objects)

    def _pages(
        self, prefix: str, *, one_level: bool = False, after: str = ""
    ) -> Iterator[ListingPage]:
        """The pages of what lies below a folder."""
        token = ""
        while True:
            page = self._page(prefix, below=True, one_level=one_level, token=token, after=after)
            yield page
            if not (token := page.following):
                return

    def delete(self, key: str) -> None:
        """Remove an object."""
        try:
            self._delete(key)
        except NotFound:
            return

    def shorten_deadline(self) -> None:
        """Give the requests that come next a few seconds together."""
        self.connection.retrier.shorten_deadline()

    @abstractmethod
    def _put(self, key: str, data: bytes, mark: str, over: str | None) -> None:
        """Write an object that carries a mark.

        Args:
            key: its name.
            data: its content.
            mark: tells it from what others write.
            over: the version that it replaces; empty: nothing has the name; None: no matter what.
        """

    @abstractmethod
    def _has_mark(self, key: str, mark: str) -> bool:
        """Whether the visible object carries that mark.

        Raises:
            NotFound: there is none.
            PermissionRefused: reading is not allowed.
        """

    @abstractmethod
    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        """Read an object whole, or bytes of that version.

        Raises:
            NotFound: there is none.
        """

    @abstractmethod
    def _size_and_version(self, key: str) -> tuple[int, str]:
        """An object's size, and what `_read` knows this version of it by."""

    def _page(
        self,
        prefix: str,
        *,
        below: bool = False,
        one_level: bool = False,
        token: str = "",
        limit: int = 0,
        after: str = "",
    ) -> ListingPage:
        """One page of the keys that begin with `prefix`, or lie `below` that folder.

        Args:
            prefix: how keys begin.
            below: leave out other keys that begin alike.
            one_level: list folders in that folder instead of what is in them.
            token: what the page before returned; empty for the first one.
            limit: how many objects, where not as many as there may be.
            after: keys up to this one may be left out.
        """
        full = join_key(self.prefix, prefix)
        start = f"{full}/" if below and full else full
        behind = join_key(self.prefix, after) if after else ""
        rows, following, prefixes = self._rows(start, one_level, token, limit, behind)
        return ListingPage(
            [replace(row, key=under(self.prefix, row.key)) for row in rows if row.key[-1] != "/"],
            following,
            [name for each in prefixes if (name := each[len(start) :].rstrip("/"))],
        )

    @abstractmethod
    def _rows(self, start: str, one_level: bool, token: str, limit: int, after: str) -> ListingPage:
        """One page of what begins with `start`, with full keys; folders as keys begin in them."""

    @abstractmethod
    def _delete(self, key: str) -> None:
        """Remove an object.

        Raises:
            NotFound: there is none.
        """

    def _readably_marked(self, key: str, mark: str) -> bool:
        try:
            return bool(self._carries(key, mark, said=True))
        except PermissionRefused:
            return False

    def _carries(self, key: str, mark: str, *, said: bool) -> bool | None:
        """As `_has_mark`; None where there is no object, which the store may have `said` to exist.

        Then it is looked for again.
        """
        try:
            return found(lambda: self._has_mark(key, mark)) if said else self._has_mark(key, mark)
        except NotFound:
            return None


def preload_sdks() -> None:
    """Import the installed SDKs of stores and databases, for the processes forked from this one.

    No request is sent, and no credentials are looked for. A process that serves one task or one run
    would load them each time: 0.25 s for AWS's.
    """
    for name in _SDK_MODULES:
        with suppress(ImportError):
            import_module(name)
    with suppress(Exception):
        import_module("lakeport.storage.s3.client").read_models()
