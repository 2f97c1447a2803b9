"""A plan tells what a load would do, and leaves no trace of itself."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import SchemaConflict
from lakeport.loading.plan import plan
from tests.contract.conftest import Land
from tests.contract.targets import Target, record, schema, singer

INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def people(*ids: int, stream: str = "people", **more: str) -> list[dict[str, Any]]:
    declared = {"id": INTEGER, **dict.fromkeys(more, STRING)}
    return [schema(stream, declared), *(record(stream, id=n, **more) for n in ids)]


def test_of_files_into_a_new_table(target: Target, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name\n1,"a\nb"\n2,NA\n')
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id,name\n3,c\n"))
    (tmp_path / "c.jsonl").write_text('{"id": 1}\n{"id": 2}\n{"id": "x"}\n')
    to = target.config(table="people")
    (texts,) = plan([str(tmp_path / "a.csv"), str(tmp_path / "b.csv.gz")], to).streams
    assert (texts.exists, texts.version, texts.rows, texts.files) == (False, None, 3, 1)
    assert [(c.name, c.type) for c in texts.columns[:2]] == [("id", "integer"), ("name", "string")]
    (lines,) = plan(str(tmp_path / "c.jsonl"), to).streams
    assert (lines.rows, lines.columns[0].type) == (3, "json")
    assert target.files.keys() == []


def test_of_changes_to_a_table(target: Target, land: Land) -> None:
    keys = {"partition_keys": ["name"]} if target.format == "delta" else {}
    land(singer(*people(1, name="a", old="x")), **keys)
    before = target.files.keys()
    lines = singer(*people(2, 3, name="b", new="x"), *people(4, stream="others"))
    known, other = plan(io.BytesIO(lines), target.config()).streams
    assert (known.rows, other.rows, other.exists) == (2, 1, False)
    if target.format == "delta":
        assert (known.exists, known.version, known.partition_keys) == (True, 0, ("name",))
        changes = {column.name: column.change for column in known.columns}
        assert (changes["id"], changes["new"]) == ("", "new")
        assert changes["old"] == "only in the table: null"
        wrong = pa.table({"id": ["x"], "name": ["a"]})
        (clash,) = plan(wrong, target.config(table="people")).streams
        assert any("the load would fail: column 'id'" in text for text in clash.warnings)
    assert target.files.keys() == before
    if target.format == "delta":
        with pytest.raises(SchemaConflict, match="column 'id'"):
            land(wrong, table="people")


@pytest.mark.before_the_store
def test_of_bad_records_tells_how_many_and_the_first_three(target: Target, tmp_path: Path) -> None:
    lines = ["id,name", "1,a", "2", "3,b,c", "4,d", "5", "6"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    (told,) = plan(str(tmp_path / "a.csv"), target.config(table="people")).streams
    assert (told.rows, told.bad) == (2, 4)
    assert told.first_bad == (
        "line 3: expected 2 fields, found 1",
        "line 4: expected 2 fields, found 3",
        "line 6: expected 2 fields, found 1",
    )
    assert any("would fail on its bad records" in text for text in told.warnings)
    aside = target.config(table="people", on_bad_record="quarantine")
    (told,) = plan(str(tmp_path / "a.csv"), aside).streams
    assert told.bad == 4 and told.warnings == ()


@pytest.mark.before_the_store
def test_of_bad_singer_records(target: Target) -> None:
    wrong = {"type": "RECORD", "stream": "people", "record": {"id": "x"}}
    lines = singer(*people(1, 2), wrong) + b'{"type": "RECORD", "stream": "people", "rec'
    to = target.config(on_bad_record="quarantine")
    (told,) = plan(io.BytesIO(lines), to).streams
    assert (told.rows, told.bad) == (2, 2)
    assert any("column 'id': wrong type" in text for text in told.first_bad)
    assert target.files.keys() == []
