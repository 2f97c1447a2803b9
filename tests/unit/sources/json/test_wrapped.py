from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport.errors import ConfigError, SourceError
from lakeport.sources.json import json_plan
from lakeport.sources.json.json_plan import DocumentRecords
from lakeport.sources.options import format_path, parse_path
from tests.unit.sources.file_batch import file_batch


def found(content: bytes, path: str) -> list[str]:
    return list(DocumentRecords(io.BytesIO(content), "x.json", parse_path(path)))


@pytest.mark.parametrize(
    ("content", "path", "records"),
    [
        (b'{"data": [{"a": 1}, {"a": 2}]}', "data", ['{"a": 1}', '{"a": 2}']),
        (b'{"n": 2, "data": [], "m": {"data": [1]}}', "data", []),
        (b'{"data": {"a": 1}}', "data", ['{"a": 1}']),
        (b'{"data": null}', "data", []),
        (
            b'{"x": {"items": 0}, "r": {"y": [[{}]], "items": [{"a": 1}]}}',
            "r.items",
            ['{"a": 1}'],
        ),
        (b'{"a.b": {"/": [{"n": 1e400}]}}', "/a.b/~1", ['{"n": 1e400}']),
        (b'{"": [{}]}', "/", ["{}"]),
        (b'[{"d": [{"a": 1}]}, {"d": [{"a": 2}]}]', "d", ['{"a": 1}', '{"a": 2}']),
        (b'{"d": [{"a": 1}]}\n{"d": [{"a": 2}]}', "d", ['{"a": 1}', '{"a": 2}']),
        (b'{"p": [{"d": [{"a": 1}]}, {"d": {"a": 2}}]}', "p.d", ['{"a": 1}', '{"a": 2}']),
        (b'\xef\xbb\xbf { "d" : [ {} , 7 ] , "e": "]}" } ', "d", ["{}", "7"]),
        (b'{"\\u0064": [{}]}', "d", ["{}"]),
        (b"", "d", []),
    ],
)
@pytest.mark.parametrize("chunk", [1, 5, 1 << 20])
def test_a_path_leads_to_records(
    monkeypatch: pytest.MonkeyPatch, content: bytes, path: str, records: list[str], chunk: int
) -> None:
    monkeypatch.setattr(json_plan, "_CHUNK", chunk)
    assert found(content, path) == records


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        (
            b'{"items": [], "meta": {}}',
            "data",
            "at the top, there is no 'data', but 'items', 'meta'",
        ),
        (b"{}", "data", "there is no 'data', but nothing"),
        (b'{"r": {"a": 1}}', "r.items", "below 'r', there is no 'items', but 'a'"),
        (b'{"r": "x"}', "r.items", "below 'r', there stands text"),
        (b'{"data": 5}', "data", "below 'data', there stands a number"),
        (b'{"data": true}', "data", "there stands a boolean"),
        (b'{"r": null}', "r.items", "below 'r', there stands null"),
        (b"7", "data", "at the top, there stands a number"),
        (b'{"d": [{}], "d": [{}]}', "d", "there are two fields 'd'"),
        (b'{"d": [{}]}{"e": 1}', "d", "behind record 1: at the top, there is no 'd', but 'e'"),
        (b'{"d": [{}]', "d", "the object is not closed"),
        (b'{"d": [{}', "d", "the array is not closed"),
        (b'{"d": [{}] "e": 1}', "d", "a comma is missing"),
        (b'{"d" [{}]}', "d", "a field's name is missing"),
        (b'{"e": [1}, "d": []}', "d", "a comma is missing"),
        (b'{"d": [{}],}', "d", "a field's name is missing"),
        (b"{d: []}", "d", "a field's name is missing"),
        (b"[" * 100_000, "d", "nested too deeply"),
    ],
)
def test_what_a_path_does_not_lead_to(content: bytes, path: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        found(content, path)
    assert message in caught.value.message


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", ".", "/a~2b", "/~"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ConfigError, match="`records_path` is"):
        parse_path(path)


NAMES = st.lists(st.text(max_size=5), min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(NAMES)
def test_a_path_is_read_as_it_is_written(names: list[str]) -> None:
    assert parse_path(format_path(names)) == tuple(names)


@given(
    NAMES,
    st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=4),
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_records_are_found_beside_anything(
    names: list[str], records: list[Any], beside: dict[str, Any], ascii_: bool, indent: int | None
) -> None:
    document: Any = records
    for name in reversed(names):
        document = {**{k: v for k, v in beside.items() if k != name}, name: document}
    content = json.dumps(document, ensure_ascii=ascii_, indent=indent)
    try:
        data = content.encode()
    except UnicodeEncodeError:
        return
    values = DocumentRecords(io.BytesIO(data), "x.json", names)
    assert [json.loads(text) for text in values] == records


def test_wrapped_records_are_landed(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(
        '{"count": 2, "result": {"items": [{"id": 1, "price": 0.10}, {"id": 12345678901234567}]}}'
    )
    report = lakeport.land(
        path, tmp_path / "lake", records_path="result.items", file_type="parquet"
    )
    assert report.rows == 2
    (written,) = (tmp_path / "lake").rglob("*.parquet")

    rows = pq.read_table(written).select(["id", "price"]).to_pylist()
    assert rows == [{"id": 1, "price": 0.1}, {"id": 12345678901234567, "price": None}]


def test_one_object_is_one_record_and_the_option_is_named(tmp_path: Path) -> None:
    batch = file_batch(tmp_path, b'{"n": 1, "r": {"a.b": [{"id": 1}]}}', name="t.json")
    (warning,) = batch.warnings
    assert "--records-path /r/a.b" in warning
    assert batch.reader is not None
    assert batch.reader.schema.names == ["n", "r"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": [{"id": 1}], "b": [{"id": 1}]}',
        b'{"a": [1, 2]}',
        b'{"a": [{"id": 1}]}\n{"a": []}',
        b'[{"a": [{"id": 1}]}, {"a": []}]',
    ],
)
def test_no_option_is_named_where_it_is_not_clear(tmp_path: Path, content: bytes) -> None:
    assert file_batch(tmp_path, content, name="t.json").warnings == ()


def test_the_option_is_for_json(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n")
    with pytest.raises(ConfigError, match="`records_path` is 'data', and the source is csv"):
        lakeport.land(path, tmp_path / "lake", records_path="data")
    with pytest.raises(ConfigError, match="`sheet` is 'x', and the source is a frame"):
        lakeport.land(pa.table({"id": [1]}), tmp_path, table="t", sheet="x")
