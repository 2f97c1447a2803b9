"""Read Arrow IPC files and streams, one batch at a time; Feather files of version 2 are such."""

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


def read_footer(file: SourceFile, limits: UnpackLimits) -> Footer:
    """Read an Arrow IPC file's schema, with one part per record batch; a stream is one part.

    Raises:
        SourceError: it is neither an Arrow file nor a stream.
    """
    with _open_reader(file.split(0, -1, 0)) as opened:
        count = getattr(opened, "num_record_batches", 1)
        return Footer(file, opened.schema, (file.bytes // max(1, count),) * count)


def read_batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Yield batches `split.start` up to `split.end`, or a whole stream; SourceError if damaged."""
    with _open_reader(split) as opened:
        with open_split(split) as source:
            guard = ExpansionGuard(split.uri, limits, packed=source.seek(0, 2))
        for batch in _iterate_batches(opened, split):
            guard.add(batch.nbytes)
            yield batch


def _iterate_batches(opened: Any, split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the split's batches, or a whole stream, from an open reader; each fully validated."""
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
            batch.validate(full=True)  # Arrow does not check what it reads
        yield batch


@contextmanager
def _open_reader(split: Split) -> Iterator[Any]:
    """Context manager: open an IPC file or stream by its first bytes; SourceError if neither."""
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
