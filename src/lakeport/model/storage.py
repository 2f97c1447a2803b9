"""A store, and what is put there: staged first, and then visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from lakeport.storage.checks import CheckItem


@dataclass(frozen=True, slots=True)
class Work:
    """What a task did, and when; moments are seconds since 1970, by the clock of its machine.

    Attributes:
        stages: stage -> when it first began, when it last ended, and the seconds between that were
            spent on it, several threads' added up.
        pace: moments, with the rows read and the bytes staged in the `step` before each.
        step: seconds.
    """

    stages: Mapping[str, tuple[float, float, float]]
    pace: tuple[tuple[float, int, int], ...] = ()
    step: float = 0.0


@dataclass(frozen=True, slots=True)
class Staged:
    """One encoded object that is durable but not visible yet. Small, picklable.

    Attributes:
        key: the key that it was staged for.
        token: what its storage needs to publish or discard it (a temporary path; an upload id and
            its parts; a session and the bytes held back). It may be a capability: never log it.
        rows: number of rows.
        bytes: size of the object.
        checksum: CRC32C or CRC32 of the content with its name, such as `crc32c:AAAAAA==`.
        partition: partition column -> serialised value (Delta), None for null.
        stats: Delta's statistics as JSON text; empty for files.
        split: index of the task that wrote it.
        content: what the task read, the file and a digest for each split; with its first object,
            if asked for.
        work: what the task did and when; with its first object.
        lowest_version: the lowest `_sdc_table_version` of the rows of the task; None where one has
            none.
    """

    key: str
    token: Mapping[str, Any]
    rows: int
    bytes: int
    checksum: str = ""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    stats: str = ""
    split: int = 0
    content: tuple[tuple[str, str], ...] = ()
    work: Work | None = None
    lowest_version: int | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a store, as a listing gives it. `etag` changes with the content."""

    key: str
    bytes: int
    etag: str = ""
    modified: float = 0.0


@dataclass(frozen=True, slots=True)
class Level:
    """What lies right in one folder of a store.

    Attributes:
        folders: names of the folders there, without slashes, sorted.
        objects: the objects there, sorted by key.
    """

    folders: tuple[str, ...]
    objects: tuple[StoredObject, ...]


class StageWriter(Protocol):
    """A binary sink for one staged object: `write` until `finish` or `abort`."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; the upload of earlier bytes may go on meanwhile."""
        ...

    def finish(self) -> Mapping[str, Any]:
        """Make the bytes durable, not visible; return `Staged`'s `token`, `bytes`, `checksum`."""
        ...

    def abort(self) -> None:
        """Drop what was written. Never raises."""
        ...


class Storage(Protocol):
    """One cloud (or the local disk) seen as keys below one root. Pickled into Spark tasks.

    A key is relative to the root, uses `/`, and never starts or ends with it. Every method raises
    `DestinationError` or one of its kinds.
    """

    @property
    def can_rename_staged(self) -> bool:
        """Whether a staged object can be published under another key than it was staged for."""
        ...

    @property
    def listed_at_once(self) -> int:
        """Page size of a listing: asking for fewer objects costs as much.

        0 where a listing costs as much as the folder has objects, and to look one up costs little.
        """
        ...

    def needs_unique_names(self) -> bool:
        """Whether the store ignores create-only conditions, so that names must never clash."""
        ...

    def uri(self, key: str = "") -> str:
        """How users name that object: a path, `s3://…`, `gs://…`."""
        ...

    def hadoop_uri(self, key: str = "") -> str:
        """How Spark names that object: `file:///…`, `s3a://…`, `abfss://…`."""
        ...

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """What Spark's connector needs to reach the store; some values are secrets.

        Args:
            for_workers: with the credentials that this process finds, for workers without any.
        """
        ...

    def stage(self, key: str, content_type: str) -> StageWriter:
        """Begin one object."""
        ...

    def publish(self, staged: Staged, key: str) -> None:
        """Make a staged object visible under `key`, only if nothing has that name.

        Raises:
            ObjectExists: something else has that name. `can_rename_staged` tells whether the same
                staged object can be published under another key, or has to be staged again.
        """
        ...

    def discard(self, staged: Staged) -> None:
        """Drop a staged object. Never raises."""
        ...

    def marked(self, mark: str) -> Storage:
        """The same place, with what it stages marked as this run's, so that strays can be told."""
        ...

    def drop_strays(self, staged: Sequence[Staged]) -> None:
        """Drop what lost attempts of the tasks that staged these left behind. Never raises."""
        ...

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible object `key` is this staged object (after a crash or lost answer)."""
        ...

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object whole.

        Raises:
            ObjectExists: `create_only`, and something has that name.
        """
        ...

    def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Replace an object's content by what `change` makes of it, whole.

        Raises:
            DestinationError: there is none, or another has replaced it meanwhile. A store without
                conditional writes is not asked for the latter.
        """
        ...

    def get(self, key: str) -> bytes | None:
        """Read one small object whole; None when there is none."""
        ...

    def open(self, key: str) -> BinaryIO:
        """Open an object for reading, seekable."""
        ...

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects whose key is `prefix` or lies below the folder `prefix`, sorted by key.

        Args:
            prefix: empty for all.
            after: leave out keys that are not behind this one; the listing begins there, where the
                store can do that.
        """
        ...

    def level(self, prefix: str) -> Level:
        """What lies right in the folder `prefix`, by few requests however much lies below it.

        Of a folder with thousands of entries some may be missing.
        """
        ...

    def sweep(self) -> int:
        """Remove what was left staged a week ago; return how many (0 where the store does that)."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; fine if there is none."""
        ...

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs, item by item; `tables`: what Delta tables need beyond files."""
        ...

    def shorten_deadline(self) -> None:
        """Give the requests that come next a few seconds together.

        For when another way to the store was given up, or the process has to end.
        """
        ...
