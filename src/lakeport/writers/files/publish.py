"""From staged to visible: a batch's objects take their names one by one, create-only.

`lakeport.writers.files.journal` describes the protocol that these steps belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused, Unreachable
from lakeport.model import Storage
from lakeport.writers.files.journal import Done, Intent, Journal, Planned
from lakeport.writers.files.sink import Names

_MOST_TAKEN = 10_000


@dataclass
class FilePublisher:
    """The objects of one batch on their way.

    Attributes:
        storage: where they are staged.
        names: what further keys are made of.
        objects: each with the key that it is to have; changed in place on a clash.
        next_ordinal: the lowest ordinal that no object has tried.
        record: puts the present plan on record; called before anything takes a name of it.
        published: what is visible, with its keys.
        clashes: what has to be staged again, because its name is taken and it is bound to it.
        taken: how many names were taken.
    """

    storage: Storage
    names: Names
    objects: list[Planned]
    next_ordinal: int
    record: Callable[[FilePublisher], None]
    published: list[Planned] = field(default_factory=list)
    clashes: list[Planned] = field(default_factory=list)
    taken: int = 0

    def run(self) -> None:
        """Publish everything that is not published yet.

        Raises:
            ObjectExists: there are `clashes`; everything else is visible.
            DestinationError: the store refuses; `published` tells how far it came.
        """
        for index, planned in enumerate(self.objects):
            if planned not in self.published:
                self._publish(index)
        if self.clashes:
            taken = ", ".join(self.storage.uri(clash.key) for clash in self.clashes)
            raise ObjectExists(f"{taken} exists already", "stage these rows under other names.")

    def _publish(self, index: int) -> None:
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
                self.objects[index] = Planned(planned.staged, self.names.key(self.next_ordinal))
                self.next_ordinal += 1
                self.record(self)
            else:
                self.published.append(planned)
                return

    def intent(self, digest: str, attempt: int) -> Intent:
        """Return the present plan as the journal keeps it."""
        names = {
            "folder": self.names.folder,
            "clock": self.names.clock.isoformat(),
            "extension": self.names.extension,
            "unique": self.names.unique,
        }
        return Intent(digest, tuple(self.objects), self.next_ordinal, names, attempt)


def resume(storage: Storage, journal: Journal, sequence: int, intent: Intent) -> Done | None:
    """Finish what an interrupted run had put on record; None if the batch has to be staged again.

    Raises:
        DestinationError: the store refuses.
    """
    attempt = intent.attempt

    def record(publisher: FilePublisher) -> None:
        nonlocal attempt
        attempt += 1
        again = publisher.intent(intent.digest, attempt)
        journal.intend(sequence, replace(again, bookmark=intent.bookmark, by=intent.by))

    objects = list(intent.objects)
    publisher = FilePublisher(storage, names_of(intent.names), objects, intent.next_ordinal, record)
    publisher.published = [o for o in objects if storage.owned(o.staged, o.key)]
    try:
        publisher.run()
    except (PermissionRefused, Unreachable):
        raise
    except DestinationError:
        _take_back(publisher)
        return None
    done = replace(done_entry(intent.digest, publisher.objects), bookmark=intent.bookmark)
    journal.finish(sequence, done)
    drop_staging(storage, intent.objects)
    if names_of(intent.names).extension == "parquet":
        from lakeport.writers.files.retype import retype_late

        retype_late(storage, journal.table, done.keys)
    return done


def drop_staging(storage: Storage, objects: Iterable[Planned]) -> None:
    """Give up the staging names of objects that are visible, which only stores that rename keep."""
    if storage.can_rename_staged:
        for planned in objects:
            storage.discard(planned.staged)


def withdraw(storage: Storage, intent: Intent) -> bool:
    """Drop an interrupted run's staged objects; False, and nothing is done, if any is visible.

    Raises:
        DestinationError: the store can't tell.
    """
    if any(storage.owned(planned.staged, planned.key) for planned in intent.objects):
        return False
    for planned in intent.objects:
        storage.discard(planned.staged)
    return True


def names_of(entry: Mapping[str, Any]) -> Names:
    """Return the names that an intent was made with."""
    clock = datetime.fromisoformat(entry["clock"])
    return Names(entry["folder"], clock, entry["extension"], entry["unique"])


def done_entry(digest: str, objects: list[Planned]) -> Done:
    """Return what the journal keeps of objects that are all visible."""
    return Done(
        digest,
        tuple(planned.key for planned in objects),
        sum(planned.staged.rows for planned in objects),
        sum(planned.staged.bytes for planned in objects),
    )


def _take_back(publisher: FilePublisher) -> None:
    """Delete what is visible of a batch whose other objects can't be published any more."""
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
