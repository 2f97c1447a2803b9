"""Sink kernel of file destinations: one task's batches -> staged objects.

Every object has a name from the start, because some stores bind an object to it: task `i` of `n`
takes the ordinals `i`, `i + n`, `i + 2n` and so on, so that tasks never meet. Where a store can
rename what is staged, the driver closes the gaps when it publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from lakeport.model import Staged, Storage
from lakeport.writers.files.encode import Encoder
from lakeport.writers.naming import check_key, object_name
from lakeport.writers.stopwatch import measure_upload

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.writers.parquet import EncodedFile

_TARGET_BYTES = 256 << 20


@dataclass(frozen=True)
class Names:
    """The keys of one batch's objects.

    Attributes:
        folder: the folder that the objects get, without a slash at either end.
        clock: the batch's one clock reading.
        extension: what follows the dot.
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
        """Return the key for an ordinal.

        Raises:
            ConfigError: it is longer than a store takes.
        """
        name = object_name(self.clock, self.extension, ordinal, self.unique)
        return check_key(f"{self.folder}/{name}")

    def task_key(self, task: int, part: int) -> str:
        """Return the key of a task's object; `part` counts the task's objects from 0.

        A task beyond the number that was planned marks its names with `p` and its index.

        Raises:
            ConfigError: it is longer than a store takes.
        """
        if task < self.tasks:
            return self.key(self.first + task + part * self.tasks)
        unique = f"{self.unique}p{task}"
        name = object_name(self.clock, self.extension, self.first + part, unique)
        return check_key(f"{self.folder}/{name}")


@dataclass(frozen=True)
class Rows:
    """A range of one task's rows, in the order in which the task reads them: `start` to `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class FileSink:
    """Encodes and stages one task's rows. Small and picklable.

    Attributes:
        storage: where objects are staged.
        encoder: the file format.
        schema: the columns of every batch.
        names: the objects' keys.
        target_bytes: size at which an object is ended and the next one begun.
        landed: task -> row ranges that are visible already and are left out, in order.
    """

    storage: Storage
    encoder: Encoder
    schema: pa.Schema
    names: Names
    target_bytes: int = _TARGET_BYTES
    landed: Mapping[int, tuple[Rows, ...]] = field(default_factory=dict)

    def write(self, batches: Iterator[pa.RecordBatch], split: int) -> list[Staged]:
        """Stage the rows of task `split`; no rows, no object.

        Raises:
            DestinationError: the store refuses; then nothing of this task stays staged.
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
        out = measure_upload(self.storage.stage(key, self.encoder.content_type))
        try:
            return self.encoder.open(self.schema, out)
        except BaseException:
            out.abort()
            raise


def _skip_landed(
    batches: Iterator[pa.RecordBatch], landed: tuple[Rows, ...]
) -> Iterator[pa.RecordBatch]:
    """Batches without the rows that are visible already, and without empty ones."""
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
    before: Sequence[Rows], objects: Sequence[int], visible: Sequence[bool]
) -> tuple[Rows, ...]:
    """Return which of a task's rows are visible, once some of its objects are.

    Args:
        before: ranges that were visible before, in order; the objects hold the rows between them.
        objects: number of rows of each object, in the order in which the task wrote them.
        visible: for each object, whether it is visible now.

    >>> visible_rows([Rows(2, 4)], [3, 5], [True, False])
    (Rows(start=0, end=2), Rows(start=2, end=4), Rows(start=4, end=5))
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
                ranges.append(Rows(at, at + step))
            at, left = at + step, left - step
    return tuple(sorted(ranges, key=lambda found: found.start))
