"""Whatever the lines: the fast path and the slow path tell the same, and nothing else is raised."""

from __future__ import annotations

import base64
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import BadRecords, LakeportError
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.types import kind_to_arrow_type
from lakeport.sources.json.inference import infer_fields, merge_inferred
from lakeport.sources.json.reader import JsonReader
from lakeport.sources.json.record import Fault, RecordParser, create_batch_from_rows

pytestmark = pytest.mark.usefixtures("fast_path")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
longs = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1, 0])
doubles = st.floats(allow_nan=False, allow_infinity=False)
instants = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))
offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda d: timezone(timedelta(minutes=d // timedelta(minutes=1)))
)
decimals = st.decimals(-(10**12), 10**12, places=3, allow_nan=False)

LEAVES: dict[str, tuple[dict[str, Any], st.SearchStrategy[tuple[Any, Any]]]] = {
    "text": ({"type": "string"}, texts.map(lambda v: (v, v))),
    "long": ({"type": "integer"}, longs.map(lambda v: (v, v))),
    "double": ({"type": "number"}, doubles.map(lambda v: (v, v))),
    "flag": ({"type": "boolean"}, st.booleans().map(lambda v: (v, v))),
    "day": (
        {"type": "string", "format": "date"},
        st.dates().map(lambda v: (v.isoformat(), v)),
    ),
    "instant": (
        {"type": "string", "format": "date-time"},
        st.tuples(instants, offsets).map(lambda v: (v[0].astimezone(v[1]).isoformat(), v[0])),
    ),
    "money": (
        {"type": "string", "format": "singer.decimal", "precision": 20, "scale": 3},
        decimals.map(lambda v: (str(v), v)),
    ),
    "bytes": (
        {"type": "string", "contentEncoding": "base64"},
        st.binary(max_size=9).map(lambda v: (base64.b64encode(v).decode(), v)),
    ),
    "json": ({}, st.lists(texts | longs, max_size=3).map(lambda v: (v, v))),
}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    """A schema, and a strategy of pairs: what is sent, and what must be landed."""
    shape = draw(st.sampled_from(["leaf", "leaf", "list", "object"] if depth else ["leaf"]))
    if shape == "list":
        schema, values = draw(typed(depth - 1))
        return (
            {"type": ["null", "array"], "items": schema},
            st.lists(values | st.just((None, None)), max_size=3).map(
                lambda v: ([a for a, _ in v], [b for _, b in v])
            ),
        )
    if shape == "object":
        members = draw(st.dictionaries(st.sampled_from("abc"), typed(depth - 1), min_size=1))
        both = st.fixed_dictionaries(
            {k: v | st.just((None, None)) for k, (_, v) in members.items()}
        )
        return (
            {"type": "object", "properties": {k: s for k, (s, _) in members.items()}},
            both.map(
                lambda v: ({k: a for k, (a, _) in v.items()}, {k: b for k, (_, b) in v.items()})
            ),
        )
    return LEAVES[draw(st.sampled_from(sorted(LEAVES)))]


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[dict[str, Any], dict[str, Any]]]]:
    names = draw(st.lists(texts.filter(bool), min_size=1, max_size=4, unique_by=str.lower))
    columns = {name: draw(typed()) for name in names}
    record = st.fixed_dictionaries(
        {}, optional={name: v | st.just((None, None)) for name, (_, v) in columns.items()}
    )
    records = [
        ({k: a for k, (a, _) in r.items()}, {k: b for k, (_, b) in r.items()})
        for r in draw(st.lists(record, min_size=1, max_size=5))
    ]
    return {name: schema for name, (schema, _) in columns.items()}, records


@contextmanager
def spooled(data: bytes) -> Iterator[Split]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield Split(file.name)


def landed(reader: JsonReader, data: bytes) -> list[dict[str, Any]]:
    with spooled(data) as split:
        rows: list[dict[str, Any]] = []
        for batch in reader.read(split):
            batch.validate(full=True)
            assert batch.schema == reader.schema
            rows.extend(batch.to_pylist())
        return rows


def same(got: Any, sent: Any, schema: dict[str, Any]) -> bool:
    """Whether a landed value is what was sent, JSON text compared as JSON."""
    if sent is None or got is None:
        return sent is None and got is None
    if not schema:
        return bool(json.loads(got) == sent)
    if isinstance(sent, list):
        return len(got) == len(sent) and all(
            same(g, s, schema["items"]) for g, s in zip(got, sent, strict=True)
        )
    if isinstance(sent, dict):
        return all(same(got[k], sent[k], s) for k, s in schema["properties"].items())
    if isinstance(sent, float):
        return (
            isinstance(got, float)
            and math.copysign(1, got) == math.copysign(1, sent)
            and got == sent
        )
    return type(got) is type(sent) and bool(got == sent)


@given(streams(), st.booleans(), st.booleans())
def test_every_value_lands_as_it_was_sent(stream: Any, envelope: bool, ascii_only: bool) -> None:
    properties, records = stream
    reader = JsonReader("s", parse_schema("s", {"properties": properties}), envelope)
    messages = [
        {"type": "RECORD", "stream": "s", "record": sent} if envelope else sent
        for sent, _ in records
    ]
    data = "\n".join(json.dumps(m, ensure_ascii=ascii_only) for m in messages).encode()
    rows = landed(reader, data)
    assert len(rows) == len(records)
    for row, (sent, wanted) in zip(rows, records, strict=True):
        for name, schema in properties.items():
            want = wanted.get(name)
            assert same(row[name], sent.get(name) if not schema else want, schema)


PROPERTIES: dict[str, Any] = {
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "t": {"type": "string", "format": "date-time"},
    "d": {"type": "string", "format": "date"},
    "m": {"type": "number", "multipleOf": 0.01, "x-precision": 12, "x-scale": 2},
    "y": {"type": "string", "contentEncoding": "base64"},
    "l": {"type": "array", "items": {"type": "integer"}},
    "o": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "string"}}},
}
JSON_PROPERTIES = {
    "j": {},
    "lj": {"type": "array"},
    "oj": {"properties": {"x": {}, "y": {}}},
    "free": {"type": "object"},
}

LITERALS = """
0 -0 -0.0 1.0 1e3 1E400 1e-400 3.7 9007199254740993 9223372036854775808 -9223372036854775808
01 +1 .5 5. NaN Infinity -Infinity null true false nul tru "" "a" "\\ud800" "\\ud83d\\ude00"
"\\u0000" "\\x" "2024-01-01" "2024-02-30" "0000-01-01" "10000-01-01" "2024-01-01T24:00:00Z"
"2024-01-01T00:00:60Z" "2024-01-01T00:00:00.1234567Z" "2024-01-01T00:00:00.120000000Z"
"9999-12-31T23:59:59-01:00" "0001-01-01T00:00:00+01:00" "2024-01-01T00+01" "aGk=" "aGk" "1.23"
"1.234" "1e3" "+1." "NaN" {} [] {"x":1} {"x":1,"x":2} {"y":"\\u003a:"} [1,2] [1,"a"] [null]
{"z":1} {"x":null,"y":null} "{}" "{\\"x\\":1}" "[1]" "{\\"x\\":1,\\"x\\":2}"
12345678901.25 0.10 {"j":{"a":1,"a":2}} [[[]]] /**/
"""
literals = st.sampled_from(LITERALS.split())
keys = st.sampled_from([*PROPERTIES, *JSON_PROPERTIES, "new", "", "\\u0069", "x:y"])
objects = st.lists(st.tuples(keys, literals), max_size=4).map(
    lambda ms: "{" + ", ".join(f'"{k}": {v}' for k, v in ms) + "}"
)
wrapped = objects.map(lambda o: f'{{"type": "RECORD", "stream": "s", "record": {o}}}') | st.tuples(
    objects, literals
).map(lambda p: f'{{"record": {p[0]}, "seen": {p[1]}}}')
BOM = b"\xef\xbb\xbf"
rubbish = st.binary(max_size=20) | st.sampled_from(
    [b"", b" \t", b"\r", b"null", b"[1]", b'{"i":1}{"i":2}', BOM + b"{}", b'{"s":"\xff"}']
)


@st.composite
def files(draw: st.DrawFn, lines: st.SearchStrategy[str]) -> bytes:
    """Lines, some of them broken."""
    good = lines.map(str.encode)
    cut = st.tuples(good, st.integers(0, 60)).map(lambda p: p[0][: p[1]])
    return b"\n".join(draw(st.lists(good | good | cut | rubbish, max_size=8)))


def line_by_line(
    reader: JsonReader, data: bytes
) -> tuple[list[list[Any]], list[tuple[int, str, str]]]:
    parser = RecordParser(
        reader.columns, reader.unknown, envelope=reader.envelope, metadata=bool(reader.metadata)
    )
    rows, bad = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.removeprefix(BOM).strip(b" \t\r")
        if not text:
            continue
        try:
            rows.append(parser.parse(text))
        except Fault as fault:
            bad.append((number, fault.column, fault.reason))
    return rows, bad


def parsed_rows(reader: JsonReader, rows: list[list[Any]]) -> list[dict[str, Any]]:
    return create_batch_from_rows(rows, reader.schema).to_pylist() if rows else []


@pytest.mark.parametrize("envelope", [False, True])
@pytest.mark.parametrize("with_json", [False, True])
@pytest.mark.parametrize("policy", list(UnknownPolicy))
@given(data=st.data())
def test_fast_and_slow_path_agree(
    envelope: bool, with_json: bool, policy: UnknownPolicy, data: st.DataObject
) -> None:
    properties = {**PROPERTIES, **(JSON_PROPERTIES if with_json else {})}
    fields = parse_schema("s", {"properties": properties})
    reader = JsonReader("s", fields, envelope, policy)
    content = data.draw(files(wrapped if envelope else objects))
    rows, bad = line_by_line(reader, content)
    with spooled(content) as split:
        scan = reader.scan(split)
    assert [(b.line, b.column, b.reason) for b in scan.bad] == bad
    assert scan.rows == len(rows)
    extended = reader
    if policy is UnknownPolicy.EVOLVE:
        extended = reader.add_columns({n: kind_to_arrow_type(k) for n, k in scan.unknown.items()})
    if policy is not UnknownPolicy.FAIL or not scan.unknown:
        wanted = parsed_rows(extended, line_by_line(extended, content)[0])
        assert repr(landed(extended.skip_bad_records(), content)) == repr(wanted)


@given(st.binary(max_size=200) | files(objects) | files(wrapped), st.booleans())
def test_nothing_but_our_errors(data: bytes, envelope: bool) -> None:
    fields = parse_schema("s", {"properties": {**PROPERTIES, **JSON_PROPERTIES}})
    reader = JsonReader("s", fields, envelope)
    try:
        landed(reader, data)
    except LakeportError as error:
        assert isinstance(error, BadRecords) or "does not declare" in error.message


@given(files(objects), files(objects))
def test_inferred_columns_fit_every_good_record(one: bytes, other: bytes) -> None:
    fields = infer_fields([one, other])
    names = {f.name.lower() for f in fields}
    if len(names) < len(fields):
        return
    reader = JsonReader("s", fields, envelope=False)
    untyped = JsonReader("s", (), envelope=False)
    with spooled(one + b"\n" + other) as split:
        expected = untyped.scan(split)
        scan = reader.scan(split)
    assert scan.rows == expected.rows, scan.bad
    assert not scan.unknown


@given(st.lists(files(objects), min_size=2, max_size=4))
def test_columns_are_the_same_whether_blocks_are_known_to_fit_or_not(blocks: list[bytes]) -> None:
    """What is found in one block, the kernel looks for in the next before anything is inferred."""
    apart = merge_inferred(infer_fields([block]) for block in [*blocks, *blocks])
    assert infer_fields([*blocks, *blocks]) == apart


@given(decimals, st.integers(-5, 5))
def test_decimals_are_exact(value: Decimal, shift: int) -> None:
    text = f"{value.scaleb(-shift):f}E{shift}"
    reader = JsonReader(
        "s",
        parse_schema(
            "s", {"properties": {"m": {"type": "number", "x-precision": 20, "x-scale": 3}}}
        ),
        envelope=False,
    )
    assert landed(reader, f'{{"m": {text}}}'.encode()) == [{"m": value}]
    assert reader.schema.types == [pa.decimal128(20, 3)]
