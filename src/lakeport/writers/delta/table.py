"""The Delta table of a stream as a load writes it: with the config's mode, policy and keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import LakeportError, PermissionRefused
from lakeport.model import Batch, BookmarkStore, Landed, Mode, Staged
from lakeport.shape import combine_lowest_versions
from lakeport.writers.base import ExistingTable, TablePlan, TableWriter
from lakeport.writers.delta.merge import DeltaMerger
from lakeport.writers.delta.optimize import compact
from lakeport.writers.delta.writer import DeltaWriter
from lakeport.writers.files.journal import DoneEntry, Journal

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.writers.delta.plan import DeltaPlan
    from lakeport.writers.delta.sink import DeltaSink


@dataclass(frozen=True)
class DeltaTableWriter(TableWriter):
    """Writes one stream's batches to its Delta table: append, overwrite or merge as configured.

    Attributes:
        journal: the run's journal, for batches that make no version; None without a run id.
    """

    writer: DeltaWriter
    merger: DeltaMerger
    journal: Journal | None

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
        """Return the report of a batch landed before by its run, or with `once` by any; or None.

        Raises:
            PartlyLanded, RunMismatch: as `TableWriter.find_landed`.
        """
        run_id = self.config.run_id or ""
        if self.journal and not batch.optional and self._is_in_journal(self.journal, batch):
            return Landed(batch.stream, self.uri, batch.sequence, 0, skipped=True)
        landed = self.writer.find_landed_batch(
            run_id=run_id, sequence=batch.sequence, digest=batch.digest
        )
        if landed is not None or self.config.mode is not Mode.APPEND:
            return landed
        return self.writer.find_landed_content(batch.sequence, batch.content)

    def _is_in_journal(self, journal: Journal, batch: Batch) -> bool:
        """Whether the run has left out the batch before; False if the store lets nothing be read.

        RunMismatch if it was another batch.
        """
        with suppress(PermissionRefused):
            return journal.read_done(batch.sequence, batch.digest) is not None
        return False

    def plan(
        self,
        incoming: pa.Schema,
        batch: Batch,
        partition_keys: Sequence[str],
        clock: datetime,
        tasks: int,
    ) -> TablePlan:
        """Plan an append, overwrite or merge of a batch; `clock` and `tasks` are not used."""
        if self.config.mode is Mode.MERGE:
            merge = self.merger.plan(
                incoming, batch.key_properties, partition_keys, only_keys=batch.has_deleted_keys
            )
            return _make_plan(merge.rows, self.merger.sink(merge), merge.table, merge)
        plan = self.writer.plan(
            incoming,
            mode=self.config.mode,
            partition_keys=partition_keys,
            policy=self.config.schema_evolution,
        )
        return _make_plan(plan.schema, self.writer.sink(plan), plan, plan)

    def had_rows(self, plan: TablePlan) -> bool:
        """Whether there was a table, and not just one that a load without rows had made."""
        base = plan.detail.base
        if base is None or base.version > 0:
            return base is not None
        with suppress(LakeportError):  # the batch is committed
            return any(action.add for action in self.writer.log.read_actions(0) or ())
        return False

    def leave_out(self, plan: TablePlan, batch: Batch, rejected: int) -> Landed | None:
        """Return the report of a batch without rows that changes nothing; None if it does.

        It makes a new table, moves a bookmark, or changes columns, properties or rows. If all of
        its records were rejected, it leaves an existing table as it is, and the run's journal has
        an entry, as the table's log has none.
        """
        table: DeltaPlan = plan.detail.table if self.config.mode is Mode.MERGE else plan.detail
        replaces = self.merger.replaces_rows or (table.mode is Mode.OVERWRITE and not table.dynamic)
        changes = bool(table.metadata_changes or replaces) and not rejected
        if table.base is None or batch.bookmark is not None or changes:
            return None
        if rejected and self.journal is not None:
            self.journal.write_done(batch.sequence, DoneEntry(batch.digest, (), 0, 0))
        text = "every record was rejected: the overwrite replaced nothing."
        warnings = (text,) if table.mode is Mode.OVERWRITE else ()
        return Landed(batch.stream, self.uri, batch.sequence, 0, warnings=warnings)

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Append, overwrite or merge the staged files in one commit, by the configured mode."""
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

    def bookmark_store(self, *, writes: bool = True) -> BookmarkStore:
        """Return the table's bookmarks; `writes` is without effect, as commits are atomic."""
        return self.writer.bookmark_store()

    def retire(self, version: int, lowest_versions: Collection[int | None]) -> Landed | None:
        """Remove or mark rows of earlier stream versions; see `DeltaMerger.retire`."""
        return self.merger.retire(version, lowest_versions)

    def compact(self, versions: Sequence[int]) -> None:
        """Run OPTIMIZE on partitions with 20 or more small files that these versions wrote to."""
        writer = self.writer
        compact(writer.storage, writer.folder, writer.session, versions, writer.config.table_roots)

    def discard(self, staged: Sequence[Staged]) -> None:
        """Delete staged files that will not be committed."""
        for one in staged:
            self.writer.storage.discard(one)


def _make_plan(rows: pa.Schema, sink: DeltaSink, table: DeltaPlan, detail: object) -> TablePlan:
    """Return the plan of a batch with these rows; columns that Spark fills are not absent in it."""
    evolution, filled = table.evolution, table.base.generated_columns if table.base else ()
    missing = tuple(name for name in evolution.missing if name not in filled)
    known = replace(evolution, missing=missing)
    return TablePlan(rows, sink, known, detail, table.warnings, evolution.untyped)
