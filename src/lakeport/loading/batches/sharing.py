"""Several batches as one, and one batch shared out to tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from lakeport.model import Batch, Split

__all__ = ["groups", "together"]


def together(batches: Sequence[Batch]) -> Batch:
    """One batch that stands for several that land in one commit."""
    if len(batches) == 1:
        return batches[0]
    digests = "".join(batch.digest for batch in batches)
    return replace(
        batches[-1],
        records=sum(batch.records for batch in batches),
        bytes=sum(batch.bytes for batch in batches),
        notes=tuple(dict.fromkeys(note for batch in batches for note in batch.notes)),
        digest=hashlib.sha256(digests.encode()).hexdigest() if digests else "",
    )


def groups(splits: Sequence[Split], count: int) -> list[tuple[Split, ...]]:
    """Contiguous groups of about equal size, at most `count` and none empty.

    >>> [len(group) for group in groups([Split("a")] * 5, 2)]
    [3, 2]
    """
    count = max(1, min(count, len(splits)))
    size, larger = divmod(len(splits), count)
    found, start = [], 0
    for i in range(count):
        end = start + size + (i < larger)
        found.append(tuple(splits[start:end]))
        start = end
    return found
