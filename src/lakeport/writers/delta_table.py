"""A Delta table as the road sees it: `DeltaWriter` bound to one run's mode, policy and name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakeport.model import Batch, Landed, Mode, Staged
from lakeport.writers.delta import DeltaWriter
from lakeport.writers.table import Current, TablePlan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaTableWriter"]


@dataclass(frozen=True)
class DeltaTableWriter:
    """Lands one stream's batches in its Delta table; a `TableWriter`.

    Attributes:
        writer: the table.
        mode: what a load does with the rows that are there.
        evolution: `evolve` or `strict`.
        run_id: makes a repeated batch land once; empty for none.
    """

    writer: DeltaWriter
    mode: Mode
    evolution: str
    run_id: str

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self.writer.uri

    def current(self) -> Current | None:
        """The table as it is now; None when there is none."""
        state = self.writer.state()
        if state is None:
            return None
        return Current(state.schema, tuple(state.partition_columns), state.version)

    def landed_before(self, batch: Batch) -> Landed | None:
        """What the same run landed of this batch before."""
        return self.writer.landed(run_id=self.run_id, sequence=batch.sequence, digest=batch.digest)

    def plan(
        self, incoming: pa.Schema, batch: Batch, keys: Sequence[str], clock: datetime, tasks: int
    ) -> TablePlan:
        """Check the batch against the table before anything is written."""
        plan = self.writer.plan(
            incoming, mode=self.mode, partition_keys=keys, policy=self.evolution
        )
        return TablePlan(plan.schema, self.writer.sink(plan), plan)

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, state: bytes | None
    ) -> Landed:
        """Land what was staged, in one commit."""
        return self.writer.commit(
            plan.detail,
            staged,
            run_id=self.run_id,
            sequence=batch.sequence,
            digest=batch.digest,
            state=state,
        )

    def discard(self, staged: Sequence[Staged]) -> None:
        """Drop what was staged and will not be committed."""
        for one in staged:
            self.writer.storage.discard(one)
