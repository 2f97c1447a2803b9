"""Several batches as one, and one batch shared out to tasks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakeport.model import Batch, Split, Staged

_MOST_OF_TWO: Final = 1.7  # a task is said to have too much beyond this multiple of its fair share,
_LEAST: Final = 0.3  # and of the whole


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


def uneven(staged: Sequence[Staged], cores: int, min_file_bytes: int) -> tuple[str, ...]:
    """Say it when one task had most of a batch that was worth sharing out.

    Args:
        staged: what the tasks have written.
        cores: how many of them ran at once.
        min_file_bytes: of twice as much it is worth it.
    """
    sizes = Counter[int]()
    for one in staged:
        sizes[one.split] += one.bytes
    if cores == 1 or not sizes:
        return ()
    (task, most), total = sizes.most_common(1)[0], sizes.total()
    share = most / max(1, total)
    if total < 2 * min_file_bytes or share < max(_MOST_OF_TWO / cores, _LEAST):
        return ()
    return (
        f"task {task} wrote {share:.0%} of the bytes while {cores} cores were there: the "
        "input's parts are of uneven size; `repartition` a frame, or write Parquet in smaller "
        "row groups.",
    )
