"""JSON lines -> record batches: what is taken, what is refused, and how it is told."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import BadRecords, InputError, SourceError, UnknownFields
from lakeport.model import Reader, Split, UnknownPolicy
from lakeport.schema.jsonschema import parse_schema
from lakeport.sources.json import reader as json_reader
from lakeport.sources.json.reader import JsonReader

pytestmark = pytest.mark.usefixtures("fast_path")

PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "s": {"type": "string"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "t": {"type": "string", "format": "date-time"},
    "d": {"type": "string", "format": "date"},
    "m": {"type": "number", "multipleOf": 0.01},
    "dt": {"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2},
    "y": {"type": "string", "contentEncoding": "base64"},
    "l": {"type": "array", "items": {"type": "integer"}},
    "o": {
        "type": "object",
        "properties": {"x": {"type": "string", "format": "date"}, "y": {"type": "number"}},
    },
}
JSON_PROPERTIES: dict[str, Any] = {
    "j": {},
    "lj": {"type": "array"},
    "oj": {"type": "object", "properties": {"x": {}, "y": {"type": "integer"}}},
    "free": {"type": ["null", "object"]},
    "jsonb": {"type": ["null", "object", "array"]},
}
RECORDS = (b'{"id":0}', b'{"id":1}')
LONG = (
    "integer with more digits than a double holds "
    "(declare the column an integer, a decimal or a string)"
)
SpoolLines = Callable[[bytes], Split]


@pytest.fixture
def spool(tmp_path: Path) -> SpoolLines:
    def write(data: bytes) -> Split:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        path.write_bytes(data)
        return Split(str(path), 0, len(data))

    return write


def reader(properties: dict[str, Any] | None = None, **options: Any) -> JsonReader:
    schema = {"properties": {**PROPERTIES, **JSON_PROPERTIES} if properties is None else properties}
    return JsonReader("st", parse_schema("st", schema), **{"envelope": False, **options})


def rows(source: JsonReader, split: Split) -> list[dict[str, Any]]:
    """Landed rows without their nulls."""
    found = []
    for batch in source.read(split):
        batch.validate(full=True)
        assert batch.schema == source.schema
        found += [{k: v for k, v in r.items() if v is not None} for r in batch.to_pylist()]
    return found


def test_every_type_at_once(spool: SpoolLines) -> None:
    sent = {
        "id": 9007199254740993,
        "s": "a\x00é😀",
        "n": 0.1,
        "b": False,
        "t": "2024-01-01T00:00:00.000001+02:00",
        "d": "2024-02-29",
        "m": 1.5,
        "dt": "-3.10",
        "y": "aGk=",
        "l": [1, None],
        "o": {"x": "0001-01-01", "y": -2.5},
    }
    text = b'"j":{"a": [1, 2.50]},"lj":[1,"a", null ,{"z":1}],"oj":{"x":[1],"y":3}}'
    line = json.dumps(sent).encode()
    plain = spool(line)
    with_json = spool(line[:-1] + b"," + text)
    utc = dt.UTC
    wanted = {
        **sent,
        "t": dt.datetime(2023, 12, 31, 22, 0, 0, 1, utc),
        "d": dt.date(2024, 2, 29),
        "m": Decimal("1.50"),
        "dt": Decimal("-3.10"),
        "y": b"hi",
        "o": {"x": dt.date(1, 1, 1), "y": -2.5},
    }
    assert rows(reader(PROPERTIES), plain) == [wanted]
    assert rows(reader(), with_json) == [
        {
            **wanted,
            "j": '{"a": [1, 2.50]}',
            "lj": ["1", "a", None, '{"z":1}'],
            "oj": {"x": "[1]", "y": 3},
        }
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b'{"id":3.0}', {"id": 3}),
        (b'{"id":1e3}', {"id": 1000}),
        (b'{"id":-9223372036854775808}', {"id": -(2**63)}),
        (b'{"n":9007199254740992}', {"n": 2.0**53}),
        (b'{"n":1e300}', {"n": 1e300}),
        (b'{"n":1e23}', {"n": 1e23}),
        (b'{"n":9007199254740992.0}', {"n": 2.0**53}),
        (b'{"n":5e-324}', {"n": 5e-324}),
        (b'{"n":0e-400}', {"n": 0.0}),
        (b'{"n":-0.0}', {"n": -0.0}),
        (b'{"t":"2024-01-01"}', {"t": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}),
        (
            b'{"t":"2024-01-01T00:00:00.120000000Z"}',
            {"t": dt.datetime(2024, 1, 1, 0, 0, 0, 120000, dt.UTC)},
        ),
        (b'{"d":"2024-01-01T00:00:00Z"}', {"d": dt.date(2024, 1, 1)}),
        (b'{"m":"1.20"}', {"m": Decimal("1.20")}),
        (b'{"m":1.2000}', {"m": Decimal("1.20")}),
        (b'{"m":1e3}', {"m": Decimal("1000.00")}),
        (b'{"dt":3}', {"dt": Decimal("3.00")}),
        (b'{"m":-0.0}', {"m": Decimal("0.00")}),
        (b'{"m":0E-40}', {"m": Decimal("0.00")}),
        (b'{"dt":"1\\u0065\\u002d1"}', {"dt": Decimal("0.10")}),
        (b' {"id":1} \r', {"id": 1}),
        (b'{"\\u0069d":1}', {"id": 1}),
        ('{"s":"\u2028"}'.encode(), {"s": "\u2028"}),
        (b'{"j":null,"lj":null,"oj":{"x":null,"y":null}}', {"oj": {"x": None, "y": None}}),
        (b'{"lj":" [1, \\"x\\", null, {\\"a\\":1}] "}', {"lj": ["1", "x", None, '{"a":1}']}),
        (b'{"lj":["1", 1, "\\"q\\"", "", ["a"]]}', {"lj": ["1", "1", '"q"', "", '["a"]']}),
        (b'{"j":"a: \\u003a"}', {"j": '"a: \\u003a"'}),
        (b'{"j":"{}"}', {"j": '"{}"'}),
        (b'{"o":" {\\"y\\": 1.5} "}', {"o": {"x": None, "y": 1.5}}),
        (b'{"oj":"{\\"x\\": [1, \\"a\\"]}"}', {"oj": {"x": '[1, "a"]', "y": None}}),
        (b'{"free":"{\\"a\\": 1.50}"}', {"free": '{"a": 1.50}'}),
        (b'{"free":{"a": "{}"}}', {"free": '{"a": "{}"}'}),
        (b'{"free":[1]}', {"free": "[1]"}),
        (b'{"jsonb":"[1, {}]"}', {"jsonb": "[1, {}]"}),
        (b'{"jsonb":"{}"}', {"jsonb": "{}"}),
        (b'{"j":1e400}', {"j": "1e400"}),
        (b'{"j":' + b"[" * 400 + b"]" * 400 + b"}", {"j": "[" * 400 + "]" * 400}),
    ],
)
def test_what_is_taken(line: bytes, wanted: dict[str, Any], spool: SpoolLines) -> None:
    found = rows(reader(), spool(b'{"id":0}\n' + line))
    assert found == [{"id": 0}, wanted]
    assert str(found[1]).count("-0.0") == str(wanted).count("-0.0")


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        (b'{"id":3.7}', "id", "wrong type: expected integer, found a number with a fraction"),
        (b'{"id":"3"}', "id", "wrong type: expected integer, found string"),
        (b'{"id":9223372036854775808}', "id", "integer over 64 bit"),
        (b'{"id":1e400}', "id", "integer over 64 bit"),
        (b'{"id":1e9999999999999999999}', "id", "integer over 64 bit"),
        (
            b'{"id":7e-99999999999999999999}',
            "id",
            "wrong type: expected integer, found a number with a fraction",
        ),
        (b'{"id":' + b"9" * 5000 + b"}", "id", "integer over 64 bit"),
        (b'{"s":5}', "s", "wrong type: expected string, found number"),
        (b'{"s":{}}', "s", "wrong type: expected string, found object"),
        (b'{"b":1}', "b", "wrong type: expected boolean, found number"),
        (b'{"n":"1"}', "n", "wrong type: expected number, found string"),
        (b'{"n":1e400}', "n", "number too large for a double"),
        (b'{"n":1e-400}', "n", "number too small for a double, which would be zero"),
        (b'{"n":9007199254740993.0}', "n", LONG),
        (b'{"n":9007199254740993e0}', "n", LONG),
        (b'{"n":90071992547409930e-1}', "n", LONG),
        (b'{"o":{"y":9007199254740993}}', "o.y", LONG),
        (b'{"n":NaN}', "n", "NaN or Infinity, which are not JSON"),
        (b'{"o":{"y":-Infinity}}', "o.y", "NaN or Infinity, which are not JSON"),
        (b'{"t":1700000000}', "t", "wrong type: expected date-time string, found number"),
        (b'{"t":"yesterday"}', "t", "not a timestamp"),
        (b'{"t":"2024-01-01T23:59:60Z"}', "t", "not a timestamp"),
        (b'{"t":"9999-12-31T23:59:59-01:00"}', "t", "date out of range"),
        (b'{"t":"2024-01-01T00:00:00.1234567Z"}', "t", "finer than microseconds"),
        (b'{"d":"0000-01-01"}', "d", "date out of range"),
        (b'{"o":{"x":"2024-02-30"}}', "o.x", "not a date"),
        (b'{"m":1.234}', "m", "more than 2 digits after the point"),
        (b'{"m":1e40}', "m", "more than 36 digits before the point"),
        (b'{"m":1e-1000}', "m", "more than 2 digits after the point"),
        (b'{"m":1e9999999999999999999}', "m", "more than 36 digits before the point"),
        (b'{"dt":"1e-999999999"}', "dt", "more than 2 digits after the point"),
        (b'{"dt":"1\\u0065-999999999"}', "dt", "more than 2 digits after the point"),
        (b'{"dt":"7e-99999999999999999999"}', "dt", "more than 2 digits after the point"),
        (b'{"dt":"12345678901"}', "dt", "more than 8 digits before the point"),
        (b'{"dt":123456789}', "dt", "more than 8 digits before the point"),
        (b'{"dt":"abc"}', "dt", "not a number"),
        (b'{"dt":true}', "dt", "wrong type: expected decimal, found boolean"),
        (b'{"y":"@@"}', "y", "not base64"),
        (b'{"l":[1,"a"]}', "l.element", "wrong type: expected integer, found string"),
        (b'{"l":{}}', "l", "wrong type: expected array, found object"),
        (b'{"l":"[1,"}', "l", "wrong type: expected array, found string"),
        (b'{"l":"[1,\\"a\\"]"}', "l.element", "wrong type: expected integer, found string"),
        (b'{"lj":{}}', "lj", "wrong type: expected array, found object"),
        (b'{"lj":"[1,"}', "lj", "wrong type: expected array, found string"),
        (b'{"lj":"text"}', "lj", "wrong type: expected array, found string"),
        (b'{"o":[]}', "o", "wrong type: expected object, found array"),
        (b'{"o":"{"}', "o", "wrong type: expected object, found string"),
        (b'{"o":"[1]"}', "o", "wrong type: expected object, found string"),
        (b'{"o":"{\\"y\\": \\"1\\"}"}', "o.y", "wrong type: expected number, found string"),
        (b'{"oj":""}', "oj", "wrong type: expected object, found string"),
        (b'{"oj":"{\\"z\\": 1}"}', "oj.z", "undeclared field inside an object column"),
        (b'{"free":"a"}', "free", "wrong type: expected object, found string"),
        (b'{"free":"{\\"a\\":1,\\"a\\":2}"}', "free", "wrong type: expected object, found string"),
        (b'{"free":"[]"}', "free", "wrong type: expected object, found string"),
        (b'{"jsonb":"1"}', "jsonb", "wrong type: expected array or object, found string"),
        (b'{"o":{"z":1}}', "o.z", "undeclared field inside an object column"),
        (b'{"oj":{"z":1}}', "oj.z", "undeclared field inside an object column"),
        (b'{"id":1,"id":1}', "", "duplicate key in an object"),
        (b'{"o":{"x":null,"x":null}}', "o", "duplicate key in an object"),
        (b'{"j":1,"j":2}', "", "duplicate key in an object"),
        (b'{"j":[{"a":1,"a":2}]}', "j", "duplicate key in an object"),
        (b'{"":1}', "", "field with an empty name"),
        (b'{"id":1', "", "cut off"),
        (b'{"s":"abc', "", "cut off"),
        (b'{"b":tru', "", "cut off"),
        (b'{"id":', "", "cut off"),
        (b"nonsense", "", "not JSON"),
        (b'{"id":01}', "", "not JSON"),
        (b'{"id":1}{"id":2}', "", "not JSON"),
        (b'{"s":"a\x00b"}', "", "not JSON"),
        (b"[1]", "", "not an object"),
        (b"null", "", "not an object"),
        (b'{"s":"\xff"}', "", "not UTF-8 (byte 6 of the line)"),
        (b'{"s":"\xed\xa0\x80"}', "", "not UTF-8 (byte 6 of the line)"),
        (b'{    "\xff":1}', "", "not UTF-8 (byte 6 of the line)"),
        (b'{"d":"\xff"}', "", "not UTF-8 (byte 6 of the line)"),
        (b'{"j":"\xff"}', "", "not UTF-8 (byte 6 of the line)"),
        (b'{"s":"\\ud800"}', "s", "text that is not Unicode (half of a surrogate pair)"),
        (b'{"j":["\\udc00"]}', "j", "text that is not Unicode (half of a surrogate pair)"),
        (b'{"j":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "", "nested deeper than 500 levels"),
        (b'{"new":' + b'{"a":' * 10_000, "", "nested deeper than 500 levels"),
    ],
)
@pytest.mark.parametrize("envelope", [False, True])
def test_what_is_refused(
    line: bytes, column: str, reason: str, envelope: bool, spool: SpoolLines
) -> None:
    head, tail = (
        (b'{"type": "RECORD", "stream": "st", "record": ', b"}") if envelope else (b"", b"")
    )
    if reason == "cut off":
        tail = b""
    if reason.startswith("not UTF-8"):
        reason = f"not UTF-8 (byte {6 + len(head)} of the line)"

    def wrap(record: bytes) -> bytes:
        return head + record + tail

    first, last = (head + record + (b"}" if envelope else b"") for record in RECORDS)
    source = reader(envelope=envelope)
    split = spool(b"\n".join([first, b"", wrap(line), last]))
    with pytest.raises(BadRecords) as caught:
        rows(source, split)
    scan = source.scan(split)
    for bad in (caught.value.records[0], *scan.bad):
        assert (bad.stream, bad.line, bad.column, bad.reason) == ("st", 3, column, reason)
        assert bad.raw == wrap(line)
    assert scan.rows == 2
    assert rows(source.skip_bad_records(), split) == [{"id": 0}, {"id": 1}]


def test_messages_cut_off(spool: SpoolLines) -> None:
    split = spool(
        b'{"type": "RECORD", "stream": "st", "record": {"id":0}}\n{"type": "RECORD", "str'
    )
    assert [(b.line, b.reason) for b in reader(envelope=True).scan(split).bad] == [(2, "cut off")]


@pytest.mark.parametrize(
    "line",
    [
        b'{"stream": "st", "record": {"id":1}, "type": "RECORD"}',
        b'{"record":{"id":1},"version":7,"time_extracted":"2024-01-01T00:00:00Z"}',
        b'{"type": "RECORD", "record": {"id": 1}, "tags": {"a": [1]}, "stream": "st"}',
        b'{"type": "RECORD", "record": {"id": 1}, "version": "7", "stream": "st"}',
    ],
)
def test_messages_in_any_order_with_any_keys(line: bytes, spool: SpoolLines) -> None:
    first = b'{"type": "RECORD", "stream": "st", "record": {"id":0}}'
    for lines in ([first, line], [line, first]):
        assert len(rows(reader(PROPERTIES, envelope=True), spool(b"\n".join(lines)))) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type": "RECORD", "stream": "st"}', "message without a record"),
        (b'{"record": null}', "not an object"),
        (b'{"record": {"id":1}, "record": {"id":2}}', "duplicate key in an object"),
        (b'{"seen": 1, "record": {"id":1}, "record": {"id":2}}', "duplicate key in an object"),
        (b'{"seen": 1, "seen": 2, "record": {"id":1}}', "duplicate key in an object"),
    ],
)
def test_messages_that_are_refused(line: bytes, reason: str, spool: SpoolLines) -> None:
    scan = reader(PROPERTIES, envelope=True).scan(spool(line))
    assert [(b.column, b.reason) for b in scan.bad] == [("", reason)]


def test_required_fields(spool: SpoolLines) -> None:
    schema = {"properties": {"k": {"type": "integer"}, "r": {"type": "string"}}, "required": ["r"]}
    source = JsonReader("st", parse_schema("st", schema), envelope=False, key_properties=("k",))
    split = spool(b'{"k":1,"r":"a"}\n{"k":null,"r":"a"}\n{"k":1}')
    found = [(b.line, b.column, b.reason) for b in source.scan(split).bad]
    assert found == [(2, "k", "missing required field"), (3, "r", "missing required field")]


@pytest.mark.parametrize("policy", [UnknownPolicy.EVOLVE, UnknownPolicy.FAIL])
def test_undeclared_fields_stop_the_read(policy: UnknownPolicy, spool: SpoolLines) -> None:
    with pytest.raises(UnknownFields, match="'st' holds the field 'new'") as caught:
        rows(reader(unknown=policy), spool(b'{"id":1}\n{"new":1}'))
    assert policy.value in caught.value.hint
    assert "line 2" in caught.value.message


UNDECLARED = (
    b'{"id":1,"n1":1}\n{"n1":2.5,"j1":[1]}\n{"n1":null,"x":null}\n{"o":{"q":1}}\n{"id":"x","y":1}'
)


def test_undeclared_fields_are_surveyed(spool: SpoolLines) -> None:
    scan = reader().scan(spool(UNDECLARED))
    assert scan.rows == 3
    assert dict(scan.unknown) == {"n1": "number", "j1": "json", "x": "null"}
    assert dict(scan.unknown_values) == {"n1": 3, "j1": 1, "x": 1}
    assert [b.column for b in scan.bad] == ["o.q", "id"]


def test_undeclared_fields_are_dropped_and_counted(spool: SpoolLines) -> None:
    source = reader(PROPERTIES, unknown=UnknownPolicy.DROP)
    split = spool(UNDECLARED)
    scan = source.scan(split)
    assert dict(scan.unknown_values) == {"n1": 3, "j1": 1, "x": 1, "o.q": 1}
    assert rows(source.skip_bad_records(), split) == [
        {"id": 1},
        {},
        {},
        {"o": {"x": None, "y": None}},
    ]
    assert rows(source, spool(b'{"id":1,"":{"a":[]}}')) == [{"id": 1}]
    doubled = source.scan(spool(b'{"id":1,"z":1,"z":2}'))
    assert [b.reason for b in doubled.bad] == ["duplicate key in an object"]


OPEN: dict[str, Any] = {
    "type": ["null", "object"],
    "properties": {"a": {"type": "integer"}},
    "additionalProperties": True,
}
REST = "additional_properties"


@pytest.mark.parametrize(
    ("given", "landed"),
    [
        ('{"a":1}', {"a": 1, REST: None}),
        (
            '{"x":[1, null],"a":1,"y":{"z": 1.50}}',
            {"a": 1, REST: '{"x":[1, null],"y":{"z": 1.50}}'},
        ),
        ('{"x":null}', {"a": None, REST: '{"x":null}'}),
        ('{"q\\"\u00e9":1}', {"a": None, REST: '{"q\\"\u00e9":1}'}),
        ('{"additional_properties":{"x":1}}', {"a": None, REST: '{"x":1}'}),
        (
            '{"additional_properties":2,"x":1}',
            {"a": None, REST: '{"additional_properties":2,"x":1}'},
        ),
        ('"{\\"x\\":1}"', {"a": None, REST: '{"x":1}'}),
    ],
)
def test_members_that_an_object_allows_land_as_json(
    given: str, landed: dict[str, Any], spool: SpoolLines
) -> None:
    deep = {"type": "object", "properties": {"d": {"type": "array", "items": OPEN}}}
    source = reader({"o": OPEN, "l": {"type": "array", "items": OPEN}, "p": deep})
    line = f'{{"o":{given},"l":[null,{given}],"p":{{"d":[{given}]}}}}'
    split = spool(f'{line}\n{{"o":{{"a":7}}}}\n{line}'.encode())
    whole = {"o": landed, "l": [None, landed], "p": {"d": [landed]}}
    assert rows(source, split) == [whole, {"o": {"a": 7, REST: None}}, whole]
    assert (source.scan(split).bad, dict(source.scan(split).unknown)) == ((), {})


def test_members_that_an_object_allows_are_dropped_where_asked(spool: SpoolLines) -> None:
    source = reader({"o": OPEN}, unknown=UnknownPolicy.DROP)
    split = spool(b'{"o":{"a":1,"x":2}}')
    assert dict(source.scan(split).unknown_values) == {"o.x": 1}
    assert rows(source, split) == [{"o": {"a": 1}}]


def test_an_object_with_a_key_twice_is_bad_also_where_it_allows_others(spool: SpoolLines) -> None:
    (bad,) = reader({"o": OPEN}).scan(spool(b'{"o":{"x":1,"x":2}}')).bad
    assert bad.reason == "duplicate key in an object"


def test_undeclared_fields_become_columns(spool: SpoolLines) -> None:
    types = {"text": pa.string(), "n": pa.float64(), "i": pa.int64(), "b": pa.bool_()}
    source = reader({"id": {"type": "integer"}}).add_columns(types)
    assert source.schema.names == ["id", *types]
    split = spool(
        b'{"id":1,"text":"a \\u0041"}\n{"text":1.50,"n":1}\n{"text":{"a": [1]},"i":3}\n'
        b'{"text":true,"b":false}\n{"text":null}'
    )
    assert rows(source, split) == [
        {"id": 1, "text": "a A"},
        {"text": "1.50", "n": 1.0},
        {"text": '{"a": [1]}', "i": 3},
        {"text": "true", "b": False},
        {},
    ]
    nested = {"d": pa.decimal128(5, 2), "l": pa.list_(pa.date32())}
    split = spool(b'{"d":1.5,"l":["2024-01-01"]}')
    assert rows(source.add_columns(nested), split) == [
        {"d": Decimal("1.50"), "l": [dt.date(2024, 1, 1)]}
    ]
    with pytest.raises(InputError, match="declare the field"):
        source.add_columns({"m": pa.map_(pa.string(), pa.string())})


def test_a_stream_without_columns(spool: SpoolLines) -> None:
    source = reader({})
    split = spool(b'{"a":1}\n{"a":"x","b":{}}\n{}')
    scan = source.scan(split)
    assert (scan.rows, dict(scan.unknown)) == (3, {"a": "string", "b": "json"})
    batches = list(source.read(spool(b"{}\n{}")))
    assert [(b.num_rows, b.num_columns) for b in batches] == [(1, 0), (1, 0)]


def test_line_numbers_of_file_ranges_and_spools(tmp_path: Path) -> None:
    path, sidecar = tmp_path / "a.jsonl", tmp_path / "a.lines"
    data = b'{"id":1}\n{"id":"x"}\n{"id":2}\n{"id":"y"}\n'
    path.write_bytes(data)
    sidecar.write_bytes(struct.pack("<QQQQ", 0, 5, 2, 90))
    source = reader()

    def lines(split: Split) -> list[int]:
        return [b.line for b in source.scan(split).bad]

    assert lines(Split(str(path))) == [2, 4]
    assert lines(Split(str(path), 9, len(data), 101)) == [101, 103]
    assert lines(Split(str(path), 9, 20, 101)) == [101]
    assert lines(Split(str(path), first_line=0)) == [0, 0]
    assert lines(Split(str(path), first_line=5, lines=str(sidecar))) == [6, 91]


@pytest.mark.parametrize("block", [7, 64, 1 << 20])
def test_blocks_of_any_size(block: int, spool: SpoolLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "BLOCK_BYTES", block)
    lines = [json.dumps({"id": i, "s": "é" * (i % 9)}).encode() for i in range(40)]
    lines[7], lines[23] = b"\r", b'{"id":"x"}'
    lines[31] = b"\xef\xbb\xbf" + lines[31]  # where files were joined
    for end in (b"", b"\n", b"\r\n", b"\n\n"):
        split = spool(b"\xef\xbb\xbf" + b"\n".join(lines) + end)
        scan = reader(PROPERTIES).scan(split)
        assert (scan.rows, [b.line for b in scan.bad]) == (38, [24])
        ids = [r["id"] for r in rows(reader(PROPERTIES).skip_bad_records(), split)]
        assert ids == [i for i in range(40) if i not in (7, 23)]


@pytest.mark.parametrize("block", [1 << 10, 4 << 20])
@pytest.mark.parametrize("end", [b"", b"\n", b'\n{"id":3}'])
def test_lines_longer_than_the_limit(
    block: int, end: bytes, spool: SpoolLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_reader, "BLOCK_BYTES", block)
    long = b'{"s":"' + b"a" * (1 << 20) + b'"}'
    split = spool(b'{"id":1}\n' + long + b'\n{"id":2}\n' + long + end)
    source = reader(PROPERTIES, max_record_mb=1)
    scan = source.scan(split)
    assert [(b.line, b.reason, len(b.raw)) for b in scan.bad] == [
        (2, "longer than the limit of 1 MB", 4096),
        (4, "longer than the limit of 1 MB", 4096),
    ]
    assert scan.rows == 3 if end.endswith(b"}") else 2
    assert len(rows(reader(PROPERTIES, max_record_mb=2), split)) == scan.rows + 2


def test_many_columns(spool: SpoolLines) -> None:
    names = [f'c.{i} `"\\é' for i in range(10_000)]
    source = reader({n: {"type": "integer"} for n in names})
    line = json.dumps({n: i for i, n in enumerate(names)}).encode()
    batches = list(source.read(spool(line)))
    assert [c[0].as_py() for c in batches[0].columns] == list(range(10_000))


def test_names_that_need_care(spool: SpoolLines) -> None:
    names = ["a b", "a.b", "`", '"', "\\", "\n", "é", "a:b", "{", "}"]
    source = reader({**{n: {"type": "integer"} for n in names}, "json": {}})
    record = {n: i for i, n in enumerate(names)}
    split = spool(json.dumps({**record, "json": {"a:": ":"}}).encode())
    assert rows(source, split) == [{**record, "json": '{"a:": ":"}'}]


@pytest.mark.parametrize("policy", [UnknownPolicy.EVOLVE, UnknownPolicy.DROP])
@pytest.mark.parametrize("name", ['a"b', "a\tb", "a\0b", "a\\b", "a\nb", "\u007f", "é", "a:b", " "])
def test_members_whose_names_need_care(name: str, policy: UnknownPolicy, spool: SpoolLines) -> None:
    member = {"type": "object", "properties": {name: {"type": "integer"}}}
    source = reader({"o": member, "l": {"type": "array", "items": member}}, unknown=policy)
    split = spool(json.dumps({"o": {name: 1}, "l": [{name: 2}], "new": 3}).encode())
    scan = source.scan(split)
    assert (scan.rows, dict(scan.unknown)) == (1, {"new": "integer"})
    wanted: dict[str, Any] = {"o": {name: 1}, "l": [{name: 2}]}
    if policy is UnknownPolicy.EVOLVE:
        source, wanted = source.add_columns({"new": pa.int64()}), {**wanted, "new": 3}
    assert rows(source, split) == [wanted]
    undeclared = spool(json.dumps({"o": {f"{name}x": 1}}).encode())
    assert [b.column for b in source.scan(undeclared).bad] == (
        [f"o.{name}x"] if policy is UnknownPolicy.EVOLVE else []
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(SourceError, match=r"a\.jsonl"):
        rows(reader(), Split(str(path)))
    path.write_bytes(b'{"id":1}\n')
    with pytest.raises(SourceError, match="11 bytes before"):
        rows(reader(), Split(str(path), 0, 20))


def test_readers_travel_and_are_equal() -> None:
    source = reader(key_properties=("id",)).add_columns({"new": pa.string()}).skip_bad_records()
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert copy.schema == source.schema
    assert isinstance(copy, Reader)
    assert copy.skip_bad
