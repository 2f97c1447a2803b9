"""What the stages of a load hand to each other: frozen values and protocols, no logic.

```
source ─Batch─▶ landing ─Split─▶ task: reader ▶ shape ▶ sink ─Staged─▶ writer ─Landed─▶ report
```
A batch is landed whole or not at all. Its splits are read, shaped and encoded inside Spark tasks;
each task hands back what it staged, and only the driver makes staged objects visible.
"""

from __future__ import annotations

from lakeport.model.batches import (
    Batch,
    Flush,
    Landed,
    Mode,
    Reader,
    Scan,
    Shaper,
    Split,
    UnknownPolicy,
)
from lakeport.model.bookmarks import Bookmark, Memory, Remembered
from lakeport.model.storage import Level, Staged, StageWriter, Storage, StoredObject, Work

__all__ = [
    "Batch",
    "Bookmark",
    "Flush",
    "Landed",
    "Level",
    "Memory",
    "Mode",
    "Reader",
    "Remembered",
    "Scan",
    "Shaper",
    "Split",
    "StageWriter",
    "Staged",
    "Storage",
    "StoredObject",
    "UnknownPolicy",
    "Work",
]
