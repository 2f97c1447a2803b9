"""The Delta table of a stream as a load writes it: with the config's mode, policy and keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.config.values import DeleteCondition
from lakeport.model import Batch, BookmarkStore, Landed, Mode, Staged
from lakeport.shape import DELETED_AT, apply_header_case, combine_lowest_versions
from lakeport.writers.base import ExistingTable, TablePlan, TableWriter
from lakeport.writers.delta.merge import DeltaMerger
from lakeport.writers.delta.optimize import compact
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine


@dataclass(frozen=True)
class DeltaTableWriter(TableWriter):
    """Lands one stream's batches in its Delta table.

    Attributes:
        writer: plans, stages and commits appends and overwrites.
        merger: merges batches and retires rows.
    """

    writer: DeltaWriter
    merger: DeltaMerger

    @classmethod
    def of(cls, writer: DeltaWriter, engine: Engine) -> DeltaTableWriter:
        """Return the writer of a table, with a merger by the writer's config."""
        config = writer.config
        created, updated = (
            apply_header_case(
                f"{config.internal_columns_prefix}{name}", config.column_header_format
            )
            if config.internal_columns
            else ""
            for name in ("created_at", "updated_at")
        )
        return cls(writer, DeltaMerger(writer, engine, created, updated))

    @property
    def config(self) -> DestinationConfig:
        """Config of the load."""
        return self.writer.config

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self.writer.uri

    def read_existing(self) -> ExistingTable | None:
        """Return the table as it is now; None when there is none."""
        state = self.writer.log.read_state()
        if state is None:
            return None
        return ExistingTable(state.open_schema, tuple(state.partition_columns), state.version)

    def find_landed(self, batch: Batch) -> Landed | None:
        """Return the report of this batch if its run, or with `once` any load, has landed it."""
        run_id = self.config.run_id or ""
        landed = self.writer.find_landed_batch(
            run_id=run_id, sequence=batch.sequence, digest=batch.digest
        )
        if landed is not None or self.config.mode is not Mode.APPEND:
            return landed
        return self.writer.find_landed_content(batch.sequence, batch.content)

    def plan(
        self,
        incoming: pa.Schema,
        batch: Batch,
        partition_keys: Sequence[str],
        clock: datetime,
        tasks: int,
    ) -> TablePlan:
        """Check the batch against the table before anything is written."""
        if self.config.mode is Mode.MERGE:
            return self._plan_merge(incoming, batch, partition_keys)
        plan = self.writer.plan(
            incoming,
            mode=self.config.mode,
            partition_keys=partition_keys,
            policy=self.config.schema_evolution,
        )
        return TablePlan(plan.schema, self.writer.sink(plan), plan, untyped=plan.evolution.untyped)

    def _plan_merge(
        self, incoming: pa.Schema, batch: Batch, partition_keys: Sequence[str]
    ) -> TablePlan:
        """Plan a merge with the config's keys, marks of deletion and constant columns."""
        config = self.config
        when = None
        if config.delete_when and not batch.has_deleted_keys:
            when = DeleteCondition.parse(config.delete_when)
        named = when.column if when else config.delete_column
        header = config.column_header_format
        merge = self.merger.plan(
            incoming,
            config.merge_keys or batch.key_properties,
            deleted=(named or DELETED_AT) if config.hard_delete else "",
            delete_when=when,
            soft_deleted="" if config.hard_delete else DELETED_AT,
            constants=[apply_header_case(name, header) for name in config.constant_columns],
            partition_keys=partition_keys,
            policy=config.schema_evolution,
        )
        columns = merge.table.evolution.schema
        untyped = merge.table.evolution.untyped
        empty = (named or "").lower() in {
            f.name.lower() for f in columns if pa.types.is_null(f.type)
        }
        if named is not None and not (merge.change.deleted or empty):
            text = f"there is no column {named!r}: no row was taken for deleted."
            merge = replace(merge, warnings=(*merge.warnings, text))
        return TablePlan(merge.rows, self.merger.sink(merge), merge, untyped=untyped)

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Land the staged files in one commit."""
        mark = self.writer.mark(
            self.config.run_id or "", batch.sequence, batch.digest, singer_state, batch.bookmark
        )
        lowest = combine_lowest_versions([one.lowest_version for one in staged])
        mark = replace(mark, lowest_version=lowest)
        if self.config.mode is Mode.MERGE:
            return self.merger.commit(plan.detail, staged, mark)
        return self.writer.commit(plan.detail, staged, mark, batch.content)

    def replace_rows(self) -> None:
        """Make the next merged batch's commit remove all rows that the table has."""
        self.merger.replaces_rows = True

    def memory(self, *, writes: bool = True) -> BookmarkStore:
        """Return the table's bookmarks; `writes` is without effect, as commits are atomic."""
        return self.writer.memory()

    def retire(self, version: int, lowest_versions: Collection[int | None]) -> Landed | None:
        """Remove rows of earlier stream versions, or mark them as deleted; see `DeltaMerger`."""
        return self.merger.retire(
            version, lowest_versions, hard=self.config.hard_delete, run_id=self.config.run_id or ""
        )

    def compact(self, versions: Sequence[int]) -> None:
        """Merge small files of partitions that these versions wrote to."""
        writer = self.writer
        compact(writer.storage, writer.folder, writer.session, versions, writer.config.table_roots)

    def discard(self, staged: Sequence[Staged]) -> None:
        """Discard staged files that will not be committed."""
        for one in staged:
            self.writer.storage.discard(one)
