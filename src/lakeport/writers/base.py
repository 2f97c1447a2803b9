"""The interface of a table's writer, whatever its format: plan, stage, commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.model import Batch, BookmarkStore, Landed, Staged
    from lakeport.schema.evolution import Evolution


class PartlyLanded(Exception):
    """Raised before a commit: some of the batch's files were landed earlier, and `once` skips them.

    Attributes:
        files: paths or URIs of these files, as splits name them.
        note: the report's note.
    """

    def __init__(self, files: Collection[str], note: str) -> None:
        super().__init__(note)
        self.files, self.note = frozenset(files), note


class Sink(Protocol):
    """Stages the batches of one task as encoded files that nobody sees yet. Picklable."""

    def write(self, batches: Iterator[pa.RecordBatch], split: int) -> list[Staged]:
        """Stage the batches of task `split`; return the files. On an error, discard all of them."""
        ...


@dataclass(frozen=True)
class TablePlan:
    """Plan for writing one batch to its table: its columns, the sink for the tasks, warnings.

    Attributes:
        schema: the columns that the staged batches must have, in order.
        detail: the writer's own plan, for its commit.
        untyped: columns of the table that, after the batch too, have places without any value.
        evolution: the changes of the table's columns.
    """

    schema: pa.Schema
    sink: Sink
    evolution: Evolution
    detail: Any = None
    warnings: tuple[str, ...] = ()
    untyped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExistingTable:
    """Columns, partition keys and version of a table that exists before a load.

    Attributes:
        version: a Delta table's version; -1 for files.
        typed: whether its files store the columns' types, which CSV does not.
    """

    schema: pa.Schema
    partition_keys: tuple[str, ...]
    version: int
    typed: bool = True


class TableWriter(Protocol):
    """Writes one stream's batches to one table, of files or Delta."""

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        ...

    def read_existing(self) -> ExistingTable | None:
        """Return the table as it is now; None when there is none."""
        ...

    def find_landed(self, batch: Batch) -> Landed | None:
        """Return the report of a batch that was landed before; None if it has to be landed.

        With `once`, also of a batch whose content any load has landed.

        Raises:
            PartlyLanded: some of the batch's files were landed before.
            RunMismatch: the run landed something else under this number.
        """
        ...

    def plan(
        self,
        incoming: pa.Schema,
        batch: Batch,
        partition_keys: Sequence[str],
        clock: datetime,
        tasks: int,
    ) -> TablePlan:
        """Return the plan for writing a batch: columns that fit the table, sink and warnings.

        Raises:
            SchemaConflict: the columns don't fit, or the policy forbids the change.
        """
        ...

    def had_rows(self, plan: TablePlan) -> bool:
        """Whether the table had rows when a batch was planned, as far as a look at it tells."""
        return not plan.evolution.created

    def register_publishing(self) -> AbstractContextManager[None]:
        """Context in which other loads know that this one may be publishing; no-op for Delta.

        Does nothing for tables with atomic commits, as no load finishes another's there.
        """
        return nullcontext()

    def leave_out(self, plan: TablePlan, batch: Batch, rejected: int) -> Landed | None:
        """Return the report of a batch without rows that needs no commit; None if it needs one.

        Args:
            rejected: number of the batch's records that were rejected.
        """
        return None

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Publish all files that the tasks have staged; return the report.

        Raises:
            ObjectExists: keys are taken and the objects can't get others: plan and stage again.
            PartlyLanded: plan and stage the other source files alone.
        """
        ...

    def replace_rows(self) -> None:
        """Have the next merge's commit also remove all rows so far; no-op for tables of files.

        Does nothing for tables of files, which are only added to.
        """
        return

    def bookmark_store(self, *, writes: bool = True) -> BookmarkStore:
        """Return the table's bookmarks: how far each of its sources was read.

        Args:
            writes: whether an interrupted load's batch may be finished before they are read.
        """
        ...

    def retire(self, version: int, lowest_versions: Collection[int | None]) -> Landed | None:
        """Remove rows of older stream versions or mark them deleted; None if rows have no version.

        Args:
            version: the stream's active version: rows of a lower one are earlier. A row without a
                version stays.
            lowest_versions: `Landed.lowest_version` of each batch that the run has landed. If one
                is lower or None, every row stays, and a warning says so.

        Returns:
            The report of the commit, without a version if nothing was committed. None if the
            table has no column of stream versions, and for files, which are only added to.
        """
        return None

    def discard(self, staged: Sequence[Staged]) -> None:
        """Discard staged files that will not be committed. Never raises."""
        ...

    def compact(self, versions: Sequence[int]) -> None:
        """Merge small files in partitions that `versions` wrote to; no-op for tables of files.

        Args:
            versions: the table's versions that the run has made.

        Raises:
            LakeportError: the store or Spark refused; the run's rows are as durable as before.
        """
        return

    def prune(self, sequence: int) -> None:
        """Delete the run's journal entries of batches below `sequence`; no-op for Delta tables.

        Raises:
            DestinationError: the store refused to delete.
        """
        return
