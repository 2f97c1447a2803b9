"""A source whose flushes land together, where what is made of them needs all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from lakeport.model import Batch, Flush
from lakeport.sources.open import Source


def gathered(source: Source, whole: Callable[[Batch], bool]) -> Source:
    """The same source, with one flush for all if the first batch says so; spools stay until then.

    Args:
        source: any.
        whole: whether the whole input is needed at once.
    """
    kept: list[Flush] = []

    def flushes() -> Iterator[Flush]:
        at_once: bool | None = None
        for flush in source:
            for batch in flush.batches if at_once is None else ():
                at_once = whole(batch)
                break
            if at_once:
                kept.append(flush)
            else:
                yield flush
        if kept:
            yield _together(kept)

    def landed(flush: Flush) -> None:
        for one in kept or [flush]:
            source.landed(one)

    return replace(source, flushes=flushes(), landed=landed)


def _together(flushes: list[Flush]) -> Flush:
    return Flush(
        batches=tuple(chain.from_iterable(flush.batches for flush in flushes)),
        states=tuple(chain.from_iterable(flush.states for flush in flushes)),
        bad=tuple(chain.from_iterable(flush.bad for flush in flushes)),
        last=True,
        versions={name: number for flush in flushes for name, number in flush.versions.items()},
        notes={stream: note for flush in flushes for stream, note in flush.notes.items()},
        quiet=tuple(chain.from_iterable(flush.quiet for flush in flushes)),
    )
