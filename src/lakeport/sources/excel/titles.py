"""Titles above the header of a sheet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from lakeport.sources.excel.cells import Cell

if TYPE_CHECKING:
    from lakeport.sources.excel.sheet import Row

_MOST = 20  # rows that may be titles
_BODY = 3  # rows below a header that have to be as wide as it is


def below_titles(rows: Iterator[Row]) -> tuple[int, Iterator[Row]]:
    """How many rows above the header are titles, and the rows from there on.

    Titles have one cell each. The header below them has several, all of them different texts, and
    so has every one of the next rows several; where that is not certain, no row is a title.
    """
    lead = list(islice(_single(rows), _MOST))
    titles = lead[:-1] if lead and len(lead[-1].cells) > 1 else []
    if not titles:
        return 0, chain(lead, rows)
    header, body = lead[-1], list(islice(rows, _BODY))
    texts = {text for text, cell in header.cells.values() if cell is Cell.TEXT}
    certain = len(texts) == len(header.cells) and body
    if certain and all(len(row.cells) > 1 for row in body):
        return len(titles), chain([header], body, rows)
    return 0, chain(lead, body, rows)


def _single(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows up to the first one with several cells."""
    for row in rows:
        yield row
        if len(row.cells) > 1:
            return
