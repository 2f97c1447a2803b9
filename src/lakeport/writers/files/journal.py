"""Publish a batch's objects so that a repeated run adds none twice: journal, publisher, recovery.

Runs with an id keep a journal. Each batch has one place in it,
`_lakeport/journal/<table>/<run id>/<sequence>`, with two kinds of entries. All are created and
never overwritten, so that create permission is enough:

```
<sequence>.intent-0.json   before anything is published: every object's key and staging token
<sequence>.intent-1.json   an object had to take another name, or the batch was staged again
<sequence>.json            everything is published: files, rows, bytes, digest
```

The protocol, and how a repeated run recovers from a crash after each step:

1. Stage the objects; none is visible. *Crash*: no entry exists, and the batch is staged again. The
   old staged objects are swept later.
2. Write the intent. *Crash*: no object is visible, and the old staged ones are published.
3. Publish the objects one by one, each under its key in the newest intent. For a name that is
   taken, write a new intent before the next name is tried. *Crash*: `Storage.is_published` says for
   each key whether it is ours; the others are published from their staging tokens. If a token has
   expired, our visible objects are deleted, and the batch is staged again.
4. Write the done entry. *Crash before*: every object is published, and only the entry is added.
   *After*: the batch is skipped.
5. Discard the staging names. *Crash*: they are swept later.

A done entry with another digest is a `RunMismatch`. Items of a token whose name starts with `_`
(capabilities, buffered bytes) are never written; all others have to be JSON.

A load on this machine publishes while its process runs; one on another machine counts as publishing
for ten minutes. Everything here raises DestinationError if the store refuses.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from lakeport.errors import (
    CommitConflict,
    DestinationError,
    ObjectExists,
    PermissionRefused,
    RunMismatch,
    SourceError,
    Unreachable,
)
from lakeport.host.process import is_running
from lakeport.model import Staged, Storage
from lakeport.writers.files.sink import ObjectNames
from lakeport.writers.naming import HOME, safe_segment

_VERSION = 1

_LONGEST_SECONDS: Final = 600.0
"""Time for which a load on another machine counts as publishing."""

_MOST_TAKEN = 10_000


@dataclass(frozen=True)
class PlannedObject:
    """A staged object and the key under which it is published."""

    staged: Staged
    key: str


@dataclass(frozen=True)
class Intent:
    """Journal entry, written first, of the objects that a run is about to publish for a batch.

    Attributes:
        digest: digest of the batch's input, by which a repeated run recognises the batch.
        objects: the objects, in the order in which they are published.
        next_ordinal: the lowest ordinal that no object of the batch has tried.
        names: fields of the batch's `ObjectNames`.
        attempt: number of intents before this one.
        bookmark: the bookmark's value once the objects are visible.
        owner: the publishing load, see `register_publisher`; None for runs with an id.
    """

    digest: str
    objects: tuple[PlannedObject, ...]
    next_ordinal: int
    names: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 0
    bookmark: Mapping[str, Any] | None = None
    owner: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class DoneEntry:
    """Journal entry, written last, of the objects that a run has published for a batch."""

    digest: str
    keys: tuple[str, ...]
    rows: int
    bytes: int
    bookmark: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Journal:
    """Entries of one run's batches in one table; a bookmark's journal has its name as run id.

    Attributes:
        table: the table's folder below the root, date folders not included.
        home: the folder above `journal/`.
    """

    storage: Storage
    run_id: str
    table: str
    home: str = HOME

    def read_done(self, sequence: int, digest: str) -> DoneEntry | None:
        """Return a batch's done entry, or None; RunMismatch if its digest differs."""
        entry = self._read(self._key(sequence))
        if entry is None:
            return None
        done = _decode_done(entry)
        if done.digest != digest:
            raise self.mismatch_error(sequence)
        return done

    def read_intent(self, sequence: int) -> Intent | None:
        """Return the newest intent of a batch; None if there is none."""
        newest, attempt = None, 0
        while (entry := self._read(self._key(sequence, attempt))) is not None:
            newest, attempt = entry, attempt + 1
        if newest is None:
            return None
        objects = tuple(_decode_object(item) for item in newest["objects"])
        ordinal, names = newest["next_ordinal"], newest["names"]
        bookmark, owner = newest.get("bookmark"), newest.get("by")
        return Intent(newest["digest"], objects, ordinal, names, attempt - 1, bookmark, owner)

    def write_intent(self, sequence: int, intent: Intent) -> None:
        """Create an intent's entry; CommitConflict if another process has written other content."""
        entry = {
            "version": _VERSION,
            "digest": intent.digest,
            "next_ordinal": intent.next_ordinal,
            "names": dict(intent.names),
            "objects": [_describe_object(item) for item in intent.objects],
            **_bookmark_entry(intent.bookmark),
            **({} if intent.owner is None else {"by": dict(intent.owner)}),
        }
        self._create(self._key(sequence, intent.attempt), entry)

    def write_done(self, sequence: int, done: DoneEntry) -> None:
        """Create a batch's done entry; CommitConflict if another process has written another."""
        entry = {
            "version": _VERSION,
            "digest": done.digest,
            "keys": list(done.keys),
            "rows": done.rows,
            "bytes": done.bytes,
            **_bookmark_entry(done.bookmark),
        }
        self._create(self._key(sequence), entry)

    def read_newest_done(self) -> tuple[int, DoneEntry | None]:
        """Return the highest sequence that is done, and its entry; -1 and None for none."""
        names = (item.key.rpartition("/")[2] for item in self.storage.list(self._folder))
        numbers = (name.partition(".")[0] for name in names if name.count(".") == 1)
        newest = max((int(number) for number in numbers if number.isdecimal()), default=-1)
        entry = self._read(self._key(newest)) if newest >= 0 else None
        return (newest, _decode_done(entry)) if entry is not None else (-1, None)

    def prune(self, before: int) -> None:
        """Delete the journal entries of all batches with numbers below `before`."""
        for entry in list(self.storage.list(self._folder)):
            number = entry.key.rpartition("/")[2].partition(".")[0]
            if number.isdecimal() and int(number) < before:
                self.storage.delete(entry.key)

    def mismatch_error(self, sequence: int) -> RunMismatch:
        """Return the error for a batch whose content is not what the run landed before."""
        return RunMismatch(
            f"run {self.run_id!r} landed another content as batch {sequence} of {self.table!r}",
            "repeat a run with the same input and batch sizes, or give it another `run_id`.",
        )

    @property
    def _folder(self) -> str:
        return f"{self.home}/journal/{safe_segment(self.table)}/{safe_segment(self.run_id)}"

    def _key(self, sequence: int, attempt: int | None = None) -> str:
        """Return the key of a batch's done entry, or of its intent number `attempt`."""
        suffix = "" if attempt is None else f".intent-{attempt}"
        return f"{self._folder}/{sequence}{suffix}.json"

    def _read(self, key: str) -> dict[str, Any] | None:
        """Read an entry; None if it is absent, DestinationError if damaged."""
        data = self.storage.get(key)
        if data is None:
            return None
        try:
            entry = json.loads(data)
            if entry["version"] == _VERSION:
                return dict(entry)
        except (ValueError, KeyError, TypeError):
            pass
        raise DestinationError(
            f"the journal entry {self.storage.uri(key)} can't be read",
            "it was not written by this version of lakeport: use another `run_id`.",
        )

    def _create(self, key: str, entry: Mapping[str, Any]) -> None:
        """Create an entry as JSON; CommitConflict if the key has other content already."""
        data = json.dumps(entry, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
        try:
            self.storage.put(key, data, create_only=True)
        except ObjectExists as error:
            if self.storage.get(key) != data:
                raise CommitConflict(
                    f"another process is landing run {self.run_id!r} into {self.table!r}",
                    "let it end, then repeat the run: what is landed already is skipped.",
                ) from error


def _decode_done(entry: Mapping[str, Any]) -> DoneEntry:
    keys, bookmark = tuple(entry["keys"]), entry.get("bookmark")
    return DoneEntry(entry["digest"], keys, entry["rows"], entry["bytes"], bookmark)


def _bookmark_entry(bookmark: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if bookmark is None else {"bookmark": dict(bookmark)}


def _describe_object(item: PlannedObject) -> dict[str, Any]:
    """Return a planned object as JSON values, without private (`_`) items of its token."""
    staged = item.staged
    return {
        "key": item.key,
        "staged_key": staged.key,
        "token": {k: v for k, v in staged.token.items() if not k.startswith("_")},
        "rows": staged.rows,
        "bytes": staged.bytes,
        "checksum": staged.checksum,
        "split": staged.split,
    }


def _decode_object(item: Mapping[str, Any]) -> PlannedObject:
    """Parse a planned object from its JSON values in a journal entry."""
    staged = Staged(
        key=item["staged_key"],
        token=item["token"],
        rows=item["rows"],
        bytes=item["bytes"],
        checksum=item["checksum"],
        split=item["split"],
    )
    return PlannedObject(staged, item["key"])


_publishers: Final[set[str]] = set()
"""Tokens of this process's loads that are publishing."""


@contextmanager
def register_publisher() -> Iterator[Callable[[], Mapping[str, Any]]]:
    """Register this load as publishing while the body runs; yield a function for its JSON id.

    The record is JSON values for the journal: host, process, its start, the load and the time.
    """
    token = secrets.token_hex(8)
    _publishers.add(token)
    process = os.getpid()
    record = {
        "host": platform.node(),
        "process": process,
        "began": _start_ticks(process),
        "token": token,
    }
    try:
        yield lambda: {**record, "at": time.time()}
    finally:
        _publishers.discard(token)


def may_still_publish(owner: Mapping[str, Any] | None) -> bool:
    """Whether the load that wrote an intent may still be publishing; False for None.

    A load on another host may for 10 minutes. `owner` is a record of `register_publisher`.

    >>> with register_publisher() as owner:
    ...     may_still_publish(owner())
    True
    >>> may_still_publish(owner())
    False
    """
    if owner is None:
        return False
    if owner["host"] != platform.node():
        return bool(time.time() - owner["at"] < _LONGEST_SECONDS)
    process, began = int(owner["process"]), owner["began"]
    if process == os.getpid() and began == _start_ticks(process):
        return owner["token"] in _publishers
    return _start_ticks(process) == began if began else is_running(process)


def _start_ticks(process: int) -> str:
    """Return a process's start time in kernel ticks; empty for no such process or no /proc.

    Another process may get its id later. Source: proc(5).
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@dataclass
class FilePublisher:
    """Publishes the staged objects of one batch, and tries further keys if some are taken.

    Attributes:
        objects: each object with its planned key; an object gets another key if its is taken.
        next_ordinal: the lowest ordinal that no object has tried.
        record: writes the present plan to the journal; called before a new key is tried.
        published: the objects that are visible.
        clashes: objects whose key is taken and can't be changed, so that they are staged again.
        taken: number of keys that were taken.
    """

    storage: Storage
    names: ObjectNames
    objects: list[PlannedObject]
    next_ordinal: int
    record: Callable[[FilePublisher], None]
    published: list[PlannedObject] = field(default_factory=list)
    clashes: list[PlannedObject] = field(default_factory=list)
    taken: int = 0

    def publish(self) -> None:
        """Publish every object that is not visible yet, each under its key or a free one.

        Raises:
            ObjectExists: there are `clashes`; every other object is visible.
            DestinationError: the store refuses; `published` has the objects that are visible.
        """
        for index, planned in enumerate(self.objects):
            if planned not in self.published:
                self._publish_object(index)
        if self.clashes:
            taken = ", ".join(self.storage.uri(clash.key) for clash in self.clashes)
            raise ObjectExists(f"{taken} exists already", "stage these rows under other names.")

    def _publish_object(self, index: int) -> None:
        """Publish one object; if its key is taken, try further keys, or add it to `clashes`.

        Records the plan before a further key is tried. DestinationError after 10,000 taken keys.
        """
        while True:
            planned = self.objects[index]
            try:
                self.storage.publish(planned.staged, planned.key)
            except ObjectExists:
                if not self.storage.can_rename_staged:
                    self.clashes.append(planned)
                    return
                self.taken += 1
                if self.taken > _MOST_TAKEN:
                    raise DestinationError(
                        f"{_MOST_TAKEN:,} names were taken, up to {self.storage.uri(planned.key)}",
                        "see that the store tells what is there, and run it again.",
                    ) from None
                self.objects[index] = PlannedObject(
                    planned.staged, self.names.key(self.next_ordinal)
                )
                self.next_ordinal += 1
                self.record(self)
            else:
                self.published.append(planned)
                return

    def make_intent(self, digest: str, attempt: int) -> Intent:
        """Return an intent for the objects as planned now, without bookmark and owner."""
        names = {
            "folder": self.names.folder,
            "clock": self.names.clock.isoformat(),
            "extension": self.names.extension,
            "unique": self.names.unique,
        }
        return Intent(digest, tuple(self.objects), self.next_ordinal, names, attempt)


def finish_interrupted(
    storage: Storage, journal: Journal, sequence: int, intent: Intent
) -> DoneEntry | None:
    """Publish an interrupted run's objects and write its done entry; None if some can't be.

    None if an object can't be published any more. Visible ones are deleted then, and the batch has
    to be staged again.

    Raises:
        PermissionRefused, Unreachable: the store refuses or does not answer; nothing is deleted.
    """
    attempt = intent.attempt

    def record(publisher: FilePublisher) -> None:
        nonlocal attempt
        attempt += 1
        again = publisher.make_intent(intent.digest, attempt)
        again = replace(again, bookmark=intent.bookmark, owner=intent.owner)
        journal.write_intent(sequence, again)

    objects, names = list(intent.objects), _parse_names(intent.names)
    publisher = FilePublisher(storage, names, objects, intent.next_ordinal, record)
    publisher.published = [o for o in objects if storage.is_published(o.staged, o.key)]
    try:
        publisher.publish()
    except (PermissionRefused, Unreachable):
        raise
    except DestinationError:
        _delete_published(publisher)
        return None
    done = replace(make_done_entry(intent.digest, publisher.objects), bookmark=intent.bookmark)
    journal.write_done(sequence, done)
    discard_staging_names(storage, intent.objects)
    if names.extension == "parquet":
        from lakeport.writers.files.retype import retype_late

        retype_late(storage, journal.table, done.keys)
    return done


def discard_staging_names(storage: Storage, objects: Iterable[PlannedObject]) -> None:
    """Delete the staging names of published objects, in stores that can rename staged objects."""
    if storage.can_rename_staged:
        for planned in objects:
            storage.discard(planned.staged)


def discard_interrupted(storage: Storage, intent: Intent) -> bool:
    """Discard an interrupted run's staged objects; if one is visible, return False instead."""
    if any(storage.is_published(planned.staged, planned.key) for planned in intent.objects):
        return False
    for planned in intent.objects:
        storage.discard(planned.staged)
    return True


def _parse_names(entry: Mapping[str, Any]) -> ObjectNames:
    """Parse the object names of an intent; its ordinals are not among them."""
    clock = datetime.fromisoformat(entry["clock"])
    return ObjectNames(entry["folder"], clock, entry["extension"], entry["unique"])


def make_done_entry(digest: str, objects: list[PlannedObject]) -> DoneEntry:
    """Return the done entry of published objects: their keys, and total rows and bytes."""
    return DoneEntry(
        digest,
        tuple(planned.key for planned in objects),
        sum(planned.staged.rows for planned in objects),
        sum(planned.staged.bytes for planned in objects),
    )


def _delete_published(publisher: FilePublisher) -> None:
    """Delete a batch's visible objects and discard the staged ones; PermissionRefused if denied."""
    storage = publisher.storage
    for planned in publisher.published:
        try:
            storage.delete(planned.key)
        except PermissionRefused as error:
            keys = ", ".join(storage.uri(one.key) for one in publisher.published)
            raise PermissionRefused(
                f"an interrupted run left part of a batch: {keys}",
                "delete these objects, or allow it, and repeat the run.",
            ) from error
    for planned in publisher.objects:
        storage.discard(planned.staged)


def list_run_entries(
    storage: Storage, table: str, run_id: str, objects: Collection[str]
) -> list[str]:
    """Return the keys of a run's journal entries, and of the bookmarks that it has moved.

    Without these entries the run can be repeated, and its sources are read from where it began.

    Args:
        table: the table's folder below the root.
        objects: keys of the objects that the run has published.

    Raises:
        CommitConflict: a later run has read on from one of the bookmarks.
        SourceError: entries from before the run are gone.
    """
    run = f"{HOME}/journal/{safe_segment(table)}/{safe_segment(run_id)}"
    entries = [item.key for item in storage.list(run)]
    bookmarks: dict[str, dict[int, list[str]]] = {}
    for item in storage.list(f"{HOME}/bookmarks/journal/{safe_segment(table)}"):
        folder, _, name = item.key.rpartition("/")
        number = name.partition(".")[0]
        if number.isdecimal():
            bookmarks.setdefault(folder, {}).setdefault(int(number), []).append(item.key)
    for folder, numbers in bookmarks.items():
        read = {n: json.loads(storage.get(f"{folder}/{n}.json") or b"{}") for n in numbers}
        own = [n for n, done in read.items() if not {*done.get("keys", ())}.isdisjoint(objects)]
        if not own:
            continue
        later = [n for n in numbers if n >= min(own)]
        if any(read[n].get("keys") for n in later if n not in own):
            raise CommitConflict(
                f"later runs have read on where run {run_id!r} has stopped",
                "undo those runs first, newest first.",
            )
        if min(own) == min(numbers) > 0:
            raise SourceError(
                f"where run {run_id!r} began to read its source is not known any more",
                "`--full-refresh` reads the source anew into an empty table.",
            )
        entries += [key for n in later for key in numbers[n]]
    return entries
