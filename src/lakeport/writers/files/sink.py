"""Sink of file destinations: encode the batches of one task and stage them as objects.

Every object has its key from the start, as some stores can't rename a staged object. Task `i` of
`n` takes the ordinals `i`, `i + n`, `i + 2n` and so on, so that no two tasks take the same. Where a
store can rename staged objects, the driver closes the gaps when it publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from lakeport.model import Staged, Storage
from lakeport.writers.files.encode import Encoder
from lakeport.writers.naming import check_key, object_name
from lakeport.writers.timing import measure_upload

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.writers.parquet import EncodedFile

_TARGET_BYTES = 256 << 20


@dataclass(frozen=True)
class ObjectNames:
    """Makes the keys of one batch's objects; ConfigError for a key above 1024 bytes.

    Attributes:
        folder: the objects' folder, without a slash at either end.
        clock: the batch's one clock reading.
        extension: the names' end without its dot, such as `csv.gz`.
        unique: text that makes names unique where the store ignores create-only conditions.
        first: the lowest ordinal that may be free.
        tasks: number of tasks that share the ordinals.
    """

    folder: str
    clock: datetime
    extension: str
    unique: str = ""
    first: int = 0
    tasks: int = 1

    def key(self, ordinal: int) -> str:
        """Return the key of the object with an ordinal, such as `t/20240304-153045-2.csv`."""
        name = object_name(self.clock, self.extension, ordinal, self.unique)
        return check_key(f"{self.folder}/{name}")

    def task_key(self, task: int, part: int) -> str:
        """Return the key of a task's object; `part` counts the task's objects from 0.

        A task beyond the planned number has `p` and its index in its keys.
        """
        if task < self.tasks:
            return self.key(self.first + task + part * self.tasks)
        unique = f"{self.unique}p{task}"
        name = object_name(self.clock, self.extension, self.first + part, unique)
        return check_key(f"{self.folder}/{name}")


@dataclass(frozen=True)
class RowRange:
    """A range of one task's rows, in the order in which the task reads them; `end` is exclusive."""

    start: int
    end: int


@dataclass(frozen=True)
class FileSink:
    """Encodes and stages the rows of one task. Picklable.

    Attributes:
        target_bytes: size at which an object is finished and the next one begun.
        landed: task -> row ranges that are visible already and are left out, in order.
    """

    storage: Storage
    encoder: Encoder
    schema: pa.Schema
    names: ObjectNames
    target_bytes: int = _TARGET_BYTES
    landed: Mapping[int, tuple[RowRange, ...]] = field(default_factory=dict)

    def write(self, batches: Iterator[pa.RecordBatch], split: int) -> list[Staged]:
        """Stage the rows of task `split`; return its objects, none for no rows.

        On any error, as DestinationError if the store refuses, nothing of the task stays staged.
        """
        staged: list[Staged] = []
        key, file = "", None
        try:
            for batch in _skip_landed(batches, self.landed.get(split, ())):
                if file is None:
                    key = self.names.task_key(split, len(staged))
                    file = self._begin(key)
                file.write(batch)
                if file.bytes_written >= self.target_bytes:
                    staged.append(file.finish(key, split))
                    file = None
            if file is not None:
                staged.append(file.finish(key, split))
        except BaseException:
            if file is not None:
                file.abort()
            for one in staged:
                self.storage.discard(one)
            raise
        return staged

    def _begin(self, key: str) -> EncodedFile:
        """Begin an object: open an upload and its encoder; abort the upload on an error."""
        out = measure_upload(self.storage.stage(key, self.encoder.content_type))
        try:
            return self.encoder.open(self.schema, out)
        except BaseException:
            out.abort()
            raise


def _skip_landed(
    batches: Iterator[pa.RecordBatch], landed: tuple[RowRange, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows outside of the `landed` ranges, as slices of the batches."""
    end = 0
    for batch in batches:
        first, end = end, end + batch.num_rows
        at = first
        for rows in landed:
            if at < min(rows.start, end):
                yield batch.slice(at - first, min(rows.start, end) - at)
            at = max(at, min(rows.end, end))
        if at < end:
            yield batch.slice(at - first)


def visible_rows(
    before: Sequence[RowRange], objects: Sequence[int], visible: Sequence[bool]
) -> tuple[RowRange, ...]:
    """Return the ranges of a task's rows that are visible, once some of its objects are published.

    Args:
        before: ranges that were visible before, in order; the objects have the rows between them.
        objects: number of rows of each object, in the order in which the task wrote them.
        visible: which of the objects are visible now.

    >>> visible_rows([RowRange(2, 4)], [3, 5], [True, False])
    (RowRange(start=0, end=2), RowRange(start=2, end=4), RowRange(start=4, end=5))
    """
    ranges, gaps, at = list(before), list(before), 0
    for rows, seen in zip(objects, visible, strict=True):
        left = rows
        while left:
            if gaps and gaps[0].start <= at:
                at = gaps.pop(0).end
                continue
            step = min(left, gaps[0].start - at) if gaps else left
            if seen:
                ranges.append(RowRange(at, at + step))
            at, left = at + step, left - step
    return tuple(sorted(ranges, key=lambda rows: rows.start))
