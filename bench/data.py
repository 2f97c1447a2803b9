"""Nested records, the same for every run: `python -m bench.data 2000000 FILE` writes a stream.

They come in three forms: a Singer stream, a CSV file (nested columns flattened, the list left out)
and an Arrow file, which stands for a frame.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

NULLABLE = {kind: {"type": ["null", kind]} for kind in ("string", "number", "integer", "boolean")}
PROPERTIES = {
    "id": {"type": "integer"},
    "name": NULLABLE["string"],
    "email": NULLABLE["string"],
    "amount": NULLABLE["number"],
    "active": NULLABLE["boolean"],
    "created_at": {"type": ["null", "string"], "format": "date-time"},
    "day": {"type": ["null", "string"], "format": "date"},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
    "address": {
        "type": ["null", "object"],
        "properties": {
            "city": NULLABLE["string"],
            "zip": NULLABLE["string"],
            "geo": {
                "type": ["null", "object"],
                "properties": {"lat": NULLABLE["number"], "lon": NULLABLE["number"]},
            },
        },
    },
    "score": NULLABLE["integer"],
}
SCHEMA = {
    "type": "SCHEMA",
    "stream": "events",
    "key_properties": ["id"],
    "schema": {"type": "object", "properties": PROPERTIES},
}
FLAT_PROPERTIES = {
    **{name: kind for name, kind in PROPERTIES.items() if name not in ("tags", "address")},
    "city": NULLABLE["string"],
    "zip": NULLABLE["string"],
    "lat": NULLABLE["number"],
    "lon": NULLABLE["number"],
}
CITIES = ("Berlin", "Paris", "São Paulo", "Zürich", "Tokyo", "Lagos")
GEO = pa.struct([("lat", pa.float64()), ("lon", pa.float64())])
FRAME = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("amount", pa.float64()),
        ("active", pa.bool_()),
        ("created_at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.string()), ("geo", GEO)])),
        ("score", pa.int64()),
    ]
)
BLOCK = 65_536


def record(i: int, rng: random.Random) -> str:
    """One record as JSON text, the way taps print it."""
    text, integer = rng.random, rng.randrange
    day = f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}"
    address = "null"
    if i % 11:
        address = (
            f'{{"city": "{CITIES[i % 6]}", "zip": "{integer(10**5):05d}", "geo": '
            f'{{"lat": {text() * 180 - 90:.6f}, "lon": {text() * 360 - 180:.6f}}}}}'
        )
    tags = ", ".join(f'"t{integer(50)}"' for _ in range(i % 4))
    # Some have more digits than a double holds.
    score = str((i % 101 == 1) * 2**60 + integer(10**9)) if i % 5 else "null"
    active = "null" if i % 17 == 0 else ("true" if text() < 0.5 else "false")
    return (
        f'{{"id": {i}, "name": "user {integer(10**6)}", '
        f'"email": "u{integer(10**7)}@example.com", "amount": {text() * 1e4:.2f}, '
        f'"active": {active}, "created_at": "{day}T{i % 24:02d}:{i % 60:02d}:{i * 7 % 60:02d}'
        f'.{integer(10**6):06d}+00:00", "day": "{day}", "tags": [{tags}], "address": {address}, '
        f'"score": {score}}}'
    )


def write(path: Path, records: int) -> Path:
    """Write a Singer stream of that many records, unless the file is there already."""
    if path.exists():
        return path
    rng = random.Random(7)
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as out:
        out.write(json.dumps(SCHEMA) + "\n")
        head = '{"type": "RECORD", "stream": "events", "record": '
        for i in range(records):
            out.write(f"{head}{record(i, rng)}}}\n")
        state = {"type": "STATE", "value": {"bookmarks": {"events": {"id": records}}}}
        out.write(json.dumps(state) + "\n")
    return partial.rename(path)


def write_partitioned(path: Path, records: int, partitions: int) -> Path:
    """Write a Singer stream with a column `part` of that many values, in turn."""
    if path.exists():
        return path
    rng = random.Random(7)
    schema = {"type": "object", "properties": {**PROPERTIES, "part": {"type": "integer"}}}
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as out:
        out.write(json.dumps({**SCHEMA, "schema": schema}) + "\n")
        for i in range(records):
            text = f'{record(i, rng)[:-1]}, "part": {i % partitions}}}'
            out.write(f'{{"type": "RECORD", "stream": "events", "record": {text}}}\n')
    return partial.rename(path)


def write_streams(path: Path, records: int, streams: int) -> Path:
    """Write a Singer input whose records go to that many streams, in turn."""
    if path.exists():
        return path
    rng = random.Random(7)
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as out:
        for number in range(streams):
            out.write(json.dumps({**SCHEMA, "stream": f"events_{number}"}) + "\n")
        for i in range(records):
            stream = f"events_{i % streams}"
            out.write(f'{{"type": "RECORD", "stream": "{stream}", "record": {record(i, rng)}}}\n')
    return partial.rename(path)


def tables(records: int) -> Iterator[pa.Table]:
    """The same records as Arrow tables, by Python's own parser: what every reader has to find."""
    rng = random.Random(7)
    for start in range(0, records, BLOCK):
        texts = (record(i, rng) for i in range(start, min(start + BLOCK, records)))
        rows = json.loads(f"[{','.join(texts)}]")
        for row in rows:
            row["created_at"] = datetime.fromisoformat(row["created_at"])
            row["day"] = date.fromisoformat(row["day"])
        yield pa.Table.from_pylist(rows, schema=FRAME)


def flat(table: pa.Table) -> pa.Table:
    """The records without what CSV has no form for: the list left out, the object's fields last."""
    address = table.column("address").combine_chunks()
    city, postcode, geo = (address.field(number) for number in range(3))
    valid = address.is_valid()
    leaves = {"city": city, "zip": postcode, "lat": geo.field(0), "lon": geo.field(1)}
    table = table.drop_columns(["tags", "address"])
    for name, values in leaves.items():
        table = table.append_column(name, pa.compute.if_else(valid, values, None))
    return table


def write_csv(path: Path, records: int) -> Path:
    """Write the flattened records with a header, unless the file is there already."""
    if path.exists():
        return path
    partial = path.with_suffix(".partial")
    names = True
    with partial.open("wb") as out:
        for table in map(flat, tables(records)):
            pa.csv.write_csv(table, out, pa.csv.WriteOptions(include_header=names))
            names = False
    return partial.rename(path)


def write_narrow(path: Path, rows: int) -> Path:
    """Write a CSV or Parquet file of a few plain columns, unless it is there already."""
    if path.exists():
        return path
    columns = (
        "range AS id, 'user ' || hash(range) % 1000000 AS name, (hash(range) % 1000000) / 100 AS "
        "amount, DATE '2024-01-01' + (range % 365)::INTEGER AS day, hash(range + 1) AS score"
    )
    partial = path.with_suffix(f".partial{path.suffix}")
    duckdb.sql(f"COPY (SELECT {columns} FROM range({rows})) TO '{partial}'")
    return partial.rename(path)


def write_frame(path: Path, records: int) -> Path:
    """Write the records as an Arrow file, unless it is there already."""
    if path.exists():
        return path
    partial = path.with_suffix(".partial")
    with pa.OSFile(str(partial), "wb") as out, pa.ipc.new_file(out, FRAME) as writer:
        for table in tables(records):
            writer.write_table(table)
    return partial.rename(path)


FORMS = {
    "singer": ("singer", write),
    "csv": ("csv", write_csv),
    "csv declared": ("csv", write_csv),
    "frame": ("arrow", write_frame),
}
"""An input -> the suffix of its file, and what writes it."""


def source(folder: Path, input_: str, records: int) -> Path:
    """The file of an input with that many records; made if it is not there."""
    suffix, make = FORMS[input_]
    return make(folder.resolve() / f"events-{records}.{suffix}", records)


def write_schema(folder: Path) -> Path:
    """The JSON schema of the CSV file, for who wants its columns declared."""
    path = folder.resolve() / "events.schema.json"
    path.write_text(json.dumps({"type": "object", "properties": FLAT_PROPERTIES}))
    return path


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
