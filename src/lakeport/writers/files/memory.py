"""What a table of files remembers of its sources: entries of a journal of its own.

Each bookmark of a name has a number, which is the batch's in that journal: the intent that makes a
batch's objects visible says what is remembered from then on, and so does the entry that they are.
A load that was cut off between the two is finished by the next one, before that reads the bookmark.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final

from lakeport.errors import CommitConflict
from lakeport.model import Bookmark, Remembered, Storage
from lakeport.writers.files.journal import Done, Intent, Journal
from lakeport.writers.files.owner import at_work, publishing
from lakeport.writers.files.publish import resume
from lakeport.writers.naming import HOME, safe_segment

_HOME: Final = f"{HOME}/bookmarks"
_KEPT: Final = 5


@dataclass(frozen=True, slots=True)
class FileMemory:
    """The bookmarks of one table; a `lakeport.model.Memory`.

    Attributes:
        storage: where the lake is.
        table: the table's folder below the root, date folders not included.
        writes: whether what a load that was cut off began may be finished.
    """

    storage: Storage
    table: str
    writes: bool = True

    @property
    def folder(self) -> str:
        """See `lakeport.model.Memory.folder`."""
        return f"{_HOME}/files/{safe_segment(self.table)}"

    def next_number(self, after: int) -> int:
        """See `lakeport.model.Memory.next_number`."""
        return after + 1

    def bookmark(self, name: str) -> Remembered:
        """See `lakeport.model.Memory.bookmark`; finishes what a load that was cut off began.

        Raises:
            CommitConflict: that one is still at it.
        """
        journal = _journal(self.storage, self.table, name)
        number, done = journal.newest()
        if self.writes:
            intent = journal.intent(number + 1)
            finished = intent and self._finished(journal, number + 1, intent)
            if finished:
                number, done = number + 1, finished
            journal.prune(number - _KEPT)
        return Remembered() if done is None else Remembered(done.bookmark or {}, number)

    def _finished(self, journal: Journal, number: int, intent: Intent) -> Done | None:
        if at_work(intent.by):
            raise CommitConflict(
                f"another load is landing what is new of the source {journal.run_id!r} in "
                f"{self.storage.uri(self.table)}",
                "let it end, and run this one again: it goes on from there. Of one that was killed "
                "on another machine this is known ten minutes later.",
            )
        with publishing() as by:
            mine = replace(intent, attempt=intent.attempt + 1, by=by())
            journal.intend(number, mine)  # of two who find it, one finishes it
            return resume(self.storage, journal, number, mine)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a journal has a batch.

    Attributes:
        journal: the run's, or that of the bookmark that the batch moves.
        number: the batch's there.
        digest: what tells it from another batch of that number.
    """

    journal: Journal
    number: int
    digest: str


def place_of(bookmark: Bookmark, storage: Storage, table: str) -> Place:
    """Where the journal of a bookmark has the batch that moves it."""
    text = json.dumps(bookmark.value, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Place(_journal(storage, table, bookmark.name), bookmark.after + 1, digest)


def _journal(storage: Storage, table: str, name: str) -> Journal:
    return Journal(storage, name, table, _HOME)
