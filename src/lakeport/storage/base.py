"""Base of the clouds' storages: objects below one prefix, listed, read in ranges, and put."""

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
from lakeport.host.packages import EXTRA_PACKAGES
from lakeport.model import FolderEntries, Staged, StageWriter, Storage, StoredObject
from lakeport.storage.checks import honours_create_only
from lakeport.storage.retry import (
    CloudSettings,
    Connection,
    NotFound,
    replaced_error,
    retry_not_found,
)

MAX_KEY_BYTES = 1024
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_RULE = (
    "parts between slashes must not be empty, `.` or `..` (percent-encoded neither), must not "
    "hold backslashes or control characters, and must be Unicode text"
)

_MIN_READ_AHEAD = 256 << 10
_MAX_READ_AHEAD = 8 << 20

_SDK_MODULES = (
    *(name for names in EXTRA_PACKAGES.values() for name in names),
    *(f"lakeport.storage.{extra}.store" for extra in EXTRA_PACKAGES),
    "google.auth.transport.requests",
    "google.oauth2.service_account",
)

_READ_BUFFER = 64 << 10
_MAX_FOLDER_PAGES = 10


def clean_prefix(text: str, config_key: str = "object_key_path") -> str:
    """Remove outer and double slashes from a prefix; raise ConfigError for parts such as `..`.

    >>> clean_prefix("/raw//events/")
    'raw/events'
    """
    parts = [part for part in text.split("/") if part]
    for part in parts:
        if _is_unsafe(unquote(part)):
            raise ConfigError(f"`{config_key}` has the part {part!r}", f"{_RULE}.")
    return "/".join(parts)


def join_key(prefix: str, key: str) -> str:
    """Join a clean prefix and a key (may be empty); raise DestinationError if unsafe or too long.

    Raises DestinationError for an unsafe key, and for a full key of more than 1,024 bytes.

    >>> join_key("raw", "events/20240101-000000.parquet")
    'raw/events/20240101-000000.parquet'
    """
    if key and any(not part or _is_unsafe(part) for part in key.split("/")):
        raise DestinationError(f"{key!r} is not a safe object name", f"{_RULE}.")
    full = "/".join(part for part in (prefix, key) if part)
    size = len(full.encode())
    if size > MAX_KEY_BYTES:
        raise DestinationError(
            f"the object name {full[:60]!r}… has {size} bytes, more than {MAX_KEY_BYTES}",
            "shorten `object_key_path`, the table's name or `date_partition_format`.",
        )
    return full


def relative_key(prefix: str, full_key: str) -> str:
    """Return `full_key` relative to the clean prefix, with which it must begin.

    >>> relative_key("raw", "raw/a/b")
    'a/b'
    """
    return full_key[len(prefix) + 1 :] if prefix else full_key


def _is_unsafe(part: str) -> bool:
    """Whether a part of a key climbs out of the prefix, or holds a forbidden character."""
    return part in {".", ".."} or _FORBIDDEN.search(part) is not None


@contextmanager
def create_object(storage: Storage, key: str) -> Iterator[BinaryIO]:
    """Yield a file to write a new object: published after the `with` body, discarded on an error.

    Raises ObjectExists after the body if the name is taken.
    """
    writer = storage.stage(key, "application/octet-stream")
    try:
        yield cast(BinaryIO, _StageFile(writer))
        done = writer.finish()
    except BaseException:
        writer.abort()
        raise
    staged = Staged(key, done["token"], 0, int(done["bytes"]))
    storage.publish(staged, key)
    storage.discard(staged)


class _StageFile(io.RawIOBase):
    """Writable binary file whose bytes go to a stage writer."""

    def __init__(self, writer: StageWriter) -> None:
        self._writer = writer

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, data: Any, /) -> int:
        """Append bytes; return their number."""
        return self._writer.write(data)


class RangedReader(io.RawIOBase):
    """Seekable, read-only file of one stored object, read ahead by ranged requests.

    Each request reads ahead: 256 KiB at first, twice as much for each read in sequence up to 8 MiB,
    and 256 KiB again after a seek. Small random reads stay cheap, a scan needs few requests.
    `fetch(start, end)` returns the bytes of that half-open range.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, uri: str) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._at = 0
        self._buffer = memoryview(b"")
        self._start = 0
        self._ahead = _MIN_READ_AHEAD
        self.name = uri

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position and return it, without a request; ValueError before the start."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is before the start of {self.name}")
        self._at = base + offset
        return self._at

    def readinto(self, target: Any, /) -> int:
        """Read bytes into a buffer until it is full or the object ends; return their number."""
        view = memoryview(target).cast("B")
        wanted = max(0, min(len(view), self._size - self._at))
        filled = 0
        while filled < wanted:
            chunk = self._read_buffered(wanted - filled)
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
            self._at += len(chunk)
        return filled

    def _read_buffered(self, max_bytes: int) -> memoryview:
        """Return 1 to `max_bytes` bytes at the position without moving it; fetch if none are there.

        Raises OSError if the object is shorter than its size said.
        """
        end = self._start + len(self._buffer)
        if not self._start <= self._at < end:
            self._ahead = (
                min(_MAX_READ_AHEAD, self._ahead * 2) if self._at == end else _MIN_READ_AHEAD
            )
            last = min(self._size, self._at + max(max_bytes, self._ahead))
            data = self._fetch(self._at, last)
            if not data:
                raise OSError(f"{self.name} ended at byte {self._at} of {self._size}")
            self._buffer, self._start = memoryview(data), self._at
        offset = self._at - self._start
        return self._buffer[offset : offset + max_bytes]


_honours_conditions: dict[tuple[str, str], bool] = {}
"""Endpoint and URI -> whether the store honours create-only conditions, once probed."""


class ListingPage(NamedTuple):
    """One page of a listing: objects, token of the next page (empty if last), and folders."""

    objects: Sequence[StoredObject]
    next_token: str
    folders: Sequence[str] = ()


class CloudStorage(Storage, ABC):
    """Base class of S3, Google and Azure storages: reads, puts, lists and deletes objects.

    Each cloud's class adds these, its URIs, and the requests `_put`, `_has_mark`, `_read`,
    `_size_and_version`, `_list_page` and `_delete`.
    """

    __slots__ = ()

    prefix: str
    settings: CloudSettings

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """This process's connection to the store."""

    @property
    def listing_page_size(self) -> int:
        """Objects on a page of a listing by S3 and Google; Azure's has 5,000."""
        return 1000

    def needs_unique_names(self) -> bool:
        """Whether new objects need unique names, as the store ignores create-only conditions.

        Another endpoint is probed by writes, once in a process.
        """
        if self.settings.is_native:
            return False
        if self._probed_place not in _honours_conditions:
            _honours_conditions[self._probed_place] = honours_create_only(self)
        return not _honours_conditions[self._probed_place]

    def sends_conditions(self) -> bool:
        """Whether to send conditions: always, unless a probe showed that the store ignores them."""
        return _honours_conditions.get(self._probed_place, True)

    @property
    def _probed_place(self) -> tuple[str, str]:
        """Key of this storage in `_honours_conditions`."""
        return self.settings.endpoint, self.uri()

    def is_published(self, staged: Staged, key: str) -> bool:
        """Whether the visible object `key` has the staged one's mark; False if there is none."""
        return bool(self._find_mark(key, str(staged.token["id"]), exists=False))

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object; with `create_only` raise ObjectExists if the name is taken.

        If the name is taken, the object's mark shows whether this write made it and its answer was
        lost. Without permission to read, the object counts as somebody else's.
        """
        mark = uuid.uuid4().hex
        try:
            self._put(key, data, mark, "" if create_only else None)
        except ObjectExists:
            if not self._is_ours(key, mark):
                raise

    def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Replace an object's content by `change(content)`; raise if it changed in the meantime."""
        mark = uuid.uuid4().hex
        size, version = self._size_and_version(key)
        data = change(self._read(key, 0, size, version))
        try:
            self._put(key, data, mark, version)
        except DestinationError:
            if not self._is_ours(key, mark):
                raise

    def get(self, key: str) -> bytes | None:
        """Return the content of a small object, or None if it does not exist."""
        try:
            return self._read(key)
        except NotFound:
            return None

    def open(self, key: str) -> BinaryIO:
        """Open an object as a seekable file; reads raise DestinationError once it is replaced."""
        size, version = self._size_and_version(key)

        def fetch(start: int, end: int) -> bytes:
            try:
                return self._read(key, start, end, version)
            except NotFound:
                raise replaced_error(self.uri(key)) from None

        reader = RangedReader(fetch, size, self.uri(key))
        return cast(BinaryIO, io.BufferedReader(reader, _READ_BUFFER))

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Yield the objects at and below the key `prefix`, sorted; only keys greater than `after`.

        If the store can't begin at a key, objects before it are listed, too, and left out here.
        """
        if prefix > after:
            first = self._page(prefix, limit=1)
            yield from (found for found in first.objects if found.key == prefix)
        for page in self._pages(prefix, after=after):
            yield from (found for found in page.objects if found.key > after)

    def list_folder(self, prefix: str) -> FolderEntries:
        """List the direct subfolders and objects of a folder, from its first ten listing pages."""
        pages = list(islice(self._pages(prefix, one_level=True), _MAX_FOLDER_PAGES))
        folders = {name for page in pages for name in page.folders}
        objects = tuple(found for page in pages for found in page.objects)
        return FolderEntries(tuple(sorted(folders)), objects)

    def _pages(
        self, prefix: str, *, one_level: bool = False, after: str = ""
    ) -> Iterator[ListingPage]:
        """Yield a folder's listing pages; `one_level` lists subfolders without their content.

        Keys up to `after` may be left out.
        """
        token = ""
        while True:
            page = self._page(prefix, below=True, one_level=one_level, token=token, after=after)
            yield page
            if not (token := page.next_token):
                return

    def delete(self, key: str) -> None:
        """Delete an object; do nothing if it does not exist."""
        try:
            self._delete(key)
        except NotFound:
            return

    def shorten_deadline(self) -> None:
        """Give the next requests together five seconds, in place of a deadline each."""
        self.connection.retrier.shorten_deadline()

    def count_retries(self) -> int:
        """Return how many requests to the store this process has repeated."""
        return self.connection.retrier.retries

    @abstractmethod
    def _put(self, key: str, data: bytes, mark: str, expected_version: str | None) -> None:
        """Write an object if its version is as expected ("": no object, None: any), or raise.

        The mark, in the object's metadata, tells this write from others.
        """

    @abstractmethod
    def _has_mark(self, key: str, mark: str) -> bool:
        """Whether an object's metadata hold this mark; raise NotFound if there is no object."""

    @abstractmethod
    def _read(self, key: str, start: int = 0, end: int = -1, version: str = "") -> bytes:
        """Return the content, or with `version` the bytes `start` to `end`, exclusive; or NotFound.

        A range needs `version`; NotFound is also raised if the object has another one.
        """

    @abstractmethod
    def _size_and_version(self, key: str) -> tuple[int, str]:
        """Return an object's size in bytes, and its version as `_read` takes it."""

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
        """List one page of objects whose keys begin with `prefix`, or with `prefix/` if `below`.

        Objects that only mark a folder are left out. A limit of 0 is a full page. Keys up to
        `after` may be left out.
        """
        full = join_key(self.prefix, prefix)
        start = f"{full}/" if below and full else full
        after = join_key(self.prefix, after) if after else ""
        rows, next_token, prefixes = self._list_page(start, one_level, token, limit, after)
        return ListingPage(
            [
                replace(row, key=relative_key(self.prefix, row.key))
                for row in rows
                if row.key[-1] != "/"
            ],
            next_token,
            [name for each in prefixes if (name := each[len(start) :].rstrip("/"))],
        )

    @abstractmethod
    def _list_page(
        self, start: str, one_level: bool, token: str, limit: int, after: str
    ) -> ListingPage:
        """Request a page of keys that begin with `start`; return full keys and folder prefixes."""

    @abstractmethod
    def _delete(self, key: str) -> None:
        """Remove an object; NotFound may be raised if there is none."""

    def _is_ours(self, key: str, mark: str) -> bool:
        """Whether an object has this writer's mark in its metadata; False if it can't be read."""
        try:
            return bool(self._find_mark(key, mark, exists=True))
        except PermissionRefused:
            return False

    def _find_mark(self, key: str, mark: str, *, exists: bool) -> bool | None:
        """Return whether an object has the mark in its metadata; None if there is no object.

        With `exists` the store has just reported the object: a 404 is stale then, and is retried
        for 1.6 s. Raises PermissionRefused if reading is not allowed.
        """
        try:
            if exists:
                return retry_not_found(lambda: self._has_mark(key, mark))
            return self._has_mark(key, mark)
        except NotFound:
            return None


def preload_sdks() -> None:
    """Import the installed SDKs of stores and databases, so that forked processes have them.

    Each process would need 0.25 s for AWS's alone. Never raises; no request is sent.
    """
    for name in _SDK_MODULES:
        with suppress(ImportError):
            import_module(name)
    with suppress(Exception):
        import_module("lakeport.storage.s3.client").load_models()
