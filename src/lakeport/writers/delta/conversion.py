"""Data files of a Delta table written anew with other types: the kernel."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.delta_log.actions import DataFile
from lakeport.model import Staged
from lakeport.schema.exact import InexactError
from lakeport.writers.delta.merge.files import TableFiles, rewrite_files
from lakeport.writers.delta.sink import DeltaSink

if TYPE_CHECKING:
    from lakeport.engine.base import Engine


@dataclass(frozen=True)
class Converted:
    """A file with other types; `wrong` is the first value that has no equal."""

    staged: tuple[Staged, ...] = ()
    rows: int = 0
    wrong: str = ""


@dataclass(frozen=True)
class FileConverter:
    """The kernel: reads files of the table, and writes them with other types. Pickled into tasks.

    Attributes:
        table: how they are read.
        sink: where the new files go; None to look at the values alone.
        convert: makes the batches to write of those that are read; raises `InexactError`.
    """

    table: TableFiles
    sink: DeltaSink | None
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[Converted]:
        """Convert a task's files, up to the first that can't be."""
        number, files = item
        done: list[Converted] = []
        try:
            for file in files:
                done.append(self._file(file, number))
                if done[-1].wrong:
                    break
        except BaseException:
            self.discard(done)
            raise
        return done

    def discard(self, done: Sequence[Converted]) -> None:
        """Drop what was staged."""
        for staged in (staged for one in done for staged in one.staged):
            self.table.log.storage.discard(staged)

    def _file(self, file: DataFile, number: int) -> Converted:
        rows = 0

        def converted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in self.table.batches(file):
                rows += len(batch)
                yield batch if self.convert is None else self.convert(batch)

        try:
            if self.sink is None:
                for _ in converted():
                    pass
                return Converted(rows=rows)
            # Names are made from the job: no two of a task's files may have the same one.
            sink = replace(self.sink, job=uuid.uuid5(self.sink.job, file.path))
            return Converted(tuple(sink.write(converted(), number)), rows)
        except InexactError as error:
            return Converted(wrong=repr(error.value) if error.value != "" else "an empty text")


def convert_files(
    kernel: FileConverter, files: Sequence[DataFile], engine: Engine | None
) -> list[Converted]:
    """Run the kernel on data files; without an engine, in this thread."""
    if not files:
        return []
    if engine is None:
        return kernel((0, tuple(files)))

    what = f"rewrite files of {kernel.table.log.uri}"
    return rewrite_files(engine, what, kernel, files, kernel.table.log.storage)
