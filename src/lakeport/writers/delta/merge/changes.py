"""What a merge does to the rows of a table: the batch that comes in, and the two kinds of change.

```
Upsert   rows with a key of the batch take its values, or go
Retire   rows of earlier versions are marked as deleted, or go
```
They are pickled into tasks, where each makes what it needs from the batch's staged files. On the
driver they tell, by the log alone, which files of the table have to be looked into.

```
batch  id 1 2 1 3      last rows: 1 (of 2), 2 (of 1), 3 (of 3)
table  id 3 7 1        find:      3 for row 0, 2 for row 2
```

```
batch (staged)  ─┬─▶ rewrite: one file of the table ─▶ nothing, or its new files
                 └─▶ insert: one staged file, some of its rows ─▶ new files
```
They run in Spark tasks. A task reads the batch from the staged files itself.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.keys import DeleteCondition
from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.state import physical_names
from lakeport.errors import InputError
from lakeport.model import Staged, Storage
from lakeport.schema.types import TIMESTAMP
from lakeport.shape import DELETED_AT, fit_column
from lakeport.writers.delta.merge.files import (
    Bounds,
    TableFiles,
    bounds,
    collect_rewritten,
    read_in_parts,
)
from lakeport.writers.delta.sink import DeltaSink

if TYPE_CHECKING:
    from lakeport.writers.delta.plan import DeltaPlan


Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_HELD_BYTES = 64 << 20

_POSITION = "position in the batch"


@dataclass(frozen=True)
class Hits:
    """Positions of the rows that a change touches, and the batch's row that each one takes.

    Attributes:
        rows: their positions, sorted.
        chosen: for each, the position of that row in the batch; 0 where the change has no batch.
        unknown: how many rows are left as they are for want of a value to choose them by.
    """

    rows: Positions
    chosen: Positions
    unknown: int = field(default=0, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> Hits:
        """Return the hits within a range of rows, counted from its start.

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


@dataclass(frozen=True)
class Incoming:
    """A batch in staged files, in the order of its records.

    Attributes:
        storage: where the files are.
        files: key and number of rows of each.
        schema: their columns.
        bytes: their size.
    """

    storage: Storage
    files: tuple[tuple[str, int], ...]
    schema: pa.Schema
    bytes: int

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(rows for _, rows in self.files)

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows."""
        import pyarrow.parquet as pq

        parts = [self.schema.empty_table().select(list(names))]
        for key, _ in self.files:
            with self.storage.open(key) as source:
                parts.append(pq.read_table(source, columns=list(names)).cast(parts[0].schema))
        return pa.concat_tables(parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in order."""
        import pyarrow.parquet as pq

        for key, _ in self.files:
            with self.storage.open(key) as source:
                for batch in read_in_parts(pq.ParquetFile(source), 1 << 17):
                    yield batch.select(self.schema.names).cast(self.schema)

    def take(self, positions: Positions) -> pa.Table:
        """The rows at sorted positions."""
        parts = [self.schema.empty_table()]
        start = 0
        for batch in self.batches():
            first, end = np.searchsorted(positions, (start, start + len(batch)))
            if first < end:
                rows = batch.take(pa.array(positions[first:end] - start))
                parts.append(pa.Table.from_batches([rows]))
            start += len(batch)
        return pa.concat_tables(parts).combine_chunks()


@dataclass(frozen=True)
class NewRows:
    """The rows that a change makes of a file's rows.

    Attributes:
        rows: those that stay.
        removed: how many were removed.
        same: how many of those that stay had their values before.
    """

    rows: pa.RecordBatch | None
    removed: int = 0
    same: int = 0


@dataclass(frozen=True)
class Upsert:
    """The rows with a key of the batch take the values of its last row with that key.

    Attributes:
        incoming: the batch.
        schema: the table's columns.
        merge_keys: the columns that identify a row.
        created: column whose value stays; empty for none.
        deleted: column that marks a row of the batch as deleted; empty for none.
        updated: column that tells when a row last changed; empty for none.
        when: which values of `deleted` do; None to tell by its type.
        soft: column whose value marks a row that stays as deleted; empty for none.
        own: columns that a record brings beside its key and its marks. A marked record without a
            value in any of them brings its key alone, and leaves them as they are.
    """

    incoming: Incoming
    schema: pa.Schema
    merge_keys: tuple[str, ...]
    created: str
    deleted: str
    updated: str = ""
    when: DeleteCondition | None = None
    soft: str = ""
    own: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys."""
        return self.merge_keys

    @cached_property
    def index(self) -> KeyIndex:
        """The batch's keys."""
        return KeyIndex(self.incoming.columns(self.merge_keys).columns)

    def choose(self, table: pa.Table) -> Hits:
        """Rows with a key of the batch, and positions of the batch's rows with the same."""
        return self.index.find(table.columns)

    def context(self, chosen: Positions) -> pa.Table | None:
        """The batch's rows that the file needs, with their positions in the batch."""
        if self._whole is not None:
            return self._whole
        positions = np.unique(chosen)
        return _numbered(self.incoming.take(positions), positions)

    def apply(self, rows: pa.RecordBatch, chosen: Positions, context: pa.Table | None) -> NewRows:
        """The batch's values; the table's own in the columns that the batch lacks."""
        assert context is not None
        places = np.searchsorted(context.column(_POSITION).to_numpy(), chosen)
        new = context.take(pa.array(places))
        if self.deleted:
            stay = pc.invert(deleted_rows(new.column(self.deleted), self.when))
            rows, new = rows.filter(stay.combine_chunks()), new.filter(stay)
        bare = self.bare(new)
        there = {name.lower(): name for name in self.incoming.schema.names}
        arrays, same = [], np.ones(len(rows), dtype=bool)
        for column in self.schema:
            old = rows.column(column.name)
            name = there.get(column.name.lower())
            if name is None:
                arrays.append(old)
                continue
            value = new.column(name).combine_chunks()
            if bare is not None and name in self.own:
                value = pc.if_else(bare, old, value)
            arrays.append(pc.coalesce(old, value) if column.name == self.created else value)
            if column.name not in (self.created, self.updated):
                same[same] = _equal(old, value, same)
        changed = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return NewRows(changed, len(chosen) - len(rows), int(same.sum()))

    def bare(self, rows: pa.Table | pa.RecordBatch) -> pa.Array | None:
        """Which rows bring their key and a mark alone; None where no row does."""
        if not (self.soft and self.own):
            return None
        found = pc.is_valid(rows.column(self.soft))
        for name in self.own:
            found = pc.and_(found, pc.is_null(rows.column(name)))
        whole = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        return whole if whole.true_count else None

    def filled(self) -> pa.Table | None:
        """Return last rows that bring a mark alone, with the values of the row before them.

        Only those of keys that an earlier row of the batch has values for; None if there is none.
        """
        if not (self.soft and self.own):
            return None
        if self.incoming.columns([self.soft]).column(0).null_count == self.incoming.rows:
            return None
        masks = [(self.bare(batch), len(batch)) for batch in self.incoming.batches()]
        flags = np.concatenate(
            [
                np.zeros(n, bool) if mask is None else mask.to_numpy(zero_copy_only=False)
                for mask, n in masks
            ]
        )
        keys, whole = self.incoming.columns(self.merge_keys), np.flatnonzero(~flags)
        marks = self.index.last[flags[self.index.last]]
        if not len(marks) or not len(whole):
            return None
        hits = KeyIndex(keys.take(pa.array(whole)).columns).find(keys.take(pa.array(marks)).columns)
        if not len(hits):
            return None
        rows = self.incoming.take(marks[hits.rows])
        positions = np.unique(whole[hits.chosen])
        order = np.searchsorted(positions, whole[hits.chosen])
        values = self.incoming.take(positions).take(pa.array(order))
        for name in self.own:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), values.column(name))
        return rows.combine_chunks()

    @cached_property
    def _whole(self) -> pa.Table | None:
        """The last rows of all keys, if they are small enough to keep for all files of a task."""
        if self.incoming.bytes > _HELD_BYTES:
            return None
        last = self.index.last
        return _numbered(self.incoming.take(last), last)


@dataclass(frozen=True)
class Retire:
    """Rows of versions before one are removed, or marked as deleted.

    Attributes:
        version_column: holds the version that a row came with; a row with none stays as it is.
        version: the version that has become the active one.
        deleted: column that is set; empty to remove the rows.
        updated: column that tells when a row last changed; empty for none.
        clock: what both are set to.
    """

    version_column: str
    version: int
    deleted: str
    updated: str
    clock: datetime

    @property
    def columns(self) -> tuple[str, ...]:
        """The version, and the mark that a row may have."""
        return (self.version_column, *filter(None, [self.deleted]))

    def may_be_in(self, file: DataFile, plan: DeltaPlan) -> bool:
        """Whether a file may hold a row of an earlier version or of none, as its bounds tell."""
        (found,) = _bounds_of(file, plan, [self.version_column])
        if found is None or isinstance(found, str):
            return True
        name = physical_names(plan.schema_json, [self.version_column])[self.version_column]
        nulls = (file.statistics().null_count or {}).get(name)
        return nulls != 0 or bool(found[0].as_py() < self.version)

    def choose(self, table: pa.Table) -> Hits:
        """Rows of earlier versions that have no mark yet, all for the same."""
        versions = table.column(self.version_column)
        old = pc.fill_null(pc.less(versions, self.version), False)
        if self.deleted:
            old = pc.and_(old, pc.is_null(table.column(self.deleted)))
        rows = np.flatnonzero(old.to_numpy())
        return Hits(rows, np.zeros_like(rows), versions.null_count)

    def context(self, chosen: Positions) -> pa.Table | None:
        """Return None: retiring needs no rows of a batch."""
        return None

    def apply(self, rows: pa.RecordBatch, chosen: Positions, context: pa.Table | None) -> NewRows:
        """The rows with their mark, or none."""
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
    """The keys of a batch, on the driver: which files have to be looked into, which rows are new.

    Attributes:
        columns: the key columns.
        last: positions of the last rows of all keys, sorted.
        inserted: those of them that are inserted where no row of the table matches.
        ranges: tells by the bounds of a file whether it may hold any of the keys.
    """

    columns: pa.Table
    last: Positions
    inserted: Positions
    ranges: KeyRanges

    @classmethod
    def read(cls, change: Upsert) -> BatchKeys:
        """Read the keys of a staged batch.

        Raises:
            InputError: a row has no value in a key column.
        """
        names = [*change.merge_keys, *filter(None, [change.deleted])]
        table = change.incoming.columns(list(dict.fromkeys(names)))
        if change.deleted and change.when is None and change.deleted.lower() != DELETED_AT:
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
            gone = deleted_rows(table.column(change.deleted), change.when).to_numpy()
            inserted = last[~gone[last]]
        return cls(columns, last, inserted, KeyRanges(columns.columns))

    def __len__(self) -> int:
        return len(self.columns)

    def may_be_in(self, file: DataFile, plan: DeltaPlan) -> bool:
        """Whether a file may hold a row with one of the keys, as its bounds tell."""
        found = _bounds_of(file, plan, self.columns.column_names)
        known: list[Bounds | None] = []
        for item in found:
            if isinstance(item, str):
                return False
            known.append(item)
        try:
            return self.ranges.meets(known)
        except (ValueError, OverflowError):  # a moment that Python's own types can't hold
            return True

    def unmatched(self, matched: Iterable[Positions]) -> Positions:
        """Positions of the rows to insert: those that no file of the table had a row for."""
        there = np.zeros(len(self.columns), dtype=bool)
        for positions in matched:
            there[positions] = True
        return self.inserted[~there[self.inserted]]


def deleted_rows(column: pa.ChunkedArray, when: DeleteCondition | None = None) -> pa.ChunkedArray:
    """Which rows a column marks: those with true in a boolean one, with any value in another.

    Args:
        column: of the batch.
        when: says which values mark a row, in place of that rule.

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
    """Refuse a column of text or numbers whose values need not all mean that a row is deleted.

    Raises:
        InputError: it has several values, or one in every row.
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
    """Whether values are the same, of the rows asked about; nulls are, and so are NaNs."""
    asked = pa.array(where)
    one, other = one.filter(asked), other.filter(asked)
    if pa.types.is_nested(one.type):
        pairs = zip(one, other, strict=True)  # not as Python's values, which lack year 10000
        return np.fromiter((a.equals(b) for a, b in pairs), dtype=bool, count=len(one))
    nothing = {"nan_is_null": pa.types.is_floating(one.type)}
    both_empty = pc.and_(pc.is_null(one, **nothing), pc.is_null(other, **nothing))
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), both_empty)
    found: Mask = same.to_numpy(zero_copy_only=False)
    return found


def _numbered(rows: pa.Table, positions: Positions) -> pa.Table:
    return rows.append_column(_POSITION, pa.array(positions))


def _bounds_of(
    file: DataFile, plan: DeltaPlan, columns: Sequence[str]
) -> list[Bounds | str | None]:
    statistics = file.statistics()
    names = physical_names(plan.schema_json, columns).items()
    return [bounds(file, statistics, there, plan.schema.field(name).type) for name, there in names]


Change = Upsert | Retire
"""What is done to the rows of a table's files. Pickled into tasks; state is made there."""


@dataclass(frozen=True)
class RewrittenFile:
    """A file of the table that has rows to change.

    Attributes:
        path: the file, as the log names it.
        staged: what takes its place.
        copied: rows left as they were.
        updated: rows changed.
        deleted: rows removed.
        same: rows among those changed that had the values before.
        matched: positions of the batch's rows that rows of the file took up.
        unknown: see `Hits`. Such a file may have no row to change, and then stays as it is.
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
        """How many rows were changed or removed."""
        return self.updated + self.deleted


@dataclass(frozen=True)
class Rewrite:
    """Task kernel that rewrites the files of a table which have rows to change.

    Attributes:
        table: how they are read.
        change: what is done to their rows.
        sink: where the new files go.
    """

    table: TableFiles
    change: Change
    sink: DeltaSink

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[RewrittenFile]:
        """Rewrite those of a task's files that have rows to change."""
        return collect_rewritten(self.sink.storage, self._files(*item))

    def _files(self, number: int, files: Sequence[DataFile]) -> Iterator[RewrittenFile]:
        for file in files:
            hits = self.change.choose(self.table.columns(file, self.change.columns))
            if len(hits):
                yield self._rewrite(file, hits, number)
            elif hits.unknown:
                nothing = (0, 0, 0, 0, hits.chosen, hits.unknown)
                yield RewrittenFile(file.path, (), *nothing)

    def _rewrite(self, file: DataFile, hits: Hits, number: int) -> RewrittenFile:
        context = self.change.context(hits.chosen)
        counts = {"copied": 0, "updated": 0, "deleted": 0, "same": 0}

        def changed() -> Iterator[pa.RecordBatch]:
            start = 0
            for batch in self.table.batches(file):
                part = hits.part(start, start + len(batch))
                start += len(batch)
                counts["copied"] += len(batch) - len(part)
                if not len(part):
                    yield batch
                    continue
                yield _drop_rows(batch, part.rows)
                done = self.change.apply(batch.take(pa.array(part.rows)), part.chosen, context)
                counts["deleted"] += done.removed
                counts["updated"] += len(part) - done.removed
                counts["same"] += done.same
                if done.rows is not None:
                    yield done.rows

        staged = self.sink.in_place_of(file.path).write(changed(), number)
        matched = np.unique(hits.chosen)
        return RewrittenFile(
            file.path, tuple(staged), **counts, matched=matched, unknown=hits.unknown
        )


def _drop_rows(batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
    """A batch without some of its rows."""
    left = pa.array(~mask(rows, len(batch)))
    # Column by column Arrow copies what lies between the rows; a whole batch it takes row by row.
    columns = [column.filter(left) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def insert(
    schema: pa.Schema, sink: DeltaSink, item: tuple[int, Incoming, Positions]
) -> list[Staged]:
    """Write some of a batch's rows as new rows of the table.

    Args:
        schema: the table's columns; null where the batch lacks them.
        sink: where the new files go.
        item: number of the task, a part of the batch, and the rows' sorted positions in it.
    """
    number, incoming, positions = item

    def rows() -> Iterator[pa.RecordBatch]:
        there = {name.lower(): name for name in incoming.schema.names}
        start = 0
        for batch in incoming.batches():
            first, end = np.searchsorted(positions, (start, start + len(batch)))
            part = batch.take(pa.array(positions[first:end] - start))
            start += len(batch)
            arrays = [
                fit_column(
                    part.column(there[field.name.lower()]) if field.name.lower() in there else None,
                    field,
                    len(part),
                )
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return sink.write(rows(), number)
