from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from lakeport.errors import InputError
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.text import to_json_text, to_plain_text
from lakeport.schema.types import fit_json_type
from lakeport.sources.json.reader import JsonReader
from lakeport.writers.files.csv import encode_header, encode_rows
from lakeport.writers.files.encode import Encoder, encoder_for
from tests.unit.writers.files.memory import Memory

TS = pa.timestamp("us", "UTC")
AT = datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)


def encoded(columns: Mapping[str, Any], encoder: Encoder | None = None) -> bytes:
    batch = pa.RecordBatch.from_pydict(dict(columns))
    out = Memory()
    file = (encoder or encoder_for("csv")).open(batch.schema, out)
    file.write(batch)
    file.close()
    return out.file.getvalue()


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, -9007199254740993, None], pa.int64(), ["1", "-9007199254740993", None]),
        ([True, False, None], pa.bool_(), ["true", "false", None]),
        (
            [1.0, 1e300, -0.0, float("nan"), float("inf"), -float("inf"), 0.1, 123456789.0],
            pa.float64(),
            ["1.0", "1e+300", "-0.0", "NaN", "Infinity", "-Infinity", "0.1", "123456789.0"],
        ),
        ([Decimal("1e-30"), Decimal(0), None], pa.decimal128(38, 30), None),
        ([date(1, 1, 1), date(9999, 12, 31)], pa.date32(), ["0001-01-01", "9999-12-31"]),
        (
            [AT, datetime(1, 1, 1, tzinfo=UTC), None],
            TS,
            ["2024-03-04T15:30:45.123456+00:00", "0001-01-01T00:00:00.000000+00:00", None],
        ),
        ([b"\0\xff", b"", None], pa.binary(), ["AP8=", "", None]),
        ([[1, None], [], None], pa.list_(pa.int64()), ["[1,null]", "[]", None]),
    ],
)
def test_texts(values: list[Any], kind: pa.DataType, texts: list[Any] | None) -> None:
    expected = texts or [f"0.{'0' * 29}1", f"0.{'0' * 30}", None]
    assert to_plain_text(pa.array(values, kind)).to_pylist() == expected


def test_bytes_of_a_whole_file() -> None:
    data = encoded({"a,b": ["x", "", None, 'q"r', "l\nm"], "n": [1, None, 3, 4, 5]})
    assert data == b'"a,b",n\nx,1\n"",\n,3\n"q""r",4\n"l\nm",5\n'


def test_null_and_empty_string_are_told_apart_by_readers(tmp_path: Any) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(encoded({"s": ["", None, "x"], "n": [1, 2, 3]}))
    options = "header=true, allow_quoted_nulls=false"
    rows = duckdb.sql(f"select s from read_csv('{path}', {options})").fetchall()
    assert rows == [("",), (None,), ("x",)]
    convert = pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert pa_csv.read_csv(path, convert_options=convert)["s"].to_pylist() == ["", None, "x"]


def test_nested_values_are_json() -> None:
    kind = pa.struct(
        [
            ("a", pa.list_(pa.struct([("t", TS), ("m", pa.decimal128(20, 2))]))),
            ('k"', pa.map_(pa.string(), pa.float64())),
            ("b", pa.binary()),
            ("d", pa.date32()),
        ]
    )
    value = {
        "a": [{"t": AT, "m": Decimal("12345678901234567.89")}, None],
        'k"': [("x\n", 1.0), ("nan", float("nan"))],
        "b": b"\xff",
        "d": None,
    }
    text = to_json_text(pa.array([value, None], kind)).to_pylist()
    assert text == [
        '{"a":[{"t":"2024-03-04T15:30:45.123456+00:00","m":12345678901234567.89},null],'
        '"k\\"":{"x\\n":1.0,"nan":null},"b":"/w==","d":null}',
        "null",
    ]


def test_json_within_lists_and_objects_is_not_quoted_again() -> None:
    schema = {
        "free": {"type": "array"},
        "o": {"properties": {"x": {}, "y": {"type": "object"}, "z": {"type": "string"}}},
        "deep": {"items": {"items": {"properties": {"l": {"type": "array"}}}}},
    }
    parsed = parse_schema("s", {"properties": schema})
    fields = tuple(replace(f, type=fit_json_type(f.type, None)) for f in parsed)
    values: list[Any] = [
        {"free": ["1", '"x"', None, '{"a": [1.50]}'], "o": {"x": '"t"', "y": "{}", "z": "1"}},
        {"free": [], "o": {"x": None, "y": None, "z": '"'}, "deep": [[{"l": ["true"]}], None]},
        {"free": None},
    ]
    schema = JsonReader("s", fields, envelope=False).schema
    batch = pa.RecordBatch.from_pylist(values, schema)
    texts = [to_plain_text(column).to_pylist() for column in batch.columns]
    assert texts == [
        ['[1,"x",null,{"a": [1.50]}]', "[]", None],
        ['{"x":"t","y":{},"z":"1"}', '{"x":null,"y":null,"z":"\\""}', None],
        [None, '[[{"l":[true]}],null]', None],
    ]


def test_json_escapes_every_control_character() -> None:
    value = "".join(map(chr, range(0x21))) + '"\\/é\u2028😀'
    text = to_json_text(pa.array([[value]])).to_pylist()[0]
    assert json.loads(text) == [value]


def test_sliced_nested_batches() -> None:
    rows = [{"l": [str(i)] * (i % 4), "m": [("k", i)] if i % 3 else None} for i in range(40)]
    kind = pa.struct([("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int64()))])
    batch = pa.RecordBatch.from_arrays([pa.array(rows, kind)], names=["x"]).slice(7, 20)
    read = list(csv.reader(io.StringIO(b"".join(bytes(b) for b in encode_rows(batch)).decode())))
    expected = [{"l": r["l"], "m": dict(r["m"]) if r["m"] else r["m"]} for r in rows[7:27]]
    assert [json.loads(row[0]) for row in read] == expected


def test_large_batches_are_cut() -> None:
    batch = pa.RecordBatch.from_pydict({"x": ["y" * 1_000_000] * 80})
    pieces = list(encode_rows(batch))
    assert len(pieces) > 1
    assert b"".join(bytes(p) for p in pieces) == (b"y" * 1_000_000 + b"\n") * 80


def test_an_empty_batch_writes_nothing() -> None:
    assert encoded({"x": pa.array([], pa.int64())}) == b"x\n"


def test_nul_is_kept() -> None:
    data = encoded({"x": ["a\0b"], "y": [1]})
    assert next(csv.DictReader(io.StringIO(data.decode())))["x"] == "a\0b"


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_files(compression: Any) -> None:
    plain = encoded({"x": list(range(10_000))})
    data = encoded({"x": list(range(10_000))}, encoder_for("csv", compression))
    assert len(data) < len(plain)
    if compression == "gzip":
        assert gzip.decompress(data) == plain
    else:
        assert pa.input_stream(pa.py_buffer(data), compression="zstd").read() == plain


@pytest.mark.parametrize(
    "array",
    [
        pa.array([10**18], pa.int64()).cast(TS),
        pa.array([-(10**6)], pa.int32()).cast(pa.date32()),
        pa.array([[2_932_897]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    ],
)
def test_dates_that_iso_text_does_not_have(array: pa.Array) -> None:
    with pytest.raises(InputError, match="'when'"):
        to_plain_text(array, "when")


def test_header_is_always_there_and_quoted() -> None:
    assert encode_header(["a", 'b"', "c\nd", "é"]) == 'a,"b""","c\nd",é\n'.encode()
