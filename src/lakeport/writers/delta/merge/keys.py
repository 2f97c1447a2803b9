"""The keys of a batch: which row is the last of its key, and which rows of a table match. Pure.

```
batch  id 1 2 1 3      last rows: 1 (of 2), 2 (of 1), 3 (of 3)
table  id 3 7 1        find:      3, none, 2
```
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["KeyIndex", "KeyRanges", "Mask", "Positions"]

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
_CHUNK = 1 << 20


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
        >>> index.last.tolist(), index.find([pa.chunked_array([[3, 7, 1]])]).tolist()
        ([1, 2, 3], [3, -1, 2])
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._levels: list[tuple[pa.Array, Positions]] = []
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for column in map(_plain, columns):
            distinct = pc.unique(column)
            pairs = codes * len(distinct) + _codes(column, distinct)
            known, codes = np.unique(pairs, return_inverse=True)
            self._levels.append((distinct, known))
        # One more for the rows without a key of the batch: -1 is its place from the end.
        self._last = np.full(len(self._levels[-1][1]) + 1, -1, dtype=np.int64)
        np.maximum.at(self._last, codes, np.arange(len(codes), dtype=np.int64))

    @property
    def last(self) -> Positions:
        """The positions of the last rows of all keys, sorted."""
        return np.sort(self._last[:-1])

    def find(self, columns: Sequence[pa.ChunkedArray]) -> Positions:
        """For each row, the position of the batch's last row with its key; -1 where there is none.

        Args:
            columns: key columns of the batch's types, nulls allowed.
        """
        first, *others = zip(map(_plain, columns), self._levels, strict=True)
        found = _codes(first[0], first[1][0])  # of one column each distinct value is a key
        for column, (distinct, known) in others:
            codes = _codes(column, distinct)
            pairs = np.where((found < 0) | (codes < 0), -1, found * len(distinct) + codes)
            # What is greater than every known pair is sought behind the end: look at the last.
            at = np.minimum(np.searchsorted(known, pairs), max(len(known) - 1, 0))
            found = np.where(known[at] == pairs, at, -1) if len(known) else pairs * 0 - 1
        return self._last[found]


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One zero only, as in SQL: Arrow tells -0.0 from 0.0."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _codes(column: pa.ChunkedArray, distinct: pa.Array) -> Positions:
    """The place of each value among distinct ones; -1 for nulls and others."""
    parts = [
        pc.fill_null(pc.index_in(column.slice(at, _CHUNK), distinct, skip_nulls=True), -1)
        for at in range(0, len(column), _CHUNK)
    ]
    if not parts:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([part.to_numpy() for part in parts]).astype(np.int64)


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
