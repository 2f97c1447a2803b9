from __future__ import annotations

import datetime as dt
import io
import json
import struct
import sys
import tempfile
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeport
from lakeport.errors import MissingDependency, SourceError
from lakeport.model import Split
from lakeport.sources.input import decompression
from lakeport.sources.input.decompression import DEFAULT_LIMITS, ExpansionGuard, UnpackLimits
from lakeport.sources.typed import avro as blocks
from tests.unit.sources.file_batch import file_batch, planned, read_table
from tests.unit.sources.landed import landed

UTC = dt.UTC


def avro(fields: dict[str, Any], rows: list[dict[str, Any]], **options: Any) -> bytes:
    schema = {
        "type": "record",
        "name": "Row",
        "namespace": "org.example",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }
    target = io.BytesIO()
    fastavro.writer(target, schema, rows, **options)
    return target.getvalue()


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


NESTED = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {
            "name": "when",
            "type": {"type": "array", "items": ["null", logical("long", "timestamp-millis")]},
        },
        {
            "name": "sums",
            "type": {"type": "map", "values": logical("bytes", "decimal", precision=5, scale=1)},
        },
    ],
}
FIELDS = {
    "b": "boolean",
    "i": "int",
    "l": ["null", "long"],
    "f": ["float", "null"],
    "d": "double",
    "raw": "bytes",
    "s": "string",
    "none": "null",
    "day": logical("int", "date"),
    "ms": logical("long", "timestamp-millis"),
    "us": ["null", logical("long", "timestamp-micros")],
    "local": logical("long", "local-timestamp-micros"),
    "time": logical("int", "time-millis"),
    "time_us": logical("long", "time-micros"),
    "sum": ["null", logical("bytes", "decimal", precision=38, scale=4)],
    "fixed_sum": {
        "type": "fixed",
        "name": "Sum",
        "size": 8,
        "logicalType": "decimal",
        "precision": 18,
        "scale": 2,
    },
    "id": logical("string", "uuid"),
    "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
    "code": {"type": "fixed", "name": "Code", "size": 3},
    "inner": NESTED,
    "again": ["null", "org.example.Inner"],
    "other": ["null", "Colour"],
    "wide": ["null", "int", "long"],
    "odd": logical("string", "no-such-type"),
}
INNER = {"when": [None, dt.datetime(2024, 1, 1, tzinfo=UTC)], "sums": {"a": Decimal("-12.5")}}
ROW = {
    "b": True,
    "i": -(2**31),
    "l": 2**63 - 1,
    "f": 1.5,
    "d": 0.1,
    "raw": b"\0\xff",
    "s": "é😀",
    "none": None,
    "day": dt.date(1, 1, 1),
    "ms": dt.datetime(2024, 1, 2, 3, 4, 5, 678000, UTC),
    "us": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "local": dt.datetime(1950, 1, 1, 1, 1, 1, 1),
    "time": dt.time(1, 2, 3, 4000),
    "time_us": dt.time(23, 59, 59, 999999),
    "sum": Decimal("-1234567890123456789012345678901234.5678"),
    "fixed_sum": Decimal("-1.25"),
    "id": uuid.UUID(int=7),
    "colour": "RED",
    "code": b"abc",
    "inner": INNER,
    "again": INNER,
    "other": "BLUE",
    "wide": 2**40,
    "odd": "text",
}
EMPTY = {**ROW, **dict.fromkeys(("l", "f", "us", "sum", "again", "other", "wide"))}


def as_landed(row: dict[str, Any]) -> dict[str, Any]:
    def inner(value: Any) -> Any:
        return value and {**value, "sums": list(value["sums"].items())}

    return {
        **row,
        "local": row["local"].replace(tzinfo=UTC),
        "time": "01:02:03.004",
        "time_us": "23:59:59.999999",
        "id": str(row["id"]),
        "inner": inner(row["inner"]),
        "again": inner(row["again"]),
    }


def with_zstandard(content: bytes) -> bytes:
    """The same file, compressed with a codec that fastavro lacks a package for."""
    source = io.BytesIO(content)
    header = blocks.read_header(source)
    head = content[: header.end].replace(b"\x08null", b"\x12zstandard")
    parts = [head]
    for block in blocks.find_blocks(source, header, 0, len(content)):
        plain = content[block.data : block.data + block.size]
        packed = zstandard.compress(plain)
        parts += [
            blocks._encode_long(block.records),
            blocks._encode_long(len(packed)),
            packed,
            header.sync,
        ]
    return b"".join(parts)


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
def test_types_and_values(tmp_path: Path, file_type: str) -> None:
    (tmp_path / "t.avro").write_bytes(avro(FIELDS, [ROW, EMPTY]))
    table = landed(tmp_path / "t.avro", tmp_path / "lake", file_type=file_type)
    wanted = [as_landed(ROW), as_landed(EMPTY)]
    if file_type == "parquet":  # a column without a value is in no file
        wanted = [{n: v for n, v in row.items() if n != "none"} for row in wanted]
    assert table.to_pylist() == wanted
    types = {f.name: f.type for f in table.schema}
    assert types["i"] == pa.int32() and types["wide"] == pa.int64()
    assert types["sum"] == pa.decimal128(38, 4) and types["f"] == pa.float32()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz", "zstandard"])
def test_codecs_and_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    monkeypatch.setattr(blocks, "_PART_BYTES", 1000)
    monkeypatch.setattr(blocks, "_PIECE_BYTES", 3000)
    rows = [{"n": n, "s": f"{n * 7919}"} for n in range(5000)]
    plain = codec if codec != "zstandard" else "null"
    content = avro({"n": "long", "s": "string"}, rows, codec=plain, sync_interval=500)
    path = tmp_path / "t.avro"
    path.write_bytes(with_zstandard(content) if codec == "zstandard" else content)
    batch = planned(path, split_bytes=3000)
    assert len(batch.splits) > 3
    assert read_table(batch).to_pylist() == rows


@given(st.binary(max_size=400), st.integers(1, 60), st.integers(1, 40))
def test_every_block_is_in_one_range(data: bytes, step: int, size: int) -> None:
    rows = [{"b": data[n : n + size]} for n in range(0, len(data), size)]
    content = avro({"b": "bytes"}, rows, sync_interval=size)
    source = io.BytesIO(content)
    header = blocks.read_header(source)
    found = [
        block
        for start in range(0, len(content), step)
        for block in blocks.find_blocks(source, header, start, start + step)
    ]
    assert [block.start for block in found] == sorted({block.start for block in found})
    assert sum(block.records for block in found) == len(rows)


VALUES = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=10),
    "bytes": st.binary(max_size=10),
    "boolean": st.booleans(),
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_values_are_those_that_were_written(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    scale = data.draw(st.integers(0, 10))
    decimals = st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-scale))
    fields: dict[str, Any] = {f"c{n}": ["null", kind] for n, kind in enumerate(kinds)}
    of = {f"c{n}": st.none() | VALUES[kind] for n, kind in enumerate(kinds)}
    fields["d"] = logical("bytes", "decimal", precision=20, scale=scale)
    fields["l"] = {"type": "array", "items": ["null", kinds[0]]}
    of |= {"d": decimals, "l": st.lists(st.none() | VALUES[kinds[0]], max_size=3)}
    rows = data.draw(st.lists(st.fixed_dictionaries(of), max_size=8))
    content = avro(fields, rows)
    with tempfile.NamedTemporaryFile(suffix=".avro") as file:
        file.write(content)
        file.flush()
        parts = blocks.read_batches(Split(file.name, 0, 1), DEFAULT_LIMITS)
        assert [row for part in parts for row in part.to_pylist()] == rows


def test_zero_rows_keep_their_columns(tmp_path: Path) -> None:
    (tmp_path / "t.avro").write_bytes(avro(FIELDS, []))
    lakeport.land(tmp_path / "t.avro", tmp_path / "lake", table="t")
    columns = lakeport.Table(tmp_path / "lake/t").preview(1).column_names
    assert columns[: len(FIELDS)] == list(FIELDS)


WHOLE = avro({"n": "long", "s": "string"}, [{"n": n, "s": "abc"} for n in range(100)])
SNAPPY = avro({"s": "string"}, [{"s": "abcdefgh"}], codec="snappy")
RECURSIVE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}


def fixed(schema: Any, data: bytes = b"", count: int = 0) -> bytes:
    """A file with one block, not compressed."""
    sync = bytes(16)
    meta = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}
    pairs = [
        part
        for pair in meta.items()
        for text in pair
        for part in (blocks._encode_long(len(text)), text)
    ]
    head = [b"Obj\x01", blocks._encode_long(len(meta)), *pairs, blocks._encode_long(0), sync]
    return b"".join([*head, blocks._encode_long(count), blocks._encode_long(len(data)), data, sync])


def rows_of(type_: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": "c", "type": type_}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "can't be read as Avro: it does not begin"),
        (b"PAX1" * 50, "can't be read as Avro: it does not begin"),
        (WHOLE[:40], "can't be read as Avro: it is cut off"),
        (WHOLE[:-20], "can't be read as Avro: it is cut off"),
        (WHOLE[:-1], "can't be read as Avro: it is cut off"),
        (WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]), "does not end as it should|its records are damaged"),
        (SNAPPY.replace(b"efgh", b"efgi"), "a block's checksum is wrong"),
        (fixed(rows_of("string"), b"\x02", 1), "its records are damaged"),
        (fixed(rows_of("string"), b"\x04\xff\xff", 1), "its records are damaged"),
        (fixed(rows_of(["null", "long"]), b"\x08", 1), "its records are damaged"),
        (fixed(rows_of("int"), blocks._encode_long(2**40), 1), "can't be read as Avro"),
        (fixed("string"), r"t\.avro': it holds no records"),
        (fixed({"type": "record", "name": "R"}), "its records have no fields"),
        (fixed(rows_of("nonsense")), "its schema is none"),
        (fixed(rows_of(RECURSIVE)), "column 'c.next' holds itself"),
        (fixed(rows_of(["string", "long"])), r"column 'c' may hold .* \(string, int64\)"),
        (
            fixed(rows_of({"type": "bytes", "logicalType": "decimal", "precision": 50})),
            "decimal256",
        ),
        (
            fixed(rows_of({"type": "bytes", "logicalType": "decimal", "precision": 99})),
            "decimals of 99 digits",
        ),
        (
            fixed(rows_of(logical("bytes", "decimal", precision=2)), b"\x04\x7f\xff", 1),
            "can't be read as Avro",
        ),
        (
            fixed(rows_of(logical("long", "timestamp-nanos")), b"\x02", 1),
            "column 'c' holds a value that",
        ),
        (
            fixed(rows_of(logical("long", "timestamp-millis")), blocks._encode_long(2**55), 1),
            "column 'c' holds a value that",
        ),
        (WHOLE.replace(b"\x08null", b"\x08what"), "codec 'what' is none of"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.avro").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        lakeport.land(tmp_path / "t.avro", tmp_path / "lake")


def test_a_cut_off_compression_is_refused() -> None:
    data = avro({"s": "string"}, [{"s": "abc" * 1000}], codec="deflate")
    source = io.BytesIO(data)
    header = blocks.read_header(source)
    (block,) = blocks.find_blocks(source, header, 0, len(data))
    short = block._replace(size=block.size - 8)
    with pytest.raises(ValueError, match="cut off"):
        blocks.decompress_block(source, short, "deflate", ExpansionGuard("t", DEFAULT_LIMITS))


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    monkeypatch.setattr(decompression, "_FLOOR", 1 << 20)
    plain = codec if codec != "zstandard" else "null"
    content = avro({"s": "string"}, [{"s": "a" * (8 << 20)}], codec=plain)
    path = tmp_path / "t.avro"
    path.write_bytes(with_zstandard(content) if codec == "zstandard" else content)
    with pytest.raises(SourceError, match="more than 2 times its size"):
        list(blocks.read_batches(Split(str(path), 0, 10), UnpackLimits(ratio=2)))


def test_damage_anywhere_is_an_error_and_no_crash(tmp_path: Path) -> None:
    good = avro(FIELDS, [ROW, EMPTY] * 3, codec="deflate")
    path = tmp_path / "t.avro"
    refused = 0
    for place in range(0, len(good), 11):
        path.write_bytes(good[:place] + struct.pack("B", good[place] ^ 0x55) + good[place + 1 :])
        try:
            read_table(planned(path))
        except SourceError:
            refused += 1
    assert refused


def test_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingDependency) as caught:
        file_batch(tmp_path, WHOLE, name="t.avro")
    assert caught.value.hint == "pip install 'lakeport[avro]'"


def test_days_of_the_hybrid_calendar_are_rebased(tmp_path: Path) -> None:
    day = {"type": "int", "logicalType": "date"}
    fields = {"d": day, "l": {"type": "array", "items": day}}
    julian = dt.date(1001, 1, 7)
    metadata = {"org.apache.spark.version": "3.5.0"}
    for legacy, expected in (({}, julian), ({"org.apache.spark.legacyDateTime": ""}, None)):
        content = avro(fields, [{"d": julian, "l": [julian]}], metadata=metadata | legacy)
        (tmp_path / "t.avro").write_bytes(content)
        (row,) = landed(tmp_path / "t.avro", tmp_path / f"lake{len(legacy)}").to_pylist()
        right = expected or dt.date(1001, 1, 1)
        assert row == {"d": right, "l": [right]}
