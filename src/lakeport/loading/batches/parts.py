"""Batches with their kernels, and what each task lands of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakeport.loading.conflicts import first_misfit
from lakeport.loading.expect.sieve import Findings, Sieve
from lakeport.model import Batch, Reader, Split, Staged
from lakeport.schema.evolution import TypeConflict
from lakeport.shape.columns import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.loading.expressions.select import Select
    from lakeport.loading.transform.transform import Made

__all__ = ["Part", "Task", "misfit", "staged_of"]


@dataclass(frozen=True)
class Part:
    """One batch with its kernels.

    Attributes:
        batch: the batch.
        reader: None where a frame is run.
        shape: of the rows that land.
        select: makes them of those that are read; None where they land as they are.
        sieve: holds them to what is expected of them.
        frame: is run in place of the reader.
        made: how the frame was made.
    """

    batch: Batch
    reader: Reader | None
    shape: Shape
    select: Select | None = None
    sieve: Sieve | None = None
    frame: DataFrame | None = None
    made: Made | None = None

    def without(self, files: Collection[str]) -> Part:
        """The same without some files."""
        splits = tuple(split for split in self.batch.splits if split.uri not in files)
        size = self.batch.bytes * len(splits) // max(1, len(self.batch.splits))
        return replace(self, batch=replace(self.batch, splits=splits, bytes=size, records=-1))


def staged_of(results: Sequence[Staged | Findings]) -> list[Staged]:
    """The staged objects among what tasks give."""
    return [one for one in results if isinstance(one, Staged)]


@dataclass(frozen=True)
class Task:
    """What one Spark task lands: some splits of one batch."""

    part: Part
    splits: tuple[Split, ...]


def misfit(conflict: TypeConflict, parts: Sequence[Part]) -> str:
    """The first value for which the table's column is too narrow, in words."""
    for part in parts:
        names = {new.lower(): old for old, new in part.shape.names}
        column = names.get(conflict.path.lower(), "")
        if column and part.reader is not None and part.select is None:
            found = first_misfit(part.reader, part.batch.splits, column, conflict.table)
            if found:
                return found
    return ""
