"""Which of the files that are listed a table has not had: two sorted streams, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

from lakeport.errors import SourceError
from lakeport.sources.files.places import Listed


def unseen(
    listed: Iterable[Listed], seen: Iterable[Listed]
) -> Iterator[tuple[Listed, Listed | None]]:
    """The files that were not seen as they are now, each with what was seen of it.

    Args:
        listed: in the order of their URIs.
        seen: in the order of their URIs.

    >>> list(unseen([Listed("a", 1, ""), Listed("b", 2, "")], [Listed("b", 1, "")]))
    ... # doctest: +NORMALIZE_WHITESPACE
    [(Listed(uri='a', bytes=1, tag=''), None),
     (Listed(uri='b', bytes=2, tag=''), Listed(uri='b', bytes=1, tag=''))]
    """
    waiting = iter(seen)
    known = next(waiting, None)
    for file in listed:
        while known is not None and known.uri < file.uri:
            known = next(waiting, None)
        if known is None or known.uri != file.uri:
            yield file, None
        elif known != file:
            yield file, known


def wanted(
    found: Iterable[tuple[Listed, Listed | None]], again: Literal["fail", "land", "ignore"]
) -> Iterator[Listed]:
    """Those of `unseen` that are to be landed.

    Raises:
        SourceError: a file has changed since it was landed, and `again` is `fail`.
    """
    for file, known in found:
        if known is None or again == "land":
            yield file
        elif again == "fail":
            raise SourceError(
                f"file {file.uri!r} has changed since it was landed: {difference(known, file)}",
                "`again: land` (`--again land`) lands all its rows once more, `again: ignore` "
                "leaves it out; a file that is still written should get its name when it is whole.",
            )


def difference(before: Listed, now: Listed) -> str:
    """How a file differs from what was known of it, in words."""
    return f"it had {_described(before)}, and has {_described(now)}"


def _described(file: Listed) -> str:
    if file.tag.isdecimal():  # of a disk
        moment = datetime.fromtimestamp(int(file.tag) / 1e9, UTC)
        return f"{file.bytes:,} bytes of {moment:%Y-%m-%d %H:%M:%S.%f}"
    return f"{file.bytes:,} bytes with the tag {file.tag}"
