"""What the stores of all clouds have in common: a folder whose objects are read, listed and put."""

from __future__ import annotations

import io
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self, cast

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused
from lakeport.model import Level, Staged, StageWriter, StoredObject
from lakeport.storage.connection import CloudSettings, Connection
from lakeport.storage.failures import NotFound, found, replaced
from lakeport.storage.keys import join_key
from lakeport.storage.probe import honours_create_only
from lakeport.storage.ranged import RangedReader

if TYPE_CHECKING:
    from lakeport.storage.checks import CheckItem

_READ_BUFFER = 64 << 10
_LEVEL_PAGES = 10
_honoured: dict[tuple[str, str], bool] = {}
"""Endpoint and folder -> whether the store honours create-only conditions, once probed."""


class Page(NamedTuple):
    """One page of a listing.

    Attributes:
        objects: without what only stands for a folder.
        following: token of the next page; empty if there is none.
        folders: names of the folders, where one level was asked for.
    """

    objects: Sequence[StoredObject]
    following: str
    folders: Sequence[str] = ()


class CloudStorage(ABC):
    """The base of the clouds' storages. Implements `model.Storage` but for staging.

    Each cloud's class names its place, stages and publishes, and sends the requests below:
    `_put`, `_has_mark`, `_read`, `_size_and_version`, `_page` and `_delete`.
    """

    __slots__ = ()

    settings: CloudSettings

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """This process's client."""

    @property
    @abstractmethod
    def always_conditional(self) -> bool:
        """Whether the store is known to honour create-only conditions, without a probe."""

    @abstractmethod
    def uri(self, key: str = "") -> str:
        """How users name that object."""

    def hadoop_uri(self, key: str = "") -> str:
        """The same as `uri`."""
        return self.uri(key)

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """None: Spark has no connector for this store."""
        return {}

    @property
    def can_rename_staged(self) -> bool:
        """Never: an upload knows its name from the start."""
        return False

    @property
    def listed_at_once(self) -> int:
        """A page of S3 and of Google; Azure's has 5,000."""
        return 1000

    @abstractmethod
    def stage(self, key: str, content_type: str) -> StageWriter:
        """Begin one object."""

    @abstractmethod
    def publish(self, staged: Staged, key: str) -> None:
        """Make a staged object visible, only if nothing has its name."""

    @abstractmethod
    def discard(self, staged: Staged) -> None:
        """Drop a staged object. Never raises."""

    @abstractmethod
    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs, one item each."""

    def needs_unique_names(self) -> bool:
        """Whether the store ignores create-only conditions, so that names must not clash at all.

        The clouds honour them; any other endpoint is probed once per process.

        Raises:
            DestinationError: the probe can't be written.
        """
        if self.always_conditional:
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

    def marked(self, mark: str) -> Self:
        """The same: nothing here needs a mark."""
        return self

    def drop_strays(self, staged: Sequence[Staged]) -> None:  # noqa: B027  # not abstract
        """Nothing: what was not published is invisible, and expires by itself."""

    def sweep(self) -> int:
        """Nothing: what was not published expires by itself, or by a lifecycle rule."""
        return 0

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible object carries the mark of what was staged."""
        try:
            return self._has_mark(key, str(staged.token["id"]))
        except NotFound:
            return False

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

    def _pages(self, prefix: str, *, one_level: bool = False, after: str = "") -> Iterator[Page]:
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

    @abstractmethod
    def _page(
        self,
        prefix: str,
        *,
        below: bool = False,
        one_level: bool = False,
        token: str = "",
        limit: int = 0,
        after: str = "",
    ) -> Page:
        """One page of a listing.

        Args:
            prefix: how keys begin.
            below: list keys below the folder `prefix` only, not others that begin alike.
            one_level: list folders in that folder instead of what is in them.
            token: what the page before returned; empty for the first one.
            limit: how many objects, where not as many as there may be.
            after: keys up to this one may be left out.
        """

    @abstractmethod
    def _delete(self, key: str) -> None:
        """Remove an object.

        Raises:
            NotFound: there is none.
        """

    def _readably_marked(self, key: str, mark: str) -> bool:
        try:
            return found(lambda: self._has_mark(key, mark))
        except (NotFound, PermissionRefused):
            return False


def folder_names(start: str, prefixes: Iterable[str]) -> tuple[str, ...]:
    """Names of folders that a store tells by how the keys below them begin.

    >>> folder_names("lake/", ["lake/a/", "lake/b c/"])
    ('a', 'b c')
    """
    return tuple(name for text in prefixes if (name := text[len(start) :].rstrip("/")))


def start_of_keys(root: str, prefix: str, *, below: bool) -> str:
    """How the full keys begin of what `CloudStorage._page` lists.

    >>> start_of_keys("lake", "t", below=True), start_of_keys("", "", below=True)
    ('lake/t/', '')
    """
    full = join_key(root, prefix)
    return f"{full}/" if below and full else full
