"""Arrow IPC files and streams, which Feather files of version 2 are, too: one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import ExpansionGuard, UnpackLimits
from lakeport.sources.splits import Footer, explain_read_errors, open_split

_NAME = "Arrow IPC"
_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"


def look(file: SourceFile, limits: UnpackLimits) -> Footer:
    """A file's columns and batches; a stream is one part, as its batches can't be sought.

    Raises:
        SourceError: it is neither an Arrow file nor a stream.
    """
    with _opened(file.split(0, -1, 0)) as opened:
        count = getattr(opened, "num_record_batches", 1)
        return Footer(file, opened.schema, (file.bytes // max(1, count),) * count)


def batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Read the batches `split.start` to `split.end` of a file, or a whole stream.

    Raises:
        SourceError: the file is damaged, or unpacks to too much.
    """
    with _opened(split) as opened:
        guard = ExpansionGuard(split.uri, limits, packed=_size(split))
        for batch in _batches(opened, split):
            guard.add(batch.nbytes)
            yield batch


def _batches(opened: Any, split: Split) -> Iterator[pa.RecordBatch]:
    found = (
        map(opened.get_batch, range(split.start, split.end))
        if isinstance(opened, pa.ipc.RecordBatchFileReader)
        else iter(opened)
    )
    while True:
        with explain_read_errors(split.uri, _NAME):
            batch = next(found, None)
            if batch is None:
                return
            batch.validate(full=True)  # what Arrow reads it takes on trust
        yield batch


def _size(split: Split) -> int:
    with open_split(split) as source:
        return source.seek(0, 2)


@contextmanager
def _opened(split: Split) -> Iterator[Any]:
    """A reader of a split's file, by what its first bytes tell."""
    with explain_read_errors(split.uri, _NAME), open_split(split) as source:
        head = source.read(len(_FILE))
        source.seek(0)
        if head.startswith(_FEATHER_1):
            raise SourceError(
                f"file {split.uri!r} is a Feather file of version 1",
                "Arrow gives this format up: write it again, for example with "
                "`pyarrow.feather.write_feather(table, path)`, which writes version 2.",
            )
        if not head:
            raise SourceError(f"file {split.uri!r} is empty", "get the file again.")
        opener = pa.ipc.open_file if head == _FILE else pa.ipc.open_stream
        with opener(pa.PythonFile(source, "r")) as opened:
            yield opened
