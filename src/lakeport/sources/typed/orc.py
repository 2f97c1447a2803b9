"""ORC files: one stripe at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakeport.model import Split
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.unpacking import ExpansionGuard, UnpackLimits
from lakeport.sources.splits import open_split
from lakeport.sources.typed.header import Header, reading

__all__ = ["batches", "look"]

_NAME = "ORC"


def look(file: SourceFile) -> Header:
    """A file's columns, stripes and rows.

    Raises:
        SourceError: it is no whole ORC file.
    """
    with _opened(file.split(0, -1, 0)) as opened:
        count = opened.nstripes
        return Header(opened.schema, (file.bytes // max(1, count),) * count, opened.nrows)


def batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Read the stripes `split.start` to `split.end` of a file.

    Raises:
        SourceError: the file is damaged, or unpacks to too much.
    """
    with _opened(split) as opened:
        guard = ExpansionGuard(split.uri, limits, packed=opened.file_length)
        for stripe in range(split.start, split.end):
            with reading(split.uri, _NAME):
                batch = opened.read_stripe(stripe)
                batch.validate(full=True)
            guard.add(batch.nbytes)
            yield batch


@contextmanager
def _opened(split: Split) -> Iterator[Any]:
    from pyarrow import orc

    with reading(split.uri, _NAME), open_split(split) as source:
        yield orc.ORCFile(pa.PythonFile(source, "r"))
