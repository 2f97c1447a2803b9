"""Functions that tasks of a load run: scan splits; or read, check, shape and stage rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pyarrow as pa

from lakeport.host.activity import add_progress
from lakeport.loading.expect.arrow import CheckCounts, RowChecker
from lakeport.model import Reader, Scan, Split, Staged
from lakeport.schema.casting import cast_batch
from lakeport.shape import Shape, combine_lowest_versions, find_lowest_version
from lakeport.sources.splits import digest_reads
from lakeport.writers.base import Sink
from lakeport.writers.timing import measure_items, measure_stage, measure_task

_MOST_CONTENT_NAMES = 100
"""Files of a load that have content names of their own: each takes an entry in a table's log."""


def scan_split(reader: Reader, split: Split) -> list[Scan]:
    """Scan a split without landing it; return the one scan."""
    return [reader.scan(split)]


def land_splits(
    sink: Sink,
    tracks_content: bool,
    checker: RowChecker | None,
    item: tuple[int, Reader, Shape, tuple[Split, ...]],
) -> list[Staged | CheckCounts]:
    """Read, check, shape and stage a task's splits; return objects, and counts if checked.

    Args:
        tracks_content: whether the first object gets digests of what was read: `Staged.content`.
        item: the task's number, the reader, the shape, and the splits.
    """
    index, reader, shape, splits = item
    content: list[tuple[str, str]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for split in splits:
            with digest_reads() if tracks_content else nullcontext() as read:
                yield from reader.read(split)
            if read:
                # The same bytes in another folder are other rows.
                folders = "".join(f" {name}={value}" for name, value in split.folders)
                content.append((split.uri, (digest := read.digest()) and digest + folders))

    counts = CheckCounts()
    rows = _show_rows(batches())
    if checker:
        rows = checker(rows, counts, reader.schema)
    staged = _stage("parsing", sink, shape(rows), index)
    first = [replace(one, content=tuple(content)) for one in staged[:1]]
    return [*first, *staged[1:], *([counts] if checker else [])]


def name_contents(columns: pa.Schema, staged: Sequence[Staged]) -> dict[str, str]:
    """Hash each file's bytes together with the columns; above 100 files, all in one hash.

    More than a hundred files share one hash, under the empty file name. Files of formats whose
    readers don't see the bytes are left out.
    """
    digests: dict[str, list[str]] = {}
    for one in staged:
        for file, digest in one.content:
            digests.setdefault(file, []).append(digest)
    if len(digests) > _MOST_CONTENT_NAMES:
        digests = {"": [digest for each in digests.values() for digest in each]}
    fields = [f"{field.name} {field.type}" for field in columns]
    return {
        file: hashlib.sha256("\n".join(fields + each).encode()).hexdigest()
        for file, each in digests.items()
        if all(each)
    }


def _show_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged; add their rows to the progress of this thread's activity."""
    for batch in batches:
        add_progress(rows=batch.num_rows)
        yield batch


def land_frame(
    shape: Shape,
    sink: Sink,
    checker: RowChecker | None,
    batches: Iterator[pa.RecordBatch],
    partition: int,
) -> list[Staged | CheckCounts]:
    """Check, shape and stage one Spark partition; return objects, and counts if checked."""
    counts = CheckCounts()
    passing = checker(batches, counts, shape.source) if checker else batches
    rows = (cast_batch(batch, shape.source) for batch in passing)
    staged = _stage("reading", sink, shape(rows), partition)
    return [*staged, *([counts] if checker else [])]


def _stage(
    rows_stage: str, sink: Sink, batches: Iterator[pa.RecordBatch], index: int
) -> list[Staged]:
    """Encode and stage a task's rows as objects; the first has the times of the task's stages.

    `rows_stage` is the stage's name for the iteration of `batches`, `index` the task's number.
    """
    versions: set[int | None] = set()
    with measure_task() as timer:

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in measure_items(rows_stage, batches):
                timer.add_work(rows=batch.num_rows)
                if batch.num_rows and None not in versions:
                    versions.add(find_lowest_version(batch))
                yield batch

        with measure_stage("encoding"):
            staged = sink.write(counted(), index)
        work = timer.work()
    staged = [replace(one, lowest_version=combine_lowest_versions(versions)) for one in staged]
    return [replace(one, work=work) for one in staged[:1]] + staged[1:]
