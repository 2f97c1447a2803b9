"""A tap's flushes, each with the bookmarks that become durable with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from lakeport.model import Batch, Bookmark, Flush
from lakeport.sources.singer.state import merge_state
from lakeport.sources.tap.state import TapMemory


@dataclass(frozen=True)
class TapFlushes:
    """Iterates the flushes of a Singer source that is cut behind STATEs alone.

    Attributes:
        flushes: the Singer source's.
        memory: what the tap's tables remember.
    """

    flushes: Iterable[Flush]
    memory: TapMemory

    def __iter__(self) -> Iterator[Flush]:
        """Hand each flush on, its rows with their bookmarks."""
        seen = False
        for flush in self.flushes:
            seen = seen or bool(flush.batches)
            streams = list(dict.fromkeys(b.stream for b in flush.batches if not b.schema_only))
            state = reduce(merge_state, flush.states, self.memory.state)
            marks = self.memory.moved(streams, state)
            batches = tuple(
                batch if batch.schema_only else self._remembered(batch, marks[batch.stream])
                for batch in flush.batches
            )
            without = [batch.stream for batch in batches if batch.schema_only]
            if flush.last and not seen:
                without += self.memory.streams
            quiet = tuple(stream for stream in without if self.memory.knows(stream))
            yield replace(flush, batches=batches, quiet=quiet)

    def _remembered(self, batch: Batch, bookmark: Bookmark) -> Batch:
        again = (
            f"stream {batch.stream!r}: the load before was cut off between two tables, and the "
            "tap's STATE tells no bookmarks by streams: rows may have come again.",
        )
        return replace(
            batch,
            bookmark=bookmark,
            before_commit=partial(self.memory.mark, batch.stream),
            warnings=(*batch.warnings, *(again if batch.stream in self.memory.disagree else ())),
        )
