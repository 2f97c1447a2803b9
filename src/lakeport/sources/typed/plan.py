"""Plan the load of files that tell their columns' types, and read them batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.model import Scan, Split
from lakeport.schema.casting import normalise
from lakeport.schema.nested import open_columns, with_text
from lakeport.schema.types import check_names, repeated
from lakeport.sources.files.declared import column_types
from lakeport.sources.files.file_set import FilePlan, FileSet
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import DEFAULT, UnpackLimits
from lakeport.sources.parquet import Footer, aligned, naming, split_groups, union
from lakeport.sources.splits import DeclaredReader
from lakeport.sources.typed import avro, ipc, orc
from lakeport.sources.typed.orc import Batches, Header, reading

_ROWS = 1 << 16


class _Format(NamedTuple):
    """One of the formats.

    Attributes:
        name: for errors.
        look: reads what a file tells of itself: columns, parts and rows (see `Header`).
        batches: reads some of its parts.
        output_ratio: guess of Parquet bytes per input byte.
    """

    name: str
    look: Callable[[SourceFile], Header]
    batches: Batches
    output_ratio: float


_FORMATS = {
    "arrow": _Format("Arrow IPC", ipc.look, ipc.batches, 0.4),
    "orc": _Format("ORC", orc.look, orc.batches, 1.0),
    "avro": _Format("Avro", avro.look, avro.batches, 0.6),
}


def plan_typed(files: FileSet) -> FilePlan:
    """Read what the files tell, put their columns together, and cut the files between their parts.

    Raises:
        InputError: a file is not of its format, or the files' columns don't go together.
        MissingDependency: a format's package is not installed.
    """
    format_ = _FORMATS[files.format]
    looks = sorted(
        files.run(partial(_look, format_), files.plain()), key=lambda look: look[0].file.uri
    )
    footers = [footer for footer, _ in looks]
    rows = [rows for _, rows in looks]
    schema, mixed = union(footers, column_types(files.options.columns))
    check_names(files.stream, schema.names)
    return FilePlan(
        reader=TypedReader(with_text(schema), format_.batches, files.options.limits, mixed=mixed),
        splits=split_groups(footers, files.options.split_bytes),
        bytes=sum(file.bytes for file in files.files),
        output_ratio=format_.output_ratio,
        records=-1 if -1 in rows else sum(rows),
        untyped=open_columns(schema),
    )


def _look(format_: _Format, file: SourceFile) -> list[tuple[Footer, int]]:
    """What one file tells, checked. Run inside tasks."""
    with file.named(), reading(file.name, format_.name):  # also for columns whose names are no text
        found = format_.look(file)
        names = found.schema.names
        if (double := repeated(names)) is not None:
            raise SourceError(
                f"file {file.name!r} has {names.count(double)} columns with the name {double!r}",
                "rename them where the file is written.",
            )
        with naming(file.name):
            schema = normalise(found.schema, open_places=True)
    return [(Footer(file, schema, tuple((0, size) for size in found.parts)), found.rows)]


@dataclass(frozen=True, slots=True)
class TypedReader(DeclaredReader):
    """Reads splits of such files; implements `lakeport.model.Reader`.

    Attributes:
        batches: reads a split as the file has it.
        limits: what compressed parts may become.
        mixed: see `aligned`.
    """

    batches: Batches
    limits: UnpackLimits = DEFAULT
    mixed: frozenset[str] = frozenset()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        for batch in self.batches(split, self.limits):
            for start in range(0, batch.num_rows, _ROWS):
                with naming(split.uri):
                    rows = aligned(batch.slice(start, _ROWS), self.schema, self.mixed)
                yield rows

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`."""
        return Scan(sum(batch.num_rows for batch in self.batches(split, self.limits)))
