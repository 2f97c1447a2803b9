"""One table of a destination, whatever its format: what a load asks of a writer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.model import Batch, Landed, Memory, Staged


class LandedBefore(Exception):
    """Some of a batch's files were landed before, and are to be left out; nothing was committed.

    Attributes:
        files: their paths or URIs, as splits name them.
        note: what to tell of it.
    """

    def __init__(self, files: Collection[str], note: str) -> None:
        super().__init__(note)
        self.files, self.note = frozenset(files), note


class Sink(Protocol):
    """Sink kernel: shaped batches of one task -> staged objects. Pickled into Spark tasks."""

    def write(self, batches: Iterator[pa.RecordBatch], split: int) -> list[Staged]:
        """Encode and stage; on an error nothing of this task stays staged."""
        ...


@dataclass(frozen=True)
class TablePlan:
    """How a batch will enter its table.

    Attributes:
        schema: the table's columns after the batch, in order.
        sink: the kernel that encodes for this table.
        detail: what the writer that made the plan needs at its commit.
        warnings: sentences for the report.
        untyped: the table's columns that will not have had a value after the batch, either, there
            or in a part of them.
    """

    schema: pa.Schema
    sink: Sink
    detail: Any = None
    warnings: tuple[str, ...] = ()
    untyped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Current:
    """A table before a load.

    Attributes:
        schema: its columns.
        partition_keys: the columns that it is partitioned by.
        version: a Delta table's; -1 for files.
        typed: whether its files say what type a column has, which CSV does not.
    """

    schema: pa.Schema
    partition_keys: tuple[str, ...]
    version: int
    typed: bool = True


class TableWriter(Protocol):
    """One table of a destination, files or Delta."""

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        ...

    def current(self) -> Current | None:
        """The table as it is now; None when there is none."""
        ...

    def landed_before(self, batch: Batch) -> Landed | None:
        """What the same run landed of this batch before; None if nothing.

        With `once`, also what any load landed, of a batch whose `content` is known.

        Raises:
            LandedBefore: some of the batch's files were landed before.
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
        """Check the batch's columns against the table before anything is written.

        Raises:
            SchemaConflict: they don't fit, or the policy forbids the change.
        """
        ...

    def at_work(self) -> AbstractContextManager[None]:
        """Register this load as publishing, from a batch's first plan to its last commit.

        Needless where a commit is there whole or not at all, and nobody finishes another's.
        """
        return nullcontext()

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Make what the tasks staged visible, whole.

        Raises:
            ObjectExists: names were taken and the objects are bound to them: plan and stage again.
            LandedBefore: plan and stage the other files alone.
        """
        ...

    def replace_rows(self) -> None:
        """Have the commit of the next merged batch delete the rows that the table has.

        Files are only ever added.
        """
        return

    def memory(self, *, writes: bool = True) -> Memory:
        """What the table remembers of its sources.

        Args:
            writes: whether a load that was cut off may be finished for that.

        Raises:
            ConfigError: tables of this kind remember nothing.
        """
        ...

    def retire(self, version: int, of_run: Collection[int | None]) -> Landed | None:
        """Remove the rows of earlier versions of the stream, or mark them as deleted.

        Args:
            version: the stream's active version: rows of a lower one are earlier. A row without a
                version is of no known one, and stays.
            of_run: `Landed.lowest_version` of each batch that the run has landed. Where one is
                lower or None, every row stays, and a warning says so.

        Returns:
            The commit; one without a version where nothing was committed; None where nothing
            tells the versions apart, and for files, which are only ever added.
        """
        return None

    def discard(self, staged: Sequence[Staged]) -> None:
        """Drop what was staged and will not be committed. Never raises."""
        ...

    def compact(self, versions: Sequence[int]) -> None:
        """Merge small files where the commits of a run have piled them up; plain files stay.

        Args:
            versions: the table's versions that the run has made.

        Raises:
            LakeportError: the store or Spark refused; the run's rows are as durable as before.
        """
        return

    def prune(self, sequence: int) -> None:
        """Forget that the run has landed the batches before this one, where that is kept in files.

        Raises:
            DestinationError: the store refused to delete.
        """
