from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
from hypothesis import given
from hypothesis import strategies as st

from lakeport.schema.text import to_json_text
from lakeport.writers.files.csv import encode_header, encode_rows

TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.text('",\r\n x', max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "s": st.none() | TEXT,
            "f": st.none() | st.floats(allow_nan=False),
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "t": st.none() | st.datetimes(),
            "l": st.none() | st.lists(st.none() | TEXT, max_size=3),
        }
    ),
    min_size=1,
    max_size=8,
)
SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("f", pa.float64()),
        ("i", pa.int64()),
        ("t", pa.timestamp("us", "UTC")),
        ("l", pa.list_(pa.string())),
    ]
)


def encoded(rows: list[dict[str, Any]]) -> bytes:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    return encode_header(SCHEMA.names) + b"".join(bytes(piece) for piece in encode_rows(batch))


@given(ROWS)
def test_python_reads_every_value_back(rows: list[dict[str, Any]]) -> None:
    found = list(csv.DictReader(io.StringIO(encoded(rows).decode(), newline="")))
    assert len(found) == len(rows)
    for text, row in zip(found, rows, strict=True):
        assert text["s"] == (row["s"] or "")
        assert text["i"] == ("" if row["i"] is None else str(row["i"]))
        if row["f"] is not None:
            assert float(text["f"]) == row["f"]
            assert math.copysign(1, float(text["f"])) == math.copysign(1, row["f"])
        if row["t"] is not None:
            assert datetime.fromisoformat(text["t"]).replace(tzinfo=None) == row["t"]
        if row["l"] is not None:
            assert json.loads(text["l"]) == row["l"]


@given(ROWS)
def test_arrow_tells_null_from_empty(rows: list[dict[str, Any]]) -> None:
    table = pa_csv.read_csv(
        pa.py_buffer(encoded(rows)),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in SCHEMA.names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    assert table["s"].to_pylist() == [row["s"] for row in rows]
    assert [v is None for v in table["l"].to_pylist()] == [row["l"] is None for row in rows]


@given(st.lists(st.none() | TEXT.filter(lambda text: "\0" not in text)))
def test_duckdb_tells_null_from_empty(values: list[str | None]) -> None:
    batch = pa.RecordBatch.from_pydict({"s": pa.array(values, pa.string()), "n": [1] * len(values)})
    data = encode_header(["s", "n"]) + b"".join(bytes(piece) for piece in encode_rows(batch))
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(data)
        file.flush()
        options = "header=true, allow_quoted_nulls=false, delim=',', quote='\"', escape='\"'"
        columns = "columns={s: 'VARCHAR', n: 'INTEGER'}, auto_detect=false, new_line='\\n'"
        rows = duckdb.sql(f"from read_csv('{file.name}', {options}, {columns})").fetchall()
    assert [row[0] for row in rows] == values


@given(st.lists(st.dictionaries(TEXT, st.none() | st.floats(allow_nan=False), max_size=3)))
def test_maps_are_json_objects(values: list[dict[str, float | None]]) -> None:
    kind = pa.map_(pa.string(), pa.float64())
    texts = to_json_text(pa.array([list(v.items()) for v in values], kind)).to_pylist()
    expected = [
        {k: None if v is None or math.isinf(v) else v for k, v in row.items()} for row in values
    ]
    assert [json.loads(text) for text in texts] == expected
