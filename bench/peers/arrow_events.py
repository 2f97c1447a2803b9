"""The bench's records as Arrow, read the fast way that users of dlt and delta-rs would choose."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj

GEO = pa.struct([("lat", pa.float64()), ("lon", pa.float64())])
RECORD = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("amount", pa.float64()),
        ("active", pa.bool_()),
        ("created_at", pa.timestamp("us", "UTC")),
        ("day", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.string()), ("geo", GEO)])),
        ("score", pa.int64()),
    ]
)
LINE = pa.schema(
    [("type", pa.string()), ("stream", pa.string()), ("record", pa.struct(list(RECORD)))]
)
FLAT = {
    "id": pa.int64(),
    "name": pa.string(),
    "email": pa.string(),
    "amount": pa.float64(),
    "active": pa.bool_(),
    "created_at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "score": pa.int64(),
    "city": pa.string(),
    "zip": pa.string(),
    "lat": pa.float64(),
    "lon": pa.float64(),
}


def tables(path: str, form: str) -> Iterator[pa.Table]:
    """Yield the records of a file in one of the bench's forms, some 10,000 rows at a time."""
    if form == "singer":
        yield from _singer(path)
    elif form == "frame":
        for batch in frame(path).to_batches():
            yield pa.Table.from_batches([batch])
    else:
        convert = pc.ConvertOptions(column_types=FLAT if form == "csv declared" else None)
        reading = pc.ReadOptions(block_size=8 << 20)
        for batch in pc.open_csv(path, reading, convert_options=convert):
            yield pa.Table.from_batches([batch])


def reader(path: str, form: str) -> pa.RecordBatchReader:
    """The same records as one stream of batches."""
    parts = tables(path, form)
    first = next(parts)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        for part in parts:
            yield from part.to_batches()

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def frame(path: str) -> pa.Table:
    """The frame that a process has in hand: an Arrow file, mapped into memory."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _singer(path: str) -> Iterator[pa.Table]:
    """32 MB of lines at a time, parsed on all cores."""
    with open(path, "rb") as source:
        source.readline()
        tail = b""
        while chunk := source.read(32 << 20):
            chunk = tail + chunk
            end = chunk.rfind(b"\n") + 1
            chunk, tail = chunk[:end], chunk[end:]
            state = chunk.rfind(b'{"type": "STATE"')
            if state >= 0:
                chunk = chunk[:state]
            parsed = pj.read_json(
                io.BytesIO(chunk),
                read_options=pj.ReadOptions(block_size=4 << 20),
                parse_options=pj.ParseOptions(
                    explicit_schema=LINE, unexpected_field_behavior="error"
                ),
            )
            table = pa.Table.from_batches(
                [
                    pa.RecordBatch.from_arrays(part.flatten(), schema=RECORD)
                    for part in parsed.column("record").chunks
                ]
            )
            day = table.schema.get_field_index("day")
            yield table.set_column(day, "day", table.column("day").cast(pa.date32()))
