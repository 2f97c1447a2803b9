"""Bookmarks of sources beside a table of files, kept in one journal per bookmark.

A bookmark's number is its batch's number in that journal. The intent that publishes a batch's
objects has the bookmark's next value, and so has the done entry. A load that was interrupted
between the two is finished by the next load, before that reads the bookmark.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final

from lakeport.errors import CommitConflict
from lakeport.model import Bookmark, SavedBookmark, Storage
from lakeport.writers.files.journal import (
    DoneEntry,
    Intent,
    Journal,
    finish_interrupted,
    may_still_publish,
    register_publisher,
)
from lakeport.writers.naming import HOME, safe_segment

_HOME: Final = f"{HOME}/bookmarks"
_KEPT: Final = 5
"""Entries of a bookmark's journal that stay."""


@dataclass(frozen=True, slots=True)
class FileBookmarks:
    """Bookmarks of one table of files: how far its sources were read; a `model.BookmarkStore`.

    Attributes:
        table: the table's folder below the root, date folders not included.
        writes: whether an interrupted load's batch may be finished.
    """

    storage: Storage
    table: str
    writes: bool = True

    @property
    def folder(self) -> str:
        """See `lakeport.model.BookmarkStore.folder`."""
        return f"{_HOME}/files/{safe_segment(self.table)}"

    def next_number(self, after: int) -> int:
        """See `lakeport.model.BookmarkStore.next_number`."""
        return after + 1

    def bookmark(self, name: str) -> SavedBookmark:
        """Return a source's bookmark, an empty one if none; may finish an interrupted load first.

        With `writes`, finishes an interrupted load's batch first, and deletes old journal entries.

        Raises:
            CommitConflict: that load is still publishing.
        """
        journal = _bookmark_journal(self.storage, self.table, name)
        number, done = journal.read_newest_done()
        if self.writes:
            intent = journal.read_intent(number + 1)
            finished = intent and self._finish(journal, number + 1, intent)
            if finished:
                number, done = number + 1, finished
            journal.prune(number - _KEPT)
        return SavedBookmark() if done is None else SavedBookmark(done.bookmark or {}, number)

    def _finish(self, journal: Journal, number: int, intent: Intent) -> DoneEntry | None:
        """Publish the batch of an interrupted load; None if it has to be staged again.

        Raises:
            CommitConflict: that load may still be publishing.
        """
        if may_still_publish(intent.owner):
            raise CommitConflict(
                f"another load is landing what is new of the source {journal.run_id!r} in "
                f"{self.storage.uri(self.table)}",
                "let it end, and run this one again: it goes on from there. Of one that was killed "
                "on another machine this is known ten minutes later.",
            )
        with register_publisher() as owner:
            mine = replace(intent, attempt=intent.attempt + 1, owner=owner())
            journal.write_intent(number, mine)  # of two loads that find it, one finishes it
            return finish_interrupted(self.storage, journal, number, mine)


@dataclass(frozen=True, slots=True)
class JournalSlot:
    """Journal and number under which a batch is recorded, and the digest of its content.

    Attributes:
        digest: digest by which a repeated batch of that number is recognised.
    """

    journal: Journal
    number: int
    digest: str


def bookmark_slot(bookmark: Bookmark, storage: Storage, table: str) -> JournalSlot:
    """Return the journal slot of a batch that moves this bookmark; its number is `after` + 1."""
    text = json.dumps(bookmark.value, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    journal = _bookmark_journal(storage, table, bookmark.name)
    return JournalSlot(journal, bookmark.after + 1, digest)


def _bookmark_journal(storage: Storage, table: str, name: str) -> Journal:
    """Return the journal of a bookmark."""
    return Journal(storage, name, table, _HOME)
