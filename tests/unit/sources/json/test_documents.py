from __future__ import annotations

import gzip
import io
import json
from functools import partial
from pathlib import Path

import pytest

from lakeport.errors import BadRecords, SourceError, UnknownFields
from lakeport.model import UnknownPolicy
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.json import json_plan
from lakeport.sources.json.json_plan import (
    DocumentRecords,
    is_json_lines,
    split_lines,
    write_lines,
)
from tests.unit.sources.file_batch import file_batch, rows


def lines_of(tmp_path: Path, content: bytes) -> list[str]:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    target = io.BytesIO()
    with path.open("rb") as source:
        written = write_lines(DocumentRecords(source, "x.json"), target)
    assert written == len(target.getvalue())
    return target.getvalue().decode().splitlines()


def file_at(path: Path) -> SourceFile:
    return SourceFile(str(path), path.name, "json", path.stat().st_size)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"[]", []),
        (b" \n", []),
        (b'[{"a": 1},\n{"a":\n 2}]\n', ['{"a": 1}', '{"a":  2}']),
        (b'\xef\xbb\xbf[{"a": 1}]', ['{"a": 1}']),
        (b'{\n"a": 1}{"a": 2}\n\n{"a":3}', ['{ "a": 1}', '{"a": 2}', '{"a":3}']),
        (b'[{"n": 0.10000000000000000000000001, "e": 1E400}]', None),
        (b'[{"n": ' + b"9" * 5000 + b"}]", None),
        ('[{"s": "a\\n\\u00e9é€ ,]}"}]'.encode(), None),
        (b"[1, 23, null]", ["1", "23", "null"]),
        (
            b'[{"a": 1}] [ ]\n{"a": 2}\n[{"a": 3}, 4]5',
            ['{"a": 1}', '{"a": 2}', '{"a": 3}', "4", "5"],
        ),
    ],
)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_documents_become_lines_without_being_re_encoded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    lines: list[str] | None,
    chunk: int,
) -> None:
    monkeypatch.setattr(json_plan, "_CHUNK", chunk)
    assert lines_of(tmp_path, content) == ([content.decode()[1:-1]] if lines is None else lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1}, {"a"', "behind record 1"),
        (b'[{"a": 1}', "the array is not closed"),
        (b'[{"a": 1} {"a": 2}]', "a comma is missing"),
        (b'[{"a": 1}] }', "behind record 1"),
        (b'[{"a": 1}][', "behind record 1"),
        (b'[{"a": 1},]', "behind record 1"),
        (b'{"a": 1} x', "behind record 1"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[" * 200_000, "too deeply"),
    ],
)
def test_what_is_no_json_document(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        lines_of(tmp_path, content)


def test_a_record_without_end_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_plan, "MAX_RECORD_CHARS", 1000)
    monkeypatch.setattr(json_plan, "_CHUNK", 10)
    with pytest.raises(SourceError, match="no record ends within"):
        lines_of(tmp_path, b'[{"a": "' + b"x" * 5000)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1}\n{"a": 2}\n', True),
        (b'{"a": 1}', True),
        (b"", True),
        (b'{\n"a": 1}', False),
        (b'[{"a": 1}]', False),
        (b'{"a": 1}{"a": 2}\n', False),
        (b'{"a": 1}{"a": 2}', False),
        (b'{"a": 1}\n{\n"a": 2}\n', False),
        (b'{"a": 1}\n\n{"a":\n{"b": 2}}\n', False),
        (b'{"a": 1}\r\n \n {"a": {}} \n{"a": 2}', True),
        (b'\xef\xbb\xbf{"a": 1}\n{"a": 2} {"a": 3}\n', False),
    ],
)
def test_json_lines_are_known(tmp_path: Path, content: bytes, expected: bool) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert is_json_lines(file_at(path)) is expected


@pytest.mark.parametrize("split_bytes", [1, 5, 64, 10_000])
def test_splits_end_at_line_ends_with_their_line_numbers(tmp_path: Path, split_bytes: int) -> None:
    path = tmp_path / "x.jsonl"
    data = b"".join(b"%d\n" % (n**5) for n in range(100)) + b"last"
    path.write_bytes(b"\xef\xbb\xbf" + data)
    splits = split_lines(file_at(path), split_bytes)
    whole = path.read_bytes()
    assert b"".join(whole[s.start : s.end] for s in splits) == data
    assert [s.first_line for s in splits] == [1 + whole.count(b"\n", 0, s.start) for s in splits]
    assert all(whole[s.end - 1 : s.end] == b"\n" for s in splits[:-1])
    assert all(s.end - s.start <= split_bytes + 20 for s in splits)
    path.write_bytes(b"")
    assert split_lines(file_at(path), split_bytes) == []


load = partial(file_batch, name="t.json")


def test_records_of_all_layouts_land_together(tmp_path: Path) -> None:
    batch = load(
        tmp_path,
        b'[{"id": 1, "x": 1},\n {"id": 2, "x": 2.5}]',
        b'{"id": 9007199254740993}\n{"id": 4, "s": "a"}\n',
        b'{\n  "id": 5,\n  "l": [1, 2]\n}',
    )
    assert rows(batch) == [
        {"id": 1, "x": 1.0, "s": None, "l": None},
        {"id": 2, "x": 2.5, "s": None, "l": None},
        {"id": 9007199254740993, "x": None, "s": None, "l": None},
        {"id": 4, "x": None, "s": "a", "l": None},
        {"id": 5, "x": None, "s": None, "l": [1, 2]},
    ]
    assert batch.output_ratio == 0.2


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}\n{\n  "a": 2,\n  "s": "}{"\n}\n{"a": 3}',
        b'{"a": 1}\n{"a": 2, "s": "}{"} {"a": 3}\n',
        b'[{"a": 1},\n{"a": 2, "s": "}{"}]\n[{"a": 3}]',
        b'{"a": 1}\n[{"a": 2, "s": "}{"}, {"a": 3}]',
    ],
)
def test_several_values_of_a_document_in_any_layout(tmp_path: Path, content: bytes) -> None:
    assert rows(load(tmp_path, content)) == [
        {"a": 1, "s": None}, {"a": 2, "s": "}{"}, {"a": 3, "s": None}
    ]  # fmt: skip


def test_lines_in_a_json_file_keep_their_bad_records(tmp_path: Path) -> None:
    batch = load(tmp_path, b'{"a": 1}\n{"a":\n{"a": 3}\n')
    assert batch.reader is not None
    (scan,) = [batch.reader.scan(split) for split in batch.splits]
    assert [(bad.line, bad.reason) for bad in scan.bad] == [(2, "cut off")]


@pytest.mark.parametrize("content", [b'{\n"a": 1\n}\n', b'{"a": 1}{"a": 2}\n'])
def test_json_lines_stay_one_object_a_line(tmp_path: Path, content: bytes) -> None:
    batch = load(tmp_path, content, name="t.jsonl")
    with pytest.raises(BadRecords, match="line 1") as caught:
        rows(batch)
    assert "one object on each line" in caught.value.hint
    assert "--source-format json`" in caught.value.hint


def test_types_come_from_all_records(tmp_path: Path) -> None:
    many = b'{"a": 1}\n' * 3000
    batch = load(tmp_path, many, many + b'{"a": 0.5}\n', name="t.jsonl", split_bytes=1 << 12)
    assert len(batch.splits) > 5
    assert [row["a"] for row in rows(batch)][-2:] == [1.0, 0.5]


def test_compressed_lines(tmp_path: Path) -> None:
    content = b"".join(json.dumps({"a": n}).encode() + b"\n" for n in range(3000))
    batch = load(tmp_path, gzip.compress(content), name="t.jsonl.gz", split_bytes=1 << 12)
    assert [row["a"] for row in rows(batch)] == list(range(3000))
    assert batch.bytes == len(content)


def test_bad_records_have_their_line(tmp_path: Path) -> None:
    content = b'{"a": 1}\n' * 1000 + b'{"a": "x"}\n' + b'{"a": 1}\n' * 1000
    batch = load(tmp_path, content, name="t.jsonl", split_bytes=1 << 11, schema={"a": "integer"})
    with pytest.raises(BadRecords, match="line 1001, column 'a'"):
        rows(batch)


def test_declared_types_and_unknown_fields(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    content = b'{"a": "1", "b": 2}\n'
    with pytest.raises(UnknownFields, match="b"):
        rows(load(tmp_path, content, schema=schema))
    dropped = load(tmp_path, content, schema=schema, unknown_fields=UnknownPolicy.DROP)
    assert [row["a"] for row in rows(dropped)] == ["1"]
    mapped = load(tmp_path, b'{"a": 1, "b": 2}\n', schema={"b": "decimal(5,1)"})
    assert str(rows(mapped)) == "[{'a': 1, 'b': Decimal('2.0')}]"
    with pytest.raises(SourceError, match="'z' is declared, but no record has it"):
        load(tmp_path, content, schema={"z": "string"})


def test_no_records_at_all(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no file holds a record"):
        load(tmp_path, b"[]", b"")


def test_where_every_record_is_bad_the_first_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRecords, match="line 1, column 'a': NaN or Infinity"):
        rows(load(tmp_path, b'{"a": NaN}\n[1]\n'))
    assert rows(load(tmp_path, b"{}\n")) == [{}]
