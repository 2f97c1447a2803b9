"""The keys of a batch: which row is the last of its key, and which rows of a table match. Pure.

```
batch  id 1 2 1 3      last rows: 1 (of 2), 2 (of 1), 3 (of 3)
table  id 3 7 1        find:      3 for row 0, 2 for row 2
```
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hits:
    """Those rows of many that are meant, few as a rule.

    Attributes:
        rows: their positions, sorted.
        chosen: for each a number of 0 or more that tells what for.
        unknown: how many rows are left as they are for want of a value to choose them by.
    """

    rows: Positions
    chosen: Positions
    unknown: int = field(default=0, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> Hits:
        """Those of a range of rows, counted from its start.

        >>> Hits(np.array([1, 4, 6]), np.array([7, 8, 9])).part(4, 6)
        Hits(rows=array([0]), chosen=array([8]))
        """
        first, last = np.searchsorted(self.rows, (start, end))
        return Hits(self.rows[first:last] - start, self.chosen[first:last])


class KeyIndex:
    """Finds a batch's last row of each key.

    Keys of several columns become numbers one column after the other: the number of a row's
    values so far and the place of the next value among that column's distinct ones make a pair,
    and the place of that pair among the batch's own pairs is the next number. So a look-up costs
    one hash table and one sorted search a column, and no rows are put together.

    Args:
        columns: the key columns of the batch, without nulls.

    Example:
        >>> index = KeyIndex([pa.chunked_array([[1, 2, 1, 3]])])
        >>> index.last.tolist(), index.find([pa.chunked_array([[3, 7, 1]])])
        ([1, 2, 3], Hits(rows=array([0, 2]), chosen=array([3, 2])))
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._levels: list[tuple[pa.Array, Positions]] = []
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for column in map(_plain, columns):
            distinct = pc.unique(column)
            pairs = codes * len(distinct) + _places(column, distinct).to_numpy()
            known, codes = np.unique(pairs, return_inverse=True)
            self._levels.append((distinct, known))
        self._last = np.zeros(len(self._levels[-1][1]), dtype=np.int64)
        np.maximum.at(self._last, codes, np.arange(len(codes), dtype=np.int64))

    @property
    def last(self) -> Positions:
        """The positions of the last rows of all keys, sorted."""
        return np.sort(self._last)

    def find(self, columns: Sequence[pa.ChunkedArray]) -> Hits:
        """The rows with a key of the batch, and the positions of the batch's last rows with it.

        Args:
            columns: key columns of the batch's types, nulls allowed.
        """
        levels = zip(map(_plain, columns), self._levels, strict=True)
        column, (distinct, _) = next(levels)
        rows, codes = _matches(column, distinct)  # of one column each distinct value is a key
        for column, (distinct, known) in levels:
            # Not by `take`, which joins the chunks: text of more than 2 GB does not fit in one.
            kept, places = _matches(column.filter(pa.array(mask(rows, len(column)))), distinct)
            rows, pairs = rows[kept], codes[kept] * len(distinct) + places
            # What is greater than every known pair is sought behind the end: look at the last.
            codes = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
            hit = known[codes] == pairs
            rows, codes = rows[hit], codes[hit]
        return Hits(rows, self._last[codes])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One zero only, as in SQL: Arrow tells -0.0 from 0.0."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _places(column: pa.ChunkedArray, distinct: pa.Array) -> pa.ChunkedArray:
    """The place of each value among distinct ones; null for nulls and others.

    One call for all chunks: each makes a hash table of the distinct values first.
    """
    return pc.index_in(column, distinct, skip_nulls=True)


def _matches(column: pa.ChunkedArray, distinct: pa.Array) -> tuple[Positions, Positions]:
    """Positions of the values that are among distinct ones, and their places among them."""
    places = _places(column, distinct)
    rows = pc.indices_nonzero(pc.is_valid(places)).to_numpy()
    return rows.astype(np.int64), places.drop_null().to_numpy().astype(np.int64)


def mask(rows: Positions, count: int) -> Mask:
    """Which of so many rows are at these positions.

    >>> mask(np.array([0, 2]), 4).tolist()
    [True, False, True, False]
    """
    found = np.zeros(count, dtype=bool)
    found[rows] = True
    return found


class KeyRanges:
    """Tells whether any key of a batch may lie within a file's bounds.

    Args:
        columns: the key columns of the batch.

    Example:
        >>> ranges = KeyRanges([pa.chunked_array([[40, 10]]), pa.chunked_array([["b", "a"]])])
        >>> ranges.meets([(pa.scalar(11), pa.scalar(39)), None])
        False
        >>> ranges.meets([(pa.scalar(5), pa.scalar(20)), (pa.scalar("b"), pa.scalar("c"))])
        False
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        order = pc.sort_indices(columns[0])
        self._columns = [column.take(order).combine_chunks() for column in columns]

    def meets(self, bounds: Sequence[tuple[pa.Scalar, pa.Scalar] | None]) -> bool:
        """Whether a key may be there.

        Args:
            bounds: for each key column the least and the greatest value; None where unknown.
        """
        first, start, end = self._columns[0], 0, len(self._columns[0])
        if bounds[0] is not None:
            low, high = (_value(bound) for bound in bounds[0])
            start = bisect_left(first, low, key=_value)
            end = bisect_right(first, high, key=_value)
        inside: Any = None
        for column, bound in zip(self._columns[1:], bounds[1:], strict=True):
            if bound is not None and start < end:
                part = column.slice(start, end - start)
                within = pc.and_(pc.greater_equal(part, bound[0]), pc.less_equal(part, bound[1]))
                inside = within if inside is None else pc.and_(inside, within)
        return start < end and (inside is None or bool(pc.any(inside).as_py()))


def _value(scalar: pa.Scalar) -> Any:
    return scalar.as_py()
