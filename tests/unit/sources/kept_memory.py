"""What a table remembers, without a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakeport.model import Bookmark, SavedBookmark, Storage


@dataclass
class KeptMemory:
    """Bookmarks in a dictionary, and side files in a folder of a store."""

    storage: Storage
    kept: dict[str, SavedBookmark] = field(default_factory=dict)
    folder: str = "memory"

    def next_number(self, after: int) -> int:
        return after + 1

    def bookmark(self, name: str) -> SavedBookmark:
        return self.kept.get(name, SavedBookmark())

    def commit(self, bookmark: Bookmark) -> None:
        """Move a bookmark, as a commit does."""
        assert self.bookmark(bookmark.name).number == bookmark.after
        self.kept[bookmark.name] = SavedBookmark(bookmark.value, bookmark.after + 1)

    def files(self) -> list[Path]:
        """The side files that there are, in a folder of the disk."""
        return [Path(self.storage.uri(found.key)) for found in self.storage.list(self.folder)]
