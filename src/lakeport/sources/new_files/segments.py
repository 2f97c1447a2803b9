"""Segments: sorted, unchanging lists of files, each in one Arrow stream.

A name is bytes there: those of a disk need not be text.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from lakeport.sources.files.places import Listed

_ROWS = 4096  # of a batch: a few dozen segments are read side by side
_SORTED = 65_536  # files that are sorted in memory
_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.binary(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("tag", pa.string(), nullable=False),
    ]
)


def write_segment(files: Iterable[Listed], target: Any) -> None:
    """Write files, which come in the order of their URIs, to something with `write`."""
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_stream(target, _SCHEMA, options=options) as writer:
        for rows in _groups(files, _ROWS):
            uris, sizes, tags = zip(*rows, strict=True)
            names = [uri.encode("utf-8", "surrogateescape") for uri in uris]
            columns = [
                pa.array(c, f.type) for c, f in zip((names, sizes, tags), _SCHEMA, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))


def read_segment(source: Any) -> Iterator[Listed]:
    """The files of a segment, in the order of their URIs.

    Raises:
        pa.ArrowInvalid: it is no segment.
    """
    with ipc.open_stream(source) as reader:
        for batch in reader:
            names, sizes, tags = (column.to_pylist() for column in batch.columns)
            uris = (name.decode("utf-8", "surrogateescape") for name in names)
            yield from map(Listed, uris, sizes, tags)


def merged(segments: Sequence[Iterable[Listed]]) -> Iterator[Listed]:
    """The files of all segments, each once, as the last of the segments that have it says.

    Args:
        segments: each in the order of its URIs.
    """
    before = None
    ranked = (_ranked(files, -number) for number, files in enumerate(segments))
    for uri, _, file in heapq.merge(*ranked):
        if uri != before:
            yield file
        before = uri


def in_order(files: Iterable[Listed], folder: Path) -> Iterator[Listed]:
    """Files that come in any order in the order of their URIs, each once.

    No store is trusted with it: S3 Express lists in no order, and Azure's depends on the account.

    Args:
        files: as they are listed.
        folder: takes what does not fit into memory.
    """
    runs: list[Path] = []
    waiting = iter(files)
    while len(group := sorted(islice(waiting, _SORTED))) == _SORTED:
        runs.append(folder / f"listing-{len(runs)}.arrow")
        with runs[-1].open("xb") as target:
            write_segment(group, target)
    return merged([*map(_from_disk, runs), group])


def _ranked(files: Iterable[Listed], rank: int) -> Iterator[tuple[str, int, Listed]]:
    return ((file.uri, rank, file) for file in files)


def _from_disk(path: Path) -> Iterator[Listed]:
    with path.open("rb") as source:
        yield from read_segment(source)


def _groups(files: Iterable[Listed], size: int) -> Iterator[list[Listed]]:
    waiting = iter(files)
    while group := list(islice(waiting, size)):
        yield group
