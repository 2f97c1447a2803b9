"""Bookmarks of sources in a Delta table, which become durable in the same commit as the rows.

A bookmark is a document beside the data, `_lakeport/bookmarks/<number>.json`, and a `txn` action
in the commit with that number as its version: the log decides which document is valid. Documents
are created before the commit and never changed, so that a failed commit leaves one that no log
names. Restoring an older version restores the numbers, as those of runs. Source: Delta's protocol,
transaction identifiers, which checkpoints keep.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakeport.delta_log.reader import STATE, DeltaLog
from lakeport.delta_log.transactions import BookmarkMove, bookmark_app_id
from lakeport.errors import CommitConflict, DestinationError, ObjectExists
from lakeport.model import Bookmark, SavedBookmark, Storage

if TYPE_CHECKING:
    from lakeport.writers.delta.commit import TableTransaction

_FOLDER: Final = "_lakeport"
_VERSION: Final = 1


def check_unmoved(move: BookmarkMove, txn: TableTransaction, uri: str) -> None:
    """Raise CommitConflict if another load has moved the bookmark; make later moves conflict too.

    A retry would land that load's rows twice. `txn` is of the commit that makes the move.
    """
    txn.watch(move.app_id)
    if txn.last_transactions([move.app_id])[move.app_id] != move.previous_number:
        raise CommitConflict(
            f"another load has read the source {move.name!r} of {uri} since this one began",
            "nothing of this batch was committed; run it again: it goes on from there.",
        )


@dataclass(frozen=True, slots=True)
class DeltaBookmarks:
    """Bookmarks of one Delta table: how far its sources were read; a `model.BookmarkStore`.

    Attributes:
        storage: where the table is.
        table: its key; empty when it is the storage's root.
    """

    storage: Storage
    table: str

    @property
    def folder(self) -> str:
        """See `lakeport.model.BookmarkStore.folder`."""
        return f"{self.table}/{_FOLDER}" if self.table else _FOLDER

    def next_number(self, after: int) -> int:
        """Return the time in microseconds since 1970, or `after` + 1 if that is higher."""
        return max(after + 1, time.time_ns() // 1000)

    def bookmark(self, name: str) -> SavedBookmark:
        """Return a source's newest bookmark; an empty one if the table's log has none."""
        contents = DeltaLog(self.storage, self.table).read_newest_contents(STATE)
        moved = None if contents is None else contents.transactions.get(bookmark_app_id(name))
        if moved is None:
            return SavedBookmark()
        number = int(moved["version"])
        key = self._key(number)
        try:
            document = json.loads(self.storage.get(key) or b"")
            if document["bookmark"] == _VERSION and document["name"] == name:
                return SavedBookmark(dict(document["value"]), number)
        except (ValueError, KeyError, TypeError):
            pass
        raise DestinationError(
            f"what {self.storage.uri(self.table)} remembers of its source {name!r} can't be read "
            f"from {self.storage.uri(key)}",
            "bring that file back; or load the table anew with `--full-refresh`.",
        )

    def write(self, bookmark: Bookmark) -> BookmarkMove:
        """Write a bookmark's file, which is valid once a commit includes the returned move.

        Without a number it takes the next free one; an equal document may exist for a given one.

        Raises:
            DestinationError: the store refused.
        """
        body: dict[str, Any] = {
            "bookmark": _VERSION,
            "name": bookmark.name,
            "after": bookmark.after,
            "value": bookmark.value,
        }
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        number = bookmark.number or self.next_number(bookmark.after)
        while True:
            try:
                self.storage.put(self._key(number), data, create_only=True)
            except ObjectExists:  # in the same microsecond, or by the same batch's other attempt
                if bookmark.number and self.storage.get(self._key(number)) != data:
                    raise
                number += not bookmark.number
            else:
                return BookmarkMove(bookmark.name, number, bookmark.after)

    def _key(self, number: int) -> str:
        """Return the key of a bookmark's document."""
        return f"{self.folder}/bookmarks/{number}.json"
