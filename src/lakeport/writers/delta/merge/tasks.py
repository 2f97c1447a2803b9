"""The driver's side of a merge's tasks: which files each is given, and what becomes of the results.

The kernels are a module of their own, as workers import them: these need nothing of the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lakeport.model import Staged
from lakeport.writers.delta.log.reader import DataFile
from lakeport.writers.delta.merge.changes import Retire, Upsert
from lakeport.writers.delta.merge.files import TableFiles, shared_out
from lakeport.writers.delta.merge.keys import Positions
from lakeport.writers.delta.merge.rewrite import Rewrite, Rewritten, insert
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.schema import file_schema, physical_names
from lakeport.writers.delta.untyped import open_in_files
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.engine.base import Engine

_TASKS_PER_CORE = 4


@dataclass(frozen=True)
class MergeTasks:
    """Runs the kernels over a table's files.

    Attributes:
        writer: knows where the table is, and how its files are written.
        engine: runs them.
    """

    writer: DeltaWriter
    engine: Engine

    def rewrite(
        self, plan: DeltaPlan, change: Upsert | Retire, found: Sequence[DataFile]
    ) -> list[Rewritten]:
        """Rewrite those of the files that have rows to change."""
        if not found:
            return []
        sink, storage = self.writer.sink(plan), self.writer.storage
        table = TableFiles(
            storage,
            self.writer.folder,
            plan.schema,
            file_schema(plan.schema_json, plan.schema),
            frozenset(physical_names(plan.schema_json, plan.partition_columns).values()),
            open_in_files(plan.schema_json, plan.evolution.schema),
        )
        groups = shared_out(found, self.engine.cores * _TASKS_PER_CORE)

        def discard(done: list[Rewritten]) -> None:
            for staged in (staged for one in done for staged in one.staged):
                storage.discard(staged)

        def strays(done: list[Rewritten]) -> None:
            storage.drop_strays([staged for one in done for staged in one.staged])

        return self.engine.run_tasks(
            f"rewrite files of {self.writer.uri} for a merge",
            Rewrite(table, change, sink),
            list(enumerate(groups)),
            discard=discard,
            strays=strays,
        )

    def insert(self, plan: DeltaPlan, change: Upsert, positions: Positions) -> list[Staged]:
        """Write the batch's rows at these positions as new rows."""
        items, start = [], 0
        for number, (key, rows) in enumerate(change.incoming.files):
            first, end = np.searchsorted(positions, (start, start + rows))
            if first < end:
                part = replace(change.incoming, files=((key, rows),))
                items.append((number, part, positions[first:end] - start))
            start += rows
        storage = self.writer.storage

        def discard(done: list[Staged]) -> None:
            for staged in done:
                storage.discard(staged)

        return self.engine.run_tasks(
            f"write new rows of a merge to {self.writer.uri}",
            partial(insert, plan.schema, self.writer.sink(plan)),
            items,
            discard=discard,
            strays=storage.drop_strays,
        )
