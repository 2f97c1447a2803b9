"""Columns of JSON text: one encoding for every value, whichever source and mode it comes by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import InputError

PLAIN, MIXED, LATER = (
    [{"v": "b", "l": ["b"], "o": {"m": "b"}}],
    [{"v": "a", "l": ["a"], "o": {"m": "a"}}, {"v": 7, "l": [7], "o": {"m": 7}}],
    [{"v": "c", "l": ["c"], "o": {"m": "c"}}],
)


class Lake:
    """A lake of Delta tables on the disk, and JSON files to land in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = 0

    def file(self, text: str, suffix: str = "jsonl") -> str:
        self.files += 1
        path = self.folder / f"in-{self.files}.{suffix}"
        path.write_text(text)
        return str(path)

    def land(self, source: Any, **how: Any) -> lakeport.LandingReport:
        """Land records, a file's path or a frame."""
        if isinstance(source, list):
            source = self.file("".join(json.dumps(record) + "\n" for record in source))
        how.setdefault("table", "t")
        return lakeport.land(source, str(self.folder / "lake"), internal_columns=False, **how)

    def values(self, column: str = "v", table: str = "t") -> list[Any]:
        """The column's values, sorted."""
        return sorted(self.rows(table).column(column).to_pylist(), key=str)

    def rows(self, table: str = "t") -> pa.Table:
        return DeltaTable(self.folder / "lake" / table).to_pyarrow_table()

    def marks(self, table: str = "t") -> dict[str, Any]:
        """Column -> what its field's metadata say."""
        schema = json.loads(DeltaTable(self.folder / "lake" / table).schema().to_json())
        return {field["name"]: field["metadata"] for field in schema["fields"]}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_plain_text_stays_plain_and_it_is_told(lake: Lake) -> None:
    lake.land(PLAIN)
    warnings = lake.land(MIXED).streams[0].warnings
    assert [text.split("'")[1] for text in warnings] == ["v", "l.element", "o.m"]
    assert not lake.land(LATER).streams[0].warnings
    assert lake.values() == ["7", "a", "b", "c"]
    assert lake.values("l") == [["7"], ["a"], ["b"], ["c"]]
    assert lake.values("o") == [{"m": value} for value in ("7", "a", "b", "c")]
    assert lake.marks()["v"] == {}


def test_json_stays_json(lake: Lake) -> None:
    for records in (MIXED, PLAIN, LATER):
        assert not lake.land(records).streams[0].warnings
    assert lake.values() == ['"a"', '"b"', '"c"', "7"]
    assert lake.values("l") == [['"a"'], ['"b"'], ['"c"'], ["7"]]
    assert lake.values("o") == [{"m": value} for value in ('"a"', '"b"', '"c"', "7")]
    assert lake.marks()["v"] == {"lakeport.json": True}
    assert lake.marks()["l"] == {"lakeport.json": "element"}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (pd.DataFrame({"v": ["x"]}), '"x"'),
        (pl.DataFrame({"v": [1.5]}), "1.5"),
        (pa.table({"v": pa.array([{"a": 1}])}), '{"a":1}'),
        (pa.table({"v": pa.array(['{"a":1}'], pa.json_())}), '{"a":1}'),
        ("v\nab\n", '"ab"'),
        ("v\n7\n", "7"),
        ("v\n2024-01-02\n", '"2024-01-02"'),
    ],
)
def test_every_source_lands_as_json(lake: Lake, source: Any, text: str) -> None:
    lake.land([{"v": "a"}, {"v": 7}])
    lake.land(lake.file(source, "csv") if isinstance(source, str) else source)
    assert lake.values() == sorted(['"a"', "7", text])


def test_what_json_lacks_is_refused(lake: Lake) -> None:
    lake.land([{"v": "a"}, {"v": 7}])
    with pytest.raises(InputError, match=r"NaN or infinity"):
        lake.land(pa.table({"v": [float("inf")]}))


@pytest.mark.spark
@pytest.mark.parametrize(
    "sql", ["", "select v, k from source", "select v, max(k) k from source group by v"]
)
def test_merge_and_queries_keep_the_encoding(lake: Lake, sql: str) -> None:
    how = {"mode": "merge", "merge_keys": ["k"], "sql": sql or None}
    lake.land([{"k": 1, "v": "a"}, {"k": 2, "v": 7}], **how)
    lake.land([{"k": 1, "v": "z"}, {"k": 3, "v": "q"}], **how)
    assert lake.values() == ['"q"', '"z"', "7"]


@pytest.mark.spark
def test_texts_that_a_query_makes_are_quoted_and_it_is_told(lake: Lake) -> None:
    records = [{"k": 1, "v": {"a": 1}}, {"k": 2, "v": "b"}]
    for value, told in (("v", False), ("upper(v) v", True)):
        report = lake.land(records, sql=f"select k, {value} from source")
        assert any("text that the query made" in n for n in report.streams[0].notes) is told
    assert lake.values() == ['"\\"B\\""', '"b"', '"{\\"A\\": 1}"', '{"a": 1}']


def test_overwrite_resets_and_partition_overwrite_does_not(lake: Lake) -> None:
    for records, values, mark in (
        ([{"v": "a"}], ["a"], {}),
        ([{"v": "a"}, {"v": 7}], ['"a"', "7"], {"lakeport.json": True}),
        ([{"v": "c"}], ["c"], {}),
    ):
        lake.land(records, mode="overwrite")
        assert (lake.values(), lake.marks()["v"]) == (values, mark)
    how = {"mode": "overwrite", "partition_keys": ["p"], "table": "parts"}
    lake.land([{"p": 1, "v": "a"}, {"p": 2, "v": 7}], **how)
    lake.land([{"p": 1, "v": "c"}], **how)
    assert lake.values(table="parts") == ['"c"', "7"]


def test_a_column_without_a_value_takes_the_encoding_of_the_first(lake: Lake) -> None:
    for records in ([{"k": 1, "v": None}], [{"v": "c"}, {"v": 7}], [{"v": "x"}]):
        lake.land(records)
    assert lake.values() == ['"c"', '"x"', "7", None]


def test_declared_json(lake: Lake) -> None:
    lake.land(lake.file('v\n7\n"{""a"":1}"\n', "csv"), columns={"v": "json"})
    with pytest.raises(InputError, match="declared as json"):
        lake.land(lake.file("v\nab\n", "csv"), columns={"v": "json"})
    lake.land([{"v": "b"}])
    lake.land(pd.DataFrame({"v": ["[1]"]}), columns={"v": "json"})
    assert lake.values() == ['"b"', "7", "[1]", '{"a":1}']


@pytest.mark.spark
def test_altered_to_json_and_back(lake: Lake) -> None:
    uri = lake.land([{"v": "b"}]).streams[0].table
    table = lakeport.Table(uri)
    assert table.alter("v", "json").type == "json"
    lake.land([{"v": "a"}, {"v": 7}])
    assert lake.values() == ['"a"', '"b"', "7"]
    with pytest.raises(lakeport.errors.SchemaConflict):
        table.alter("v", "string")
    lake.land(
        [{"v": 7}, {"v": "x"}], mode="overwrite", sql="select v from source where v = '\"x\"'"
    )
    assert table.alter("v", "string").before == "json"
    assert (lake.values(), lake.marks()["v"]) == (["x"], {})


SCHEMA = {"type": "SCHEMA", "stream": "s", "key_properties": [], "schema": {"properties": {}}}


def singer(lake: Lake, *values: Any) -> str:
    records = [{"type": "RECORD", "stream": "s", "record": {"v": value}} for value in values]
    return lake.file("".join(json.dumps(line) + "\n" for line in (SCHEMA, *records)), "singer")


def test_undeclared_singer_fields_have_one_encoding(lake: Lake) -> None:
    for values in (["b"], ["a", 7], ["c"]):
        notes = lake.land(singer(lake, *values)).streams[0].notes
        assert any("strings as they are" in note for note in notes)
    assert lake.values() == ["7", "a", "b", "c"]
    lake.land(singer(lake, "b", {"a": 1}), table="j", columns={"v": "json"})
    lake.land(singer(lake, "c", 7), table="j")
    assert lake.values(table="j") == ['"b"', '"c"', "7", '{"a": 1}']


def test_files_carry_the_mark(lake: Lake, tmp_path: Path) -> None:
    config = {"destination": "local", "path": str(tmp_path / "files"), "file_type": "parquet"}
    lakeport.land(lake.file('{"v":"a","l":["a"]}\n{"v":7,"l":[7]}\n'), config, table="f")
    (path,) = (tmp_path / "files").rglob("*.parquet")
    schema = pq.read_schema(path)
    for field in (schema.field("v"), schema.field("l").type.value_field):
        assert field.metadata == {b"lakeport": b"json"}
    lake.land(str(path))
    lake.land([{"v": "b", "l": ["b"]}])
    assert lake.values() == ['"a"', '"b"', "7"]
    assert lake.values("l") == [['"a"'], ['"b"'], ["7"]]
