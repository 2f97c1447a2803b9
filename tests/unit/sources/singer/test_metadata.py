"""Singer's record metadata: every way through the source kernel gives the same columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import SourceError
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.jsonschema import parse_schema
from lakeport.sources.json.reader import JsonReader
from lakeport.sources.singer.metadata import RecordMetadata, add_metadata_fields

pytestmark = pytest.mark.usefixtures("fast_path")

NAMES = [
    "_sdc_extracted_at",
    "_sdc_received_at",
    "_sdc_batched_at",
    "_sdc_deleted_at",
    "_sdc_sequence",
    "_sdc_table_version",
    "_sdc_sync_started_at",
]
STARTED, BATCHED = 1_700_000_000_000_000, 1_700_000_001_000_000
EXTRACTED = "2024-05-06T07:08:09.123456Z"
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "at": {"type": "string"}}


def reader(properties: dict[str, Any] = PROPERTIES, **options: Any) -> JsonReader:
    fields = add_metadata_fields(parse_schema("users", {"properties": properties}, ()))
    options = {"envelope": True, "metadata": RecordMetadata(STARTED, BATCHED), **options}
    return JsonReader("users", fields, **options)


def message(record: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"type": "RECORD", "stream": "users", "record": record, **more}).encode()


def spooled(folder: Path, lines: Sequence[bytes], times: Sequence[tuple[int, int]] = ()) -> Split:
    path = folder / "a.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    if not times:
        return Split(str(path))
    sidecar = folder / "a.times"
    sidecar.write_bytes(b"".join(struct.pack("<QQ", *pair) for pair in times))
    return Split(str(path), times=str(sidecar))


def rows(source: JsonReader, split: Split) -> list[dict[str, Any]]:
    return pa.Table.from_batches(source.read(split), source.schema).to_pylist()


def micros(value: datetime) -> int:
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution)


def test_the_columns_and_their_types() -> None:
    schema = reader().schema
    assert schema.names == ["id", "at", *NAMES]
    instant = pa.timestamp("us", "UTC")
    assert schema.types[2:] == [*[instant] * 4, *[pa.int64()] * 3]


@pytest.mark.parametrize("way", ["fast", "other keys", "raw", "slow"])
def test_every_way_gives_the_same_columns(tmp_path: Path, way: str) -> None:
    properties = PROPERTIES | ({"raw": {}} if way == "raw" else {})
    told = {"time_extracted": EXTRACTED, "version": 7} | (
        {"seen": 1} if way == "other keys" else {}
    )
    lines = [message({"id": i, "at": "x"}, **told) for i in range(5)]
    if way == "other keys":  # the first line tells; a key more on it is enough
        lines[3] = message({"id": 3}, seen={"a": [1]})
    else:
        lines[3] = message({"id": 3})
    if way == "slow":
        lines[1] = lines[1].replace(b'"id": 1', b'"id": 1.0')
    times = [(0, BATCHED + 5), (2, BATCHED + 5_000_000), (4, BATCHED + 7_000_000)]
    found = rows(reader(properties), spooled(tmp_path, lines, times))
    assert [row["id"] for row in found] == list(range(5))
    received = [BATCHED + plus for plus in (5, 5, 5_000_000, 5_000_000, 7_000_000)]
    assert [micros(row["_sdc_received_at"]) for row in found] == received
    assert [row["_sdc_sequence"] for row in found] == [at // 1000 for at in received]
    assert {micros(row["_sdc_batched_at"]) for row in found} == {BATCHED}
    assert {row["_sdc_sync_started_at"] for row in found} == {STARTED // 1000}
    assert {row["_sdc_deleted_at"] for row in found} == {None}
    at = datetime.fromisoformat(EXTRACTED)
    assert [row["_sdc_extracted_at"] for row in found] == [at, at, at, None, at]
    assert [row["_sdc_table_version"] for row in found] == [7, 7, 7, None, 7]


def test_a_bad_record_leaves_the_others_their_times(tmp_path: Path) -> None:
    lines = [message({"id": i if i != 1 else "x"}) for i in range(4)]
    split = spooled(tmp_path, lines, [(0, BATCHED), (1, BATCHED + 1000), (2, BATCHED + 2000)])
    found = rows(reader(skip_bad=True), split)
    assert [(row["id"], micros(row["_sdc_received_at"]) - BATCHED) for row in found] == [
        (0, 0),
        (2, 2000),
        (3, 2000),
    ]


@pytest.mark.parametrize("slow", [False, True])
def test_what_a_record_brings_itself(tmp_path: Path, slow: bool) -> None:
    """A tap's own declaration gives way; its values count where the message has none."""
    own = {name: {"type": "string"} for name in NAMES}
    record = {
        "id": 1.0 if slow else 1,
        "_sdc_deleted_at": "2024-01-01T00:00:00Z",
        "_sdc_extracted_at": "2024-01-02T00:00:00Z",
        "_sdc_received_at": "2024-01-03T00:00:00Z",
        "_sdc_table_version": 3,
        "_sdc_sequence": 12,
    }
    lines = [message(record), message(record, time_extracted=EXTRACTED, version=9)]
    first, second = rows(reader(PROPERTIES | own), spooled(tmp_path, lines))
    assert first["_sdc_deleted_at"] == datetime(2024, 1, 1, tzinfo=UTC)
    assert (first["_sdc_extracted_at"].day, first["_sdc_table_version"]) == (2, 3)
    assert second["_sdc_extracted_at"] == datetime.fromisoformat(EXTRACTED)
    assert second["_sdc_table_version"] == 9
    for row in (first, second):
        assert micros(row["_sdc_received_at"]) == BATCHED
        assert row["_sdc_sequence"] == BATCHED // 1000


def test_metadata_that_is_none_makes_a_bad_record(tmp_path: Path) -> None:
    wrong = {"time_extracted": "yesterday"}, {"version": "two"}, {"version": 1.5}
    lines = [message({"id": 1}, **told) for told in wrong]
    found = reader().scan(spooled(tmp_path, [*lines, message({"id": 2})]))
    assert found.rows == 1
    assert [bad.column for bad in found.bad] == ["time_extracted", "version", "version"]
    assert reader(metadata=None).scan(spooled(tmp_path, lines)).bad == ()


def test_records_without_messages(tmp_path: Path) -> None:
    """The files of a BATCH: what the target knows, and what the records bring."""
    lines = [b'{"id": 1}', b'{"id": 2, "_sdc_extracted_at": "2024-01-02T00:00:00Z"}']
    found = rows(reader(envelope=False), spooled(tmp_path, lines))
    assert [row["_sdc_extracted_at"] is None for row in found] == [True, False]
    assert [row["_sdc_sequence"] for row in found] == [BATCHED // 1000] * 2


def test_undeclared_fields_beside_metadata(tmp_path: Path) -> None:
    split = spooled(tmp_path, [message({"id": 1, "new": 5}, version=2)])
    assert dict(reader().scan(split).unknown) == {"new": "integer"}
    (row,) = rows(reader().add_columns({"new": pa.int64()}), split)
    assert (row["new"], row["_sdc_table_version"]) == (5, 2)
    (row,) = rows(reader(unknown=UnknownPolicy.DROP), split)
    assert (row["id"], row["_sdc_table_version"]) == (1, 2)


def test_a_sidecar_that_has_gone_is_told(tmp_path: Path) -> None:
    split = spooled(tmp_path, [message({"id": 1})], [(0, BATCHED)])
    Path(split.times).unlink()
    with pytest.raises(SourceError, match=r"a\.times"):
        rows(reader(), split)
