"""What the tasks of a load do: scan splits, or read, shape and stage them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pyarrow as pa

from lakeport.host.activity import advance
from lakeport.loading.expect.arrow import Findings, Sieve
from lakeport.model import Reader, Scan, Split, Staged
from lakeport.schema.casting import cast_batch
from lakeport.shape import Shape, combine_lowest_versions, find_lowest_version
from lakeport.sources.splits import content_read
from lakeport.writers.base import Sink
from lakeport.writers.stopwatch import measure_items, measure_task, stage

_MOST_NAMES = 100
"""Files of a load that have names of their own: each takes an entry in a table's log."""


def scan_split(reader: Reader, split: Split) -> list[Scan]:
    """Scan a split without landing it."""
    return [reader.scan(split)]


def land_splits(
    sink: Sink,
    remembered: bool,
    sieve: Sieve | None,
    item: tuple[int, Reader, Shape, tuple[Split, ...]],
) -> list[Staged | Findings]:
    """Read, shape and stage some splits.

    Args:
        sink: encodes and stages.
        remembered: whether to tell, with the first object, what was read: see `Staged.content`.
        sieve: tells which rows are not what is expected of them, and holds back some.
        item: the task's number, and what it reads.
    """
    index, reader, shape, splits = item
    content: list[tuple[str, str]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for split in splits:
            with content_read() if remembered else nullcontext() as read:
                yield from reader.read(split)
            if read:
                # The same bytes in another folder are other rows.
                folders = "".join(f" {name}={value}" for name, value in split.folders)
                content.append((split.uri, (digest := read.digest()) and digest + folders))

    found = Findings()
    rows = _counted(batches())
    staged = _staged(
        "parsing", sink, shape(sieve(rows, found, reader.schema) if sieve else rows), index
    )
    first = [replace(one, content=tuple(content)) for one in staged[:1]]
    return [*first, *staged[1:], *([found] if sieve else [])]


def contents_of(columns: pa.Schema, staged: Sequence[Staged]) -> dict[str, str]:
    """File -> the name of what was read of it: of its bytes, and of the columns made of them.

    Where files are many, all of them have one name, under an empty one of a file. Those of formats
    whose bytes nobody has seen have none.
    """
    digests: dict[str, list[str]] = {}
    for one in staged:
        for file, digest in one.content:
            digests.setdefault(file, []).append(digest)
    if len(digests) > _MOST_NAMES:
        digests = {"": [digest for found in digests.values() for digest in found]}
    made = [f"{field.name} {field.type}" for field in columns]
    return {
        file: hashlib.sha256("\n".join(made + found).encode()).hexdigest()
        for file, found in digests.items()
        if all(found)
    }


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        advance(rows=batch.num_rows)
        yield batch


def land_frame(
    shape: Shape,
    sink: Sink,
    sieve: Sieve | None,
    batches: Iterator[pa.RecordBatch],
    partition: int,
) -> list[Staged | Findings]:
    """Shape and stage a partition of a Spark frame; see `land_splits`."""
    found = Findings()
    passing = sieve(batches, found, shape.source) if sieve else batches
    rows = (cast_batch(batch, shape.source) for batch in passing)
    return [*_staged("reading", sink, shape(rows), partition), *([found] if sieve else [])]


def _staged(source: str, sink: Sink, batches: Iterator[pa.RecordBatch], index: int) -> list[Staged]:
    """Stage a task's rows, and note with the first object what that took.

    Args:
        source: the stage that making the rows is.
        sink: encodes and stages.
        batches: the rows, shaped.
        index: the task's number.
    """
    versions: set[int | None] = set()
    with measure_task() as watch:

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in measure_items(source, batches):
                watch.did(rows=batch.num_rows)
                if batch.num_rows and None not in versions:
                    versions.add(find_lowest_version(batch))
                yield batch

        with stage("encoding"):
            staged = sink.write(counted(), index)
        work = watch.work()
    staged = [replace(one, lowest_version=combine_lowest_versions(versions)) for one in staged]
    return [replace(one, work=work) for one in staged[:1]] + staged[1:]
