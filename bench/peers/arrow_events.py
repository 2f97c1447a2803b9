"""The bench stream as Arrow tables, read the fast way that dlt's and delta-rs's users would."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.json as pj

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
        (
            "address",
            pa.struct(
                [
                    ("city", pa.string()),
                    ("zip", pa.string()),
                    ("geo", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
                ]
            ),
        ),
        ("score", pa.int64()),
    ]
)
LINE = pa.schema(
    [("type", pa.string()), ("stream", pa.string()), ("record", pa.struct(list(RECORD)))]
)


def tables(path: str) -> Iterator[pa.Table]:
    """Yield the stream's records, 32 MB of lines at a time, parsed on all cores."""
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
