"""Nested Singer records, the same for every run: `python -m bench.data 2000000 FILE`."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

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
CITIES = ("Berlin", "Paris", "São Paulo", "Zürich", "Tokyo", "Lagos")


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
    active = "null" if i % 17 == 0 else ("true" if text() < 0.5 else "false")
    return (
        f'{{"id": {i}, "name": "user {integer(10**6)}", '
        f'"email": "u{integer(10**7)}@example.com", "amount": {text() * 1e4:.2f}, '
        f'"active": {active}, "created_at": "{day}T{i % 24:02d}:{i % 60:02d}:{i * 7 % 60:02d}'
        f'.{integer(10**6):06d}+00:00", "day": "{day}", "tags": [{tags}], "address": {address}, '
        f'"score": {integer(10**9) if i % 5 else "null"}}}'
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


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
