"""A Delta table as a load sees it: `DeltaWriter` bound to one run's mode, policy and name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.config.keys import DeleteCondition
from lakeport.model import Batch, Landed, Memory, Mode, Staged
from lakeport.schema.marks import DELETED_AT, TABLE_VERSION, lowest_of
from lakeport.shape import header_name
from lakeport.writers.base import Current, TablePlan
from lakeport.writers.delta.merge.merger import DeltaMerger
from lakeport.writers.delta.optimize import compact
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine


@dataclass(frozen=True)
class Changes:
    """What the configuration says about rows that the table has.

    Attributes:
        merge_keys: columns that identify a row; the batch's own if empty.
        hard_delete: rows that are marked as deleted go away.
        delete_column: marks a row as deleted; `_sdc_deleted_at` if None.
        delete_when: which values of which column do; None to tell by the column's type.
        apart: columns that a load gives every row, and no record brings.
    """

    merge_keys: tuple[str, ...] = ()
    hard_delete: bool = False
    delete_column: str | None = None
    delete_when: DeleteCondition | None = None
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeltaTableWriter:
    """Lands one stream's batches in its Delta table; a `TableWriter`.

    Attributes:
        writer: plans, stages and commits what is appended or overwritten.
        mode: what a load does with the rows that are there.
        evolution: `evolve` or `strict`.
        run_id: makes a repeated batch land once; empty for none.
        merger: changes rows that the table has.
        changes: which, and how.
    """

    writer: DeltaWriter
    mode: Mode
    evolution: str
    run_id: str
    merger: DeltaMerger
    changes: Changes = Changes()

    @classmethod
    def of(cls, config: DestinationConfig, writer: DeltaWriter, engine: Engine) -> DeltaTableWriter:
        """Bind a table to what a destination's configuration says."""
        created, updated = (
            header_name(f"{config.internal_columns_prefix}{name}", config.column_header_format)
            if config.internal_columns
            else ""
            for name in ("created_at", "updated_at")
        )
        return cls(
            writer,
            config.mode,
            config.schema_evolution,
            config.run_id or "",
            DeltaMerger(writer, engine, created, updated),
            Changes(
                config.merge_keys,
                config.hard_delete,
                config.delete_column,
                DeleteCondition.parse(config.delete_when) if config.delete_when else None,
                tuple(header_name(n, config.column_header_format) for n in config.constant_columns),
            ),
        )

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self.writer.uri

    def current(self) -> Current | None:
        """The table as it is now; None when there is none."""
        state = self.writer.table_state()
        if state is None:
            return None
        return Current(state.open_schema, tuple(state.partition_columns), state.version)

    def landed_before(self, batch: Batch) -> Landed | None:
        """What the same run landed of this batch before."""
        return self.writer.landed(run_id=self.run_id, sequence=batch.sequence, digest=batch.digest)

    def plan(
        self,
        incoming: pa.Schema,
        batch: Batch,
        partition_keys: Sequence[str],
        clock: datetime,
        tasks: int,
    ) -> TablePlan:
        """Check the batch against the table before anything is written."""
        if self.mode is Mode.MERGE:
            return self._merge_plan(incoming, batch, partition_keys)
        plan = self.writer.plan(
            incoming, mode=self.mode, partition_keys=partition_keys, policy=self.evolution
        )
        return TablePlan(plan.schema, self.writer.sink(plan), plan, untyped=plan.evolution.untyped)

    def _merge_plan(
        self, incoming: pa.Schema, batch: Batch, partition_keys: Sequence[str]
    ) -> TablePlan:
        changes = self.changes
        when = None if batch.gone else changes.delete_when
        named = when.column if when else changes.delete_column
        merge = self.merger.plan(
            incoming,
            changes.merge_keys or batch.key_properties,
            deleted=(named or DELETED_AT) if changes.hard_delete else "",
            when=when,
            soft="" if changes.hard_delete else DELETED_AT,
            apart=changes.apart,
            partition_keys=partition_keys,
            policy=self.evolution,
        )
        columns = merge.table.evolution.schema
        untyped = merge.table.evolution.untyped
        empty = (named or "").lower() in {
            f.name.lower() for f in columns if pa.types.is_null(f.type)
        }
        if named is not None and not (merge.deleted or empty):
            text = f"there is no column {named!r}: no row was taken for deleted."
            merge = replace(merge, warnings=(*merge.warnings, text))
        return TablePlan(merge.rows, self.merger.sink(merge), merge, untyped=untyped)

    def at_work(self) -> AbstractContextManager[None]:
        """Nothing: a commit is there whole or not at all, and nobody finishes another's."""
        return nullcontext()

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Land what was staged, in one commit."""
        mark = self.writer.mark(
            self.run_id, batch.sequence, batch.digest, singer_state, batch.bookmark
        )
        lowest = lowest_of([one.lowest_version for one in staged])
        mark = replace(mark, lowest_version=lowest)
        if self.mode is Mode.MERGE:
            return self.merger.commit(plan.detail, staged, mark)
        return self.writer.commit(plan.detail, staged, mark, batch.content)

    def begin_anew(self) -> None:
        """Have the table's rows go with the commit of the first batch that is merged."""
        self.merger.anew.pending = True

    def memory(self, *, writes: bool = True) -> Memory:
        """What the table remembers of its sources; a commit is there, or is not."""
        return self.writer.memory()

    def retire(self, version: int, of_run: Collection[int | None]) -> Landed | None:
        """Remove rows of earlier versions of the stream, or mark them as deleted."""
        return self.merger.retire(
            version,
            of_run,
            version_column=TABLE_VERSION,
            deleted_column=DELETED_AT,
            hard=self.changes.hard_delete,
            run_id=self.run_id,
        )

    def compact(self, versions: Sequence[int]) -> None:
        """Merge small files where the commits of a run have piled them up."""
        one = self.writer
        compact(one.storage, one.folder, one.session, versions, one.options.roots)

    def prune(self, sequence: int) -> None:
        """Nothing: the log itself tells what has landed."""

    def discard(self, staged: Sequence[Staged]) -> None:
        """Drop what was staged and will not be committed."""
        for one in staged:
            self.writer.storage.discard(one)
