"""Merge kernels: rewrite the data files that hold rows of a batch's keys, and add the other rows.

```
batch (staged)  ─┬─▶ rewrite: one file of the table ─▶ nothing, or its new files
                 └─▶ insert: one staged file, some of its rows ─▶ new files
```
They run in Spark tasks. A task reads the batch from the staged files itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakeport.model import Staged
from lakeport.shape import fit_column
from lakeport.writers.delta.log.reader import DataFile
from lakeport.writers.delta.merge.changes import Applied, Incoming
from lakeport.writers.delta.merge.files import TableFiles
from lakeport.writers.delta.merge.keys import Hits, Positions, mask
from lakeport.writers.delta.sink import DeltaSink


class Change(Protocol):
    """What is done to the rows of a table's files. Pickled into tasks; state is made there."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which the rows are chosen."""
        ...

    def choose(self, table: pa.Table) -> Hits:
        """The rows to change."""
        ...

    def apply(self, rows: pa.RecordBatch, chosen: Positions, context: pa.Table | None) -> Applied:
        """What the chosen rows become."""
        ...

    def context(self, chosen: Positions) -> pa.Table | None:
        """What `apply` needs for a file of which rows are chosen."""
        ...


@dataclass(frozen=True)
class Rewritten:
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
    """The kernel over files of the table.

    Attributes:
        table: how they are read.
        change: what is done to their rows.
        sink: where the new files go.
    """

    table: TableFiles
    change: Change
    sink: DeltaSink

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[Rewritten]:
        """Rewrite those of a task's files that have rows to change."""
        number, files = item
        done: list[Rewritten] = []
        try:
            for file in files:
                hits = self.change.choose(self.table.columns(file, self.change.columns))
                if len(hits):
                    done.append(self._rewrite(file, hits, number))
                elif hits.unknown:
                    nothing = (0, 0, 0, 0, hits.chosen, hits.unknown)
                    done.append(Rewritten(file.path, (), *nothing))
        except BaseException:
            for staged in (staged for one in done for staged in one.staged):
                self.sink.storage.discard(staged)
            raise
        return done

    def _rewrite(self, file: DataFile, hits: Hits, number: int) -> Rewritten:
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
                yield _without(batch, part.rows)
                done = self.change.apply(batch.take(pa.array(part.rows)), part.chosen, context)
                counts["deleted"] += done.removed
                counts["updated"] += len(part) - done.removed
                counts["same"] += done.same
                if done.rows is not None:
                    yield done.rows

        # Names are made from the job: no two of a task's files may have the same one.
        sink = replace(self.sink, job=uuid.uuid5(self.sink.job, file.path))
        staged = sink.write(changed(), number)
        matched = np.unique(hits.chosen)
        return Rewritten(file.path, tuple(staged), **counts, matched=matched, unknown=hits.unknown)


def _without(batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
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
