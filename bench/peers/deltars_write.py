"""delta-rs: write_deltalake from an Arrow reader. `FILE TABLE_FOLDER`."""

import sys

import pyarrow as pa
from arrow_events import tables
from deltalake import write_deltalake

parts = tables(sys.argv[1])
first = next(parts)


def batches():  # type: ignore[no-untyped-def]  # a plain generator
    yield from first.to_batches()
    for part in parts:
        yield from part.to_batches()


write_deltalake(sys.argv[2], pa.RecordBatchReader.from_batches(first.schema, batches()))
