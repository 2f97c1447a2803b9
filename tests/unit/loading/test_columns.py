"""Declared, renamed and dropped columns, on every kind of source; what a report says of them."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import ConfigError, InputError, LakeportError, SourceError

ROWS = [
    {"id": 1, "name": "Ada", "price": "10.5", "when": "2024-01-01"},
    {"id": 2, "name": "Bob", "price": "2.25", "when": "2024-01-02T03:04:05Z"},
]
WANTED = [
    {"title": "Ada", "price": Decimal("10.50"), "when": datetime(2024, 1, 1, tzinfo=UTC)},
    {"title": "Bob", "price": Decimal("2.25"), "when": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)},
]
RULES: dict[str, Any] = {
    "columns": {"price": "decimal(10,2)", "when": "timestamp"},
    "rename": {"name": "title"},
    "drop": ["id"],
    "internal_columns": False,
}


def source(kind: str, folder: Path) -> Any:
    """The same rows as every kind of source."""
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    file = folder / f"things.{kind}"
    if kind == "csv":
        text = "".join(",".join(map(str, row.values())) + "\n" for row in ROWS)
        file.write_text("id,name,price,when\n" + text)
    elif kind == "jsonl":
        file.write_text(lines)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    elif kind == "frame":
        return pa.Table.from_pylist(ROWS)
    else:
        properties = {"id": {"type": "integer"}, "name": {"type": "string"}}
        properties |= {"price": {"type": "string"}, "when": {"type": "string"}}
        schema = {"type": "SCHEMA", "stream": "things", "key_properties": ["id"]}
        messages = [schema | {"schema": {"properties": properties}}]
        messages += [{"type": "RECORD", "stream": "things", "record": row} for row in ROWS]
        return io.BytesIO("".join(json.dumps(m) + "\n" for m in messages).encode())
    return str(file)


def rows(table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(found, key=str)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "frame", "singer"])
def test_rules_are_the_same_for_every_source(kind: str, tmp_path: Path) -> None:
    report = lakeport.land(source(kind, tmp_path), tmp_path / "lake", table="things", **RULES)
    assert rows(tmp_path / "lake" / "things") == sorted(WANTED, key=str)
    (stream,) = report.streams
    told = {"title": "string", "price": "decimal(10,2)", "when": "timestamp"}
    assert dict(stream.columns) == told
    assert report.to_dict()["streams"][0]["columns"] == told


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "frame", "singer"])
@pytest.mark.parametrize(
    ("key", "value"),
    [("columns", {"pryce": "double"}), ("rename", {"pryce": "p"}), ("drop", "pryce")],
)
def test_an_unknown_column_names_what_there_is_the_nearest_first(
    kind: str, key: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match="'pryce'") as failure:
        lakeport.land(source(kind, tmp_path), tmp_path / "lake", table="things", **{key: value})
    assert failure.value.hint.split("have ")[-1].split("has ")[-1].startswith("'price', ")
    assert not (tmp_path / "lake" / "things").exists()


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ({"columns": {"id": "intger"}}, ConfigError, "did you mean 'integer'"),
        ({"columns": {"id": "decimal(50,2)"}}, ConfigError, "which is no type"),
        ({"rename": {"id": "NAME"}}, SourceError, "'id' is renamed to 'NAME'"),
        ({"rename": {"id": "x", "name": "X"}}, ConfigError, "the same name"),
        ({"rename": {"id": " "}}, ConfigError, "an empty name"),
        ({"drop": "id,name,price,when"}, SourceError, "every column of the source is dropped"),
        ({"drop": "id", "rename": {"id": "x"}}, ConfigError, "`drop` leaves out 'id'"),
        ({"drop": "id", "columns": {"id": "string"}}, ConfigError, "`drop` leaves out 'id'"),
        ({"drop": "id", "merge_keys": "id"}, ConfigError, "`merge_keys` names 'id'"),
        ({"rename": {"id": "x"}, "partition_keys": "id"}, ConfigError, "calls 'x': name that"),
        ({"columns": {"name": "integer"}}, InputError, "name"),
        ({"columns": {"id": "double"}, "schema": {"id": "string"}}, ConfigError, "in one of them"),
        (
            {"columns": {"id": "double"}, "schema": {"properties": {"id": {"type": "integer"}}}},
            ConfigError,
            "into the schema",
        ),
    ],
)
def test_what_can_not_be_is_said(
    keys: dict[str, Any], error: type[LakeportError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as failure:
        lakeport.land(source("csv", tmp_path), tmp_path / "lake", **keys)
    assert words in str(failure.value)
    assert not (tmp_path / "lake" / "things").exists()


def test_names_can_be_swapped_and_partitions_take_the_new_one(tmp_path: Path) -> None:
    frame = pa.table({"a": [1, 2], "b": ["x", "y"]})
    lake = tmp_path / "lake"
    lakeport.land(
        frame,
        lake,
        table="t",
        rename={"a": "b", "b": "a"},
        partition_keys="a",
        internal_columns=False,
    )
    assert DeltaTable(str(lake / "t")).metadata().partition_columns == ["a"]
    assert rows(lake / "t") == [{"a": "x", "b": 1}, {"a": "y", "b": 2}]


def test_a_streams_own_keys_go_by_their_new_names(tmp_path: Path) -> None:
    for _ in range(2):
        lakeport.land(
            source("singer", tmp_path),
            tmp_path,
            mode="merge",
            rename={"id": "key"},
            internal_columns=False,
        )
    assert [row["key"] for row in rows(tmp_path / "things")] == [1, 2]
    with pytest.raises(ConfigError, match="'id' is dropped"):
        lakeport.land(source("singer", tmp_path), tmp_path, mode="merge", drop=["id"])
    lakeport.land(
        source("singer", tmp_path),
        tmp_path,
        table="u",
        mode="merge",
        drop=["id"],
        merge_keys="name",
    )
    assert len(rows(tmp_path / "u")) == 2


@pytest.mark.parametrize("named", ["as in the source", "as in the table"])
def test_keys_go_by_plain_names_and_by_the_source_s(tmp_path: Path, named: str) -> None:
    key, day, mark = "Kunden Nr", "Tag (UTC)", "Ist gelöscht"
    if named == "as in the table":
        key, day, mark = "kunden_nr", "tag_utc", "ist_geloscht"
    for gone in (False, True):
        frame = pa.table(
            {
                "Kunden Nr": [1, 2],
                "Tag (UTC)": ["a", "b"],
                "Ist gelöscht": [False, gone],
                "Preis €": ["1.5", "2"],
            }
        )
        lakeport.land(
            frame,
            tmp_path,
            table="t",
            mode="merge",
            merge_keys=key,
            partition_keys=day,
            hard_delete=True,
            delete_column=mark,
            columns={"Preis €": "decimal(4,2)"},
            column_header_format="snake",
            internal_columns=False,
            engine="threads",
        )
    wanted = {"kunden_nr": 1, "tag_utc": "a", "ist_geloscht": False, "preis": Decimal("1.50")}
    assert rows(tmp_path / "t") == [wanted]
    assert DeltaTable(str(tmp_path / "t")).metadata().partition_columns == ["tag_utc"]


def test_a_name_that_takes_spark_is_told_with_a_plain_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'Unit Price' .*snake.* takes Spark"):
        lakeport.plan(pa.table({"Unit Price": [1]}), tmp_path, table="t", engine="threads")
    lakeport.land(pa.table({"id": [1]}), tmp_path, table="t", engine="threads")
    late = lakeport.plan(pa.table({"id": [1], "Unit Price": [1]}), tmp_path, table="t")
    assert "--rename 'Unit Price=unit_price'" in late.streams[0].warnings[0]


def test_rules_are_about_one_stream(tmp_path: Path) -> None:
    lines = [
        {"type": "SCHEMA", "stream": name, "schema": {"properties": {"id": {"type": "integer"}}}}
        for name in ("a", "b")
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with pytest.raises(ConfigError, match="`rename` is about the columns of one stream"):
        lakeport.land(io.BytesIO(text), tmp_path, rename={"id": "x"})


@pytest.mark.parametrize(
    ("values", "type_", "seen"),
    [
        ([1.5, 2.25, 3.125], "decimal(10,2)", "3.125"),
        ([1.0, 2.5], "integer", "2.5"),
        (["1", "x"], "integer", "'x'"),
        ([1, 2**53 + 1], "double", "9007199254740993"),
    ],
)
def test_a_value_that_the_type_has_not_is_named(
    values: list[Any], type_: str, seen: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="declared as") as failure:
        lakeport.land(pa.table({"n": values}), tmp_path, table="t", columns={"n": type_})
    assert seen in failure.value.message
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_plan_shows_the_columns_by_their_rules(tmp_path: Path) -> None:
    plan = lakeport.plan(source("csv", tmp_path), tmp_path / "lake", **RULES)
    told = {column.name: column.type for column in plan.streams[0].columns}
    assert told["price"] == "decimal(10,2)"
    assert list(told) == ["title", "price", "when"]


def singer(*tags: Any, items: Any = True) -> io.BytesIO:
    """A Singer stream `t` of records with these lists, whose items the schema leaves open."""
    properties = {"tags": {"type": "array", "items": items}}
    head = {"type": "SCHEMA", "stream": "t", "schema": {"properties": properties}}
    head["key_properties"] = []
    records = ({"type": "RECORD", "stream": "t", "record": {"tags": row}} for row in tags)
    return io.BytesIO("\n".join(map(json.dumps, (head, *records))).encode())


def test_a_list_of_strings_is_one_where_the_schema_leaves_its_items_open(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"internal_columns": False}
    plan = lakeport.plan(singer(["a"]), tmp_path, **keys)
    first = lakeport.land(singer(["a", 'é\n"q"'], []), tmp_path, **keys)
    (note,) = first.streams[0].notes
    assert note.startswith("the schema gives items of lists no one type: 'tags'; strings land")
    assert plan.streams[0].notes == (note,)
    assert plan.streams[0].columns[0].type == "list of string"
    later = lakeport.land(singer(["b", 1, "1", {"k": [None]}, None]), tmp_path, **keys)
    assert (later.streams[0].notes, later.streams[0].warnings) == ((), ())
    assert DeltaTable(str(tmp_path / "t")).version() == 1
    assert "lakeport.json" not in DeltaTable(str(tmp_path / "t")).schema().to_json()
    assert values(tmp_path / "t", "tags") == [
        ["a", 'é\n"q"'],
        [],
        ["b", "1", "1", '{"k": [null]}', None],
    ]


def test_open_items_are_json_in_a_table_that_has_them_so(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"internal_columns": False, "table": "t"}
    file = tmp_path / "t.jsonl"
    file.write_text('{"tags": [1, "a"]}\n')
    lakeport.land(file, tmp_path, **keys)
    plan = lakeport.plan(singer(["a"]), tmp_path, **keys)
    assert (plan.streams[0].columns[0].type, plan.streams[0].notes) == ("list of json", ())
    report = lakeport.land(singer(["1", 1]), tmp_path, **keys)
    assert report.streams[0].notes == ()
    assert values(tmp_path / "t", "tags") == [["1", '"a"'], ['"1"', "1"]]
    replaced = lakeport.land(singer(["1", 1]), tmp_path, mode="overwrite", **keys)
    assert len(replaced.streams[0].notes) == 1
    assert values(tmp_path / "t", "tags") == [["1", "1"]]


def test_a_csv_file_has_lists_of_open_items_as_json(tmp_path: Path) -> None:
    report = lakeport.land(singer(["1", 1]), tmp_path, file_type="csv", internal_columns=False)
    assert report.streams[0].notes == ()
    (file,) = (tmp_path / "t").glob("*.csv")
    assert file.read_text() == 'tags\n"[""1"",1]"\n'


def values(table: Path, column: str) -> list[Any]:
    """A Delta table's values of a column as delta-rs reads them, the oldest first."""
    found = DeltaTable(str(table))
    files = reversed(found.file_uris())
    return [value for file in files for value in pq.read_table(file)[column].to_pylist()]


def test_dates_in_json_stay_text_and_are_told_until_they_are_wanted(tmp_path: Path) -> None:
    file, lake = tmp_path / "t.jsonl", tmp_path / "lake"
    file.write_text(
        '{"at": "2024-03-04T15:30:45+01:00", "a.b": "2024-03-04", "o": {"l": ["2024-01-01"]}}\n'
        '{"at": null, "a.b": "2024-03-05", "o": {"l": []}, "mix": "2024-01-01"}\n{"mix": "x"}\n'
    )
    keys: dict[str, Any] = {"internal_columns": False}
    told = (
        "text that is all ISO dates or times stays text: 'at', 'a.b', 'o.l.element'; "
        "`--infer-dates` (`infer_dates`) gives it types, `--column at=timestamp` (`columns`) does "
        "for one column"
    )
    assert told in lakeport.plan(file, lake, **keys).streams[0].notes
    first = lakeport.land(file, lake, **keys).streams[0]
    assert told in first.notes
    assert [*first.columns.values()] == ["string", "string", "object", "string"]
    assert told not in lakeport.land(file, lake, **keys).streams[0].notes
    one = lakeport.land(file, lake, table="one", columns={"at": "timestamp"}, **keys).streams[0]
    assert [note for note in one.notes if "'a.b', 'o.l.element'" in note and "a.b=date" in note]
    typed = lakeport.land(file, lake, table="typed", infer_dates=True, **keys).streams[0]
    assert typed.notes == ()
    assert DeltaTable(str(lake / "typed")).to_pyarrow_table().to_pylist()[0] == {
        "at": datetime(2024, 3, 4, 14, 30, 45, tzinfo=UTC),
        "a.b": date(2024, 3, 4),
        "o": {"l": [date(2024, 1, 1)]},
        "mix": None,
    }
    again = lakeport.land(file, lake, infer_dates=True, **keys).streams[0]
    assert [*again.columns.values()] == [*first.columns.values()]
    assert values(lake / "t", "o")[-3:] == [{"l": ["2024-01-01"]}, {"l": []}, None]
    with pytest.raises(ConfigError, match="`infer_dates` is True, and the source is singer"):
        lakeport.land(singer(["a"]), lake, infer_dates=True)
