"""What a table remembers, without a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakeport.model import Bookmark, Remembered
from lakeport.storage.local.store import LocalStorage

__all__ = ["KeptMemory"]


@dataclass
class KeptMemory:
    """Bookmarks in a dictionary, and side files in a folder."""

    path: Path
    kept: dict[str, Remembered] = field(default_factory=dict)
    folder: str = "memory"

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(str(self.path))

    def bookmark(self, name: str) -> Remembered:
        return self.kept.get(name, Remembered())

    def commit(self, bookmark: Bookmark) -> None:
        """Move a bookmark, as a commit does."""
        assert self.bookmark(bookmark.name).number == bookmark.after
        self.kept[bookmark.name] = Remembered(bookmark.value, bookmark.after + 1)

    def files(self) -> list[Path]:
        """The side files that there are."""
        return sorted(path for path in (self.path / self.folder).rglob("*") if path.is_file())
