"""Change the rows of a table's data files: the staged batch, the two changes, and their tasks.

```
Upsert   update rows that have a key of the batch, or remove them
Retire   mark rows of earlier stream versions as deleted, or remove them
```
Both are pickled into tasks, which read the batch from its staged files:
```
batch (staged)  ─┬─▶ FileRewriter: a file of the table ─▶ nothing, or its new files
                 └─▶ insert: one staged file, some of its rows ─▶ new files
```
On the driver, `BatchKeys` and `Retire` decide by the log alone which files a task has to read.

A batch may have a key several times; its last row counts:
```
batch  id 1 2 1 3      last rows: 1 (of 2), 2 (of 1), 3 (of 3)
table  id 3 7 1        find:      3 for row 0, 2 for row 2
```
"""

from __future__ import annotations

import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.values import DeleteCondition
from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.state import physical_names
from lakeport.errors import InputError
from lakeport.model import Staged, Storage
from lakeport.schema.types import TIMESTAMP
from lakeport.shape import DELETED_AT, fit_column
from lakeport.writers.delta.files import (
    Bounds,
    TableFiles,
    collect_rewritten,
    read_bounds,
    read_in_parts,
)
from lakeport.writers.delta.sink import DeltaSink

if TYPE_CHECKING:
    from lakeport.writers.delta.plan import DeltaPlan


Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_HELD_BYTES = 64 << 20

_POSITION = "position in the batch"
_AS_PY = methodcaller("as_py")


@dataclass(frozen=True)
class RowMatches:
    """Positions of a file's rows that change, each with the matching row of the batch.

    Attributes:
        rows: positions of the rows in the file, sorted.
        chosen: for each, the position of its row in the batch; 0 where the change has no batch.
        unknown: number of rows that stay, as they have no value to decide by.
    """

    rows: Positions
    chosen: Positions
    unknown: int = field(default=0, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, end: int) -> RowMatches:
        """Return the matches in rows `start` to `end` (exclusive), with positions from `start` on.

        >>> RowMatches(np.array([1, 4, 6]), np.array([7, 8, 9])).slice(4, 6)
        RowMatches(rows=array([0]), chosen=array([8]))
        """
        first, last = np.searchsorted(self.rows, (start, end))
        return RowMatches(self.rows[first:last] - start, self.chosen[first:last])


class KeyIndex:
    """Index of a batch's keys: finds the batch's last row with the key of a row in a file.

    Keys of several columns become numbers, column by column. The number of a row's values so far
    and the place of its next value among that column's distinct ones make a pair. The place of
    that pair among the batch's own pairs is the next number. So a look-up costs one hash table and
    one sorted search a column, and no rows are put together.

    Args:
        columns: the key columns of the batch, without nulls.

    Example:
        >>> index = KeyIndex([pa.chunked_array([[1, 2, 1, 3]])])
        >>> index.last.tolist(), index.find([pa.chunked_array([[3, 7, 1]])])
        ([1, 2, 3], RowMatches(rows=array([0, 2]), chosen=array([3, 2])))
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._levels: list[tuple[pa.Array, Positions]] = []
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for column in map(_merge_zeros, columns):
            distinct = pc.unique(column)
            pairs = codes * len(distinct) + _index_in(column, distinct).to_numpy()
            known, codes = np.unique(pairs, return_inverse=True)
            self._levels.append((distinct, known))
        self._last = np.zeros(len(self._levels[-1][1]), dtype=np.int64)
        np.maximum.at(self._last, codes, np.arange(len(codes), dtype=np.int64))

    @property
    def last(self) -> Positions:
        """Positions of the last rows of all keys in the batch, sorted."""
        return np.sort(self._last)

    def find(self, columns: Sequence[pa.ChunkedArray]) -> RowMatches:
        """Match rows by key: return those whose key the batch has, each with its last row there.

        Args:
            columns: the rows' key columns, with the batch's types; nulls allowed.
        """
        levels = zip(map(_merge_zeros, columns), self._levels, strict=True)
        column, (distinct, _) = next(levels)
        rows, codes = _match_values(column, distinct)  # of one column each value is a key
        for column, (distinct, known) in levels:
            # Not by `take`, which joins the chunks: text of more than 2 GB does not fit in one.
            candidates = column.filter(pa.array(mask(rows, len(column))))
            kept, places = _match_values(candidates, distinct)
            rows, pairs = rows[kept], codes[kept] * len(distinct) + places
            # A pair above every known one would be found behind the end: compare with the last.
            codes = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
            is_known = known[codes] == pairs
            rows, codes = rows[is_known], codes[is_known]
        return RowMatches(rows, self._last[codes])


def _merge_zeros(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace -0.0 by 0.0, which are one key in SQL, but two values for Arrow."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _index_in(column: pa.ChunkedArray, distinct: pa.Array) -> pa.ChunkedArray:
    """Return each value's index in `distinct`; null for nulls and values that are not there.

    One call serves all chunks, as each call makes a hash table of the distinct values.
    """
    return pc.index_in(column, distinct, skip_nulls=True)


def _match_values(column: pa.ChunkedArray, distinct: pa.Array) -> tuple[Positions, Positions]:
    """Return the positions of values that are in `distinct`, and their indices there."""
    places = _index_in(column, distinct)
    # pyarrow before 26 crashes in `indices_nonzero` if there are no chunks.
    rows = np.flatnonzero(pc.is_valid(places).to_numpy())
    return rows.astype(np.int64), places.drop_null().to_numpy().astype(np.int64)


def mask(rows: Positions, count: int) -> Mask:
    """Return a mask of `count` rows that is true at these positions.

    >>> mask(np.array([0, 2]), 4).tolist()
    [True, False, True, False]
    """
    flags = np.zeros(count, dtype=bool)
    flags[rows] = True
    return flags


class KeyRanges:
    """Sorted keys of a batch, to check whether one lies within a data file's bounds.

    Args:
        columns: the key columns of the batch.

    Example:
        >>> ranges = KeyRanges([pa.chunked_array([[40, 10]]), pa.chunked_array([["b", "a"]])])
        >>> ranges.overlaps([(pa.scalar(11), pa.scalar(39)), None])
        False
        >>> ranges.overlaps([(pa.scalar(5), pa.scalar(20)), (pa.scalar("b"), pa.scalar("c"))])
        False
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        order = pc.sort_indices(columns[0])
        self._columns = [column.take(order).combine_chunks() for column in columns]

    def overlaps(self, bounds: Sequence[Bounds | None]) -> bool:
        """Whether a key of the batch lies within a file's bounds; None for a column: unknown."""
        first, start, end = self._columns[0], 0, len(self._columns[0])
        if bounds[0] is not None:
            low, high = (bound.as_py() for bound in bounds[0])
            start = bisect_left(first, low, key=_AS_PY)
            end = bisect_right(first, high, key=_AS_PY)
        inside: Any = None
        for column, bound in zip(self._columns[1:], bounds[1:], strict=True):
            if bound is not None and start < end:
                part = column.slice(start, end - start)
                within = pc.and_(pc.greater_equal(part, bound[0]), pc.less_equal(part, bound[1]))
                inside = within if inside is None else pc.and_(inside, within)
        return start < end and (inside is None or bool(pc.any(inside).as_py()))


@dataclass(frozen=True)
class MergeBatch:
    """A batch's rows in staged Parquet files, in the order of its records.

    Attributes:
        files: key and number of rows of each file.
        bytes: the files' size.
    """

    storage: Storage
    files: tuple[tuple[str, int], ...]
    schema: pa.Schema
    bytes: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(rows for _, rows in self.files)

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Read columns of all files into one table."""
        import pyarrow.parquet as pq

        parts = [self.schema.empty_table().select(list(names))]
        for key, _ in self.files:
            with self.storage.open(key) as source:
                parts.append(pq.read_table(source, columns=list(names)).cast(parts[0].schema))
        return pa.concat_tables(parts)

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, in batches of at most 131,072."""
        import pyarrow.parquet as pq

        for key, _ in self.files:
            with self.storage.open(key) as source:
                for batch in read_in_parts(pq.ParquetFile(source), 1 << 17):
                    yield batch.select(self.schema.names).cast(self.schema)

    def take(self, positions: Positions) -> pa.Table:
        """Return the rows at these sorted positions in the batch; reads all files."""
        parts = [self.schema.empty_table()]
        start = 0
        for batch in self.read_batches():
            first, end = np.searchsorted(positions, (start, start + len(batch)))
            if first < end:
                rows = batch.take(pa.array(positions[first:end] - start))
                parts.append(pa.Table.from_batches([rows]))
            start += len(batch)
        return pa.concat_tables(parts).combine_chunks()


@dataclass(frozen=True)
class NewRows:
    """Result of changing some rows of a file: the rows that stay, and the number removed.

    Attributes:
        rows: the rows that stay, changed; None for none.
        removed: number of rows removed.
        same: number of the rows that stay which had these values before.
    """

    rows: pa.RecordBatch | None
    removed: int = 0
    same: int = 0


@dataclass(frozen=True)
class Upsert:
    """Change of a merge: a row takes the values of the batch's last row with the same key.

    Attributes:
        schema: the table's columns.
        created: column whose value stays; empty for none.
        deleted: column that marks a key of the batch for removal; empty for none.
        updated: column with the time when a row last changed; empty for none.
        delete_when: the values of `deleted` that mark a key; None to decide by its type.
        soft_deleted: column whose value marks a row as deleted, which stays; empty for none.
        value_columns: columns beside the key and the marks. A marked record without a value in any
            of them is a bare mark, and leaves them as they are.
    """

    incoming: MergeBatch
    schema: pa.Schema
    merge_keys: tuple[str, ...]
    created: str
    deleted: str
    updated: str = ""
    delete_when: DeleteCondition | None = None
    soft_deleted: str = ""
    value_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a file that `match` needs: the keys."""
        return self.merge_keys

    @cached_property
    def index(self) -> KeyIndex:
        """Index of the batch's keys."""
        return KeyIndex(self.incoming.read_columns(self.merge_keys).columns)

    def match(self, table: pa.Table) -> RowMatches:
        """Return the rows that have a key of the batch."""
        return self.index.find(table.columns)

    def read_context(self, chosen: Positions) -> pa.Table | None:
        """Read the batch rows at `chosen`, or all last rows if below 64 MB, with positions."""
        if self._last_rows is not None:
            return self._last_rows
        positions = np.unique(chosen)
        return _append_positions(self.incoming.take(positions), positions)

    def apply(self, rows: pa.RecordBatch, chosen: Positions, context: pa.Table | None) -> NewRows:
        """Give table rows the batch's values, or remove them; columns absent in the batch stay.

        Args:
            rows: rows of the table.
            chosen: for each, the position in the batch of the row that it takes.
            context: as `read_context` returns it.
        """
        assert context is not None
        places = np.searchsorted(context.column(_POSITION).to_numpy(), chosen)
        new = context.take(pa.array(places))
        if self.deleted:
            stay = pc.invert(deleted_rows(new.column(self.deleted), self.delete_when))
            rows, new = rows.filter(stay.combine_chunks()), new.filter(stay)
        bare = self._bare_marks(new)
        names = {name.lower(): name for name in self.incoming.schema.names}
        arrays, same = [], np.ones(len(rows), dtype=bool)
        for column in self.schema:
            old = rows.column(column.name)
            name = names.get(column.name.lower())
            if name is None:
                arrays.append(old)
                continue
            value = new.column(name).combine_chunks()
            if bare is not None and name in self.value_columns:
                value = pc.if_else(bare, old, value)
            arrays.append(pc.coalesce(old, value) if column.name == self.created else value)
            if column.name not in (self.created, self.updated):
                same[same] = _equal(old, value, same)
        changed = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return NewRows(changed, len(chosen) - len(rows), int(same.sum()))

    def _bare_marks(self, rows: pa.Table | pa.RecordBatch) -> pa.Array | None:
        """Return a mask of rows with a deletion mark but no values; None if there are none."""
        if not (self.soft_deleted and self.value_columns):
            return None
        flags = pc.is_valid(rows.column(self.soft_deleted))
        for name in self.value_columns:
            flags = pc.and_(flags, pc.is_null(rows.column(name)))
        bare = flags.combine_chunks() if isinstance(flags, pa.ChunkedArray) else flags
        return bare if bare.true_count else None

    def fill_marked_rows(self) -> pa.Table | None:
        """Return last rows with only a deletion mark, filled from an earlier row; None if none.

        None if no key has both a bare mark as its last row and an earlier row with values.
        """
        if not (self.soft_deleted and self.value_columns):
            return None
        deletion_marks = self.incoming.read_columns([self.soft_deleted]).column(0)
        if deletion_marks.null_count == self.incoming.rows:
            return None
        masks = [(self._bare_marks(batch), len(batch)) for batch in self.incoming.read_batches()]
        flags = np.concatenate(
            [
                np.zeros(n, bool) if mask is None else mask.to_numpy(zero_copy_only=False)
                for mask, n in masks
            ]
        )
        keys, whole = self.incoming.read_columns(self.merge_keys), np.flatnonzero(~flags)
        marks = self.index.last[flags[self.index.last]]
        if not len(marks) or not len(whole):
            return None
        index = KeyIndex(keys.take(pa.array(whole)).columns)
        matches = index.find(keys.take(pa.array(marks)).columns)
        if not len(matches):
            return None
        rows = self.incoming.take(marks[matches.rows])
        positions = np.unique(whole[matches.chosen])
        order = np.searchsorted(positions, whole[matches.chosen])
        values = self.incoming.take(positions).take(pa.array(order))
        for name in self.value_columns:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), values.column(name))
        return rows.combine_chunks()

    @cached_property
    def _last_rows(self) -> pa.Table | None:
        """The batch's last row of each key, cached for a task's files; None above 64 MB."""
        if self.incoming.bytes > _HELD_BYTES:
            return None
        last = self.index.last
        return _append_positions(self.incoming.take(last), last)


@dataclass(frozen=True)
class Retire:
    """Change that removes rows of earlier stream versions, or marks them as deleted.

    Attributes:
        version_column: column with the stream version of a row; a row without one stays.
        version: the stream's active version.
        deleted: column that marks a row as deleted; empty to remove the rows.
        updated: column with the time when a row last changed; empty for none.
        clock: the time that both columns get.
    """

    version_column: str
    version: int
    deleted: str
    updated: str
    clock: datetime

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a file that `match` needs: the version, and the mark of deleted rows."""
        return (self.version_column, *filter(None, [self.deleted]))

    def may_be_in(self, file: DataFile, plan: DeltaPlan) -> bool:
        """Whether a file may, by its bounds, hold a row of an older stream version or of none."""
        (bounds,) = _read_all_bounds(file, plan, [self.version_column])
        if bounds is None or isinstance(bounds, str):
            return True
        name = physical_names(plan.schema_json, [self.version_column])[self.version_column]
        nulls = (file.statistics().null_count or {}).get(name)
        return nulls != 0 or bool(bounds[0].as_py() < self.version)

    def match(self, table: pa.Table) -> RowMatches:
        """Return the rows of older versions not marked yet; count the rows without a version."""
        versions = table.column(self.version_column)
        old = pc.fill_null(pc.less(versions, self.version), False)
        if self.deleted:
            old = pc.and_(old, pc.is_null(table.column(self.deleted)))
        rows = np.flatnonzero(old.to_numpy())
        return RowMatches(rows, np.zeros_like(rows), versions.null_count)

    def read_context(self, chosen: Positions) -> pa.Table | None:
        """Return None: retiring needs no rows of a batch."""
        return None

    def apply(self, rows: pa.RecordBatch, chosen: Positions, context: pa.Table | None) -> NewRows:
        """Mark the rows as deleted, or remove them; `chosen` and `context` are not used."""
        if not self.deleted:
            return NewRows(None, len(rows))
        for name in filter(None, (self.deleted, self.updated)):
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            stamp = pa.scalar(self.clock, TIMESTAMP).cast(field.type, safe=False)
            rows = rows.set_column(place, field, pa.repeat(stamp, len(rows)))
        return NewRows(rows)


@dataclass(frozen=True)
class BatchKeys:
    """A batch's keys on the driver, to find the files to read and the rows to insert.

    Attributes:
        last: positions of the last rows of all keys, sorted.
        inserted: positions of the last rows that are inserted if no row of the table matches.
    """

    columns: pa.Table
    last: Positions
    inserted: Positions
    ranges: KeyRanges

    @classmethod
    def read(cls, change: Upsert) -> BatchKeys:
        """Read a staged batch's keys, and find the last row of each key.

        Raises:
            InputError: a row has no value in a key column, or the mark of deletion is unclear.
        """
        names = [*change.merge_keys, *filter(None, [change.deleted])]
        table = change.incoming.read_columns(list(dict.fromkeys(names)))
        if change.deleted and change.delete_when is None and change.deleted.lower() != DELETED_AT:
            _check_marks(change.deleted, table.column(change.deleted))
        columns = table.select(list(change.merge_keys))
        for name in change.merge_keys:
            empty = columns.column(name).null_count
            if empty:
                raise InputError(
                    f"{empty} of the batch's {len(table)} rows have no value in {name!r}, by "
                    "which it is merged",
                    "give every record a value there, or name other `merge_keys`.",
                )
        last = KeyIndex(columns.columns).last
        inserted = last
        if change.deleted:
            removed = deleted_rows(table.column(change.deleted), change.delete_when).to_numpy()
            inserted = last[~removed[last]]
        return cls(columns, last, inserted, KeyRanges(columns.columns))

    def __len__(self) -> int:
        return len(self.columns)

    def may_be_in(self, file: DataFile, plan: DeltaPlan) -> bool:
        """Whether a file may hold a row with one of the keys, by its bounds; True if unknown."""
        known: list[Bounds | None] = []
        for bounds in _read_all_bounds(file, plan, self.columns.column_names):
            if isinstance(bounds, str):
                return False
            known.append(bounds)
        try:
            return self.ranges.overlaps(known)
        except (ValueError, OverflowError):  # a time that Python's own types can't hold
            return True

    def unmatched(self, matched: Iterable[Positions]) -> Positions:
        """Return the sorted positions of the rows to insert: all but deletions and matched rows."""
        is_matched = np.zeros(len(self.columns), dtype=bool)
        for positions in matched:
            is_matched[positions] = True
        return self.inserted[~is_matched[self.inserted]]


def deleted_rows(column: pa.ChunkedArray, when: DeleteCondition | None = None) -> pa.ChunkedArray:
    """Return a mask of rows marked as deleted: true if boolean, otherwise any value but null.

    With a condition, its values mark a row in place of that rule; any value if it lists none.

    >>> deleted_rows(pa.chunked_array([[True, False, None]])).to_pylist()
    [True, False, False]
    >>> when = DeleteCondition("op", ("D",))
    >>> deleted_rows(pa.chunked_array([["I", "D", None]]), when).to_pylist()
    [False, True, False]
    """
    if when is not None:
        values = pa.array(when.values).cast(column.type)
        return pc.is_in(column, value_set=values) if when.values else pc.is_valid(column)
    return pc.fill_null(column, False) if column.type == pa.bool_() else pc.is_valid(column)


def _check_marks(name: str, column: pa.ChunkedArray) -> None:
    """Raise InputError if a text or number column doesn't clearly tell which rows are deleted.

    That is, if it has several different values, or one in every row.
    """
    of_times = pa.types.is_boolean(column.type) or pa.types.is_temporal(column.type)
    values = len(pc.unique(column.drop_null()))
    if of_times or not values or (values == 1 and column.null_count):
        return
    kinds = f"{values} different values" if values > 1 else "one value in every row"
    plain = name.isidentifier()
    subject = name if plain else "`" + name.replace("`", "``") + "`"
    example = "'D'" if pa.types.is_string(column.type) else "1"
    ways = (f"{subject} = {example}", f"{subject} IS NOT NULL")
    one, each = ("--delete-when " + (f'"{way}"' if plain else shlex.quote(way)) for way in ways)
    raise InputError(
        f"column {name!r} has {kinds}, so that it does not say which rows are deleted",
        f"name the value that means so: `{one}` (`delete_when`), or `{each}` if each value does.",
    )


def _equal(one: pa.Array, other: pa.Array, where: Mask) -> Mask:
    """Return which values are equal, for the rows in `where` alone; two nulls or NaNs are equal."""
    selected = pa.array(where)
    one, other = one.filter(selected), other.filter(selected)
    if pa.types.is_nested(one.type):
        pairs = zip(one, other, strict=True)  # not as Python's values, which lack year 10000
        return np.fromiter((a.equals(b) for a, b in pairs), dtype=bool, count=len(one))
    nothing = {"nan_is_null": pa.types.is_floating(one.type)}
    both_empty = pc.and_(pc.is_null(one, **nothing), pc.is_null(other, **nothing))
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), both_empty)
    flags: Mask = same.to_numpy(zero_copy_only=False)
    return flags


def _append_positions(rows: pa.Table, positions: Positions) -> pa.Table:
    """Append the column of positions in the batch."""
    return rows.append_column(_POSITION, pa.array(positions))


def _read_all_bounds(
    file: DataFile, plan: DeltaPlan, columns: Sequence[str]
) -> list[Bounds | str | None]:
    """Return each column's bounds in a file: None if unknown, `NO_VALUES` if all are null."""
    statistics, types = file.statistics(), plan.schema
    names = physical_names(plan.schema_json, columns).items()
    return [
        read_bounds(file, statistics, physical, types.field(name).type) for name, physical in names
    ]


Change = Upsert | Retire
"""A change of rows in a table's files. Pickled into tasks, which build its indexes."""


@dataclass(frozen=True)
class RewrittenFile:
    """Result of rewriting one data file: new files and row counts; no files if no row changed.

    Attributes:
        path: the file's path in the log.
        staged: the files that take its place.
        copied: number of rows left as they were.
        same: number of updated rows that had these values before.
        matched: positions of the batch's rows that rows of the file took.
        unknown: see `RowMatches`. A file with such rows alone stays as it is.
    """

    path: str
    staged: tuple[Staged, ...]
    copied: int
    updated: int
    deleted: int
    same: int
    matched: Positions
    unknown: int = 0

    @property
    def changed(self) -> int:
        """Number of rows that were changed or removed."""
        return self.updated + self.deleted


@dataclass(frozen=True)
class FileRewriter:
    """Rewrites those of a task's data files that have rows to change. Picklable."""

    table: TableFiles
    change: Change
    sink: DeltaSink

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[RewrittenFile]:
        """Rewrite a task's files; `item` is the task's number and its files."""
        return collect_rewritten(self.sink.storage, self._files(*item))

    def _files(self, task_number: int, files: Sequence[DataFile]) -> Iterator[RewrittenFile]:
        """Rewrite files with matching rows; yield results, also for files with undecidable rows."""
        for file in files:
            matches = self.change.match(self.table.read_columns(file, self.change.columns))
            if len(matches):
                yield self._rewrite(file, matches, task_number)
            elif matches.unknown:
                yield RewrittenFile(file.path, (), 0, 0, 0, 0, matches.chosen, matches.unknown)

    def _rewrite(self, file: DataFile, matches: RowMatches, task_number: int) -> RewrittenFile:
        """Stage new files with a file's rows, matched rows changed or removed; return counts."""
        context = self.change.read_context(matches.chosen)
        counts = {"copied": 0, "updated": 0, "deleted": 0, "same": 0}

        def changed() -> Iterator[pa.RecordBatch]:
            start = 0
            for batch in self.table.read_batches(file):
                part = matches.slice(start, start + len(batch))
                start += len(batch)
                counts["copied"] += len(batch) - len(part)
                if not len(part):
                    yield batch
                    continue
                yield _drop_rows(batch, part.rows)
                new = self.change.apply(batch.take(pa.array(part.rows)), part.chosen, context)
                counts["deleted"] += new.removed
                counts["updated"] += len(part) - new.removed
                counts["same"] += new.same
                if new.rows is not None:
                    yield new.rows

        staged = self.sink.for_rewrite(file.path).write(changed(), task_number)
        matched = np.unique(matches.chosen)
        return RewrittenFile(
            file.path, tuple(staged), **counts, matched=matched, unknown=matches.unknown
        )


def _drop_rows(batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
    """Return a batch without the rows at these positions."""
    left = pa.array(~mask(rows, len(batch)))
    # Arrow copies runs of rows when it filters a column, but single rows when it filters a batch.
    columns = [column.filter(left) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def insert(
    schema: pa.Schema, sink: DeltaSink, item: tuple[int, MergeBatch, Positions]
) -> list[Staged]:
    """Stage rows of a batch as new rows of the table; `item`: task number, batch, positions.

    Args:
        schema: the table's columns; those that the batch lacks become null.
        sink: stages the new files.
        item: number of the task, a part of the batch, and the rows' sorted positions in it.
    """
    number, incoming, positions = item

    def rows() -> Iterator[pa.RecordBatch]:
        names = {name.lower(): name for name in incoming.schema.names}
        start = 0
        for batch in incoming.read_batches():
            first, end = np.searchsorted(positions, (start, start + len(batch)))
            part = batch.take(pa.array(positions[first:end] - start))
            start += len(batch)
            arrays = [
                fit_column(
                    part.column(names[field.name.lower()]) if field.name.lower() in names else None,
                    field,
                    len(part),
                )
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return sink.write(rows(), number)
