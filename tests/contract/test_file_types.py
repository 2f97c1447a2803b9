"""Tables of Parquet and CSV files: what an earlier load wrote, a later one has to fit."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport.errors import InputError, ObjectExists, PermissionRefused, SchemaConflict
from lakeport.model import Batch
from lakeport.storage.local import LocalStorage
from lakeport.writers.files.encode import Encoder
from lakeport.writers.files.writer import FilesWriter

from .targets import Target

KEYS: dict[str, Any] = {"file_type": "parquet", "internal_columns": False}


def land(lake: Path, text: str, **keys: Any) -> lakeport.LandingReport:
    source = lake.parent / "t.csv"
    source.write_text(text)
    return lakeport.land(str(source), lake, **{**KEYS, **keys})


def types(folder: Path) -> list[dict[str, str]]:
    """The types in each file, oldest first."""
    files = sorted(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    return [{f.name: str(f.type) for f in pq.read_schema(file)} for file in files]


def read(folder: Path) -> list[tuple[Any, ...]]:
    found = duckdb.sql(f"FROM read_parquet('{folder}/**/*.parquet', union_by_name=true) ORDER BY 1")
    return found.fetchall()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_a_type_that_does_not_fit_is_refused(lake: Path) -> None:
    land(lake, "id,v\n1,5\n")
    for text, value in (("id,v\n2,5.5\n", "5.5"), ("id,v\n3,abc\n", "'abc'")):
        with pytest.raises(SchemaConflict, match="'v' is integer in the table") as failure:
            land(lake, text)
        assert f"{value} in row 1 of t.csv" in str(failure.value)
        assert "--schema-evolution loose" in failure.value.hint
        assert "table alter" not in failure.value.hint
    assert types(lake / "t") == [{"id": "int64", "v": "int64"}]


def test_what_a_hint_names_works(lake: Path) -> None:
    land(lake, "id,v\n1,5\n")
    report = land(lake, "id,v\n2,5.5\n", schema_evolution="loose")
    assert "'v' is integer in the table and double in these files" in str(
        report.streams[0].warnings
    )
    land(lake, "id,v\n2,5.5\n", table="other")
    land(lake, "id,v\n3,6\n")  # the table's type stays
    assert [each["v"] for each in types(lake / "t")] == ["int64", "double", "int64"]


def test_numbers_are_cast_where_nothing_is_lost(lake: Path) -> None:
    land(lake, "id,v\n1,5.5\n")
    land(lake, "id,v\n2,5\n")
    land(lake, "id,v\n3,5\n", table="n")
    land(lake, "id,v\n4,6.0\n", table="n")
    assert {each["v"] for each in types(lake / "t")} == {"double"}
    assert {each["v"] for each in types(lake / "n")} == {"int64"}
    assert read(lake / "t") == [(1, 5.5), (2, 5.0)]
    assert read(lake / "n") == [(3, 5), (4, 6)]
    with pytest.raises(InputError, match="'v' has a value that the table's type double can't"):
        land(lake, "id,v\n5,9007199254740993\n")


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
def test_a_text_column_takes_texts_as_they_stand(file_type: str, lake: Path) -> None:
    texts = ["abc", "007", "1.50", "7", "1e-05", "2024-03-04", "true", "1,000", " 5 "]
    for number, text in enumerate(texts):
        land(lake, f'id,v\n{number},"{text}"\n', file_type=file_type)
    assert read(lake / "t") == list(enumerate(texts))


def test_numbers_that_are_no_text_in_the_source_are_refused(lake: Path) -> None:
    land(lake, "id,v\n1,abc\n")
    with pytest.raises(SchemaConflict, match="'v' is string in the table and integer"):
        lakeport.land(pa.table({"id": [2], "v": [7]}), lake, table="t", **KEYS)


@pytest.mark.parametrize("typed", ["5", "5.5", "abc"])
def test_a_column_without_a_value_takes_the_first_ones_type(typed: str, lake: Path) -> None:
    for number, text in enumerate(["", typed, ""]):
        land(lake, f"id,v\n{number},{text}\n")
    first, second, third = types(lake / "t")
    assert first == {"id": "int64"}
    assert second == third
    values = [row[1] for row in read(lake / "t")]
    assert values[0] is values[2] is None
    assert str(values[1]) == typed
    schema = ds.dataset([str(p) for p in sorted((lake / "t").iterdir())], schema=None)
    assert schema.to_table().num_rows == 3


def test_columns_keep_their_spelling_and_order(lake: Path) -> None:
    land(lake, "id,userId,n\n1,a,2\n")
    land(lake, "N,USERID,new,id\n3,b,x,2\n")
    first, second = types(lake / "t")
    assert list(first) == ["id", "userId", "n"]
    assert list(second) == ["id", "userId", "n", "new"]
    with pytest.raises(SchemaConflict, match="strict"):
        land(lake, "id,more\n1,a\n", schema_evolution="strict")


def test_csv_files_keep_the_order_of_columns(lake: Path) -> None:
    land(lake, "id,v,w\n1,5,x\n", file_type="csv")
    land(lake, "w,id,v\ny,2,abc\n", file_type="csv")
    land(lake, "id,new\n3,z\n", file_type="csv")
    files = sorted((lake / "t").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert [file.read_text().splitlines()[0] for file in files] == [
        "id,v,w",
        "id,v,w",
        "id,v,w,new",
    ]
    assert files[1].read_text().splitlines()[1] == "2,abc,y"


def test_files_of_other_tools_say_the_types(lake: Path) -> None:
    (lake / "t").mkdir(parents=True)
    made = pa.table({"id": pa.array([1], pa.int32()), "v": [5], "open": pa.nulls(1, pa.string())})
    pq.write_table(made, lake / "t" / "a.parquet")
    with pytest.raises(SchemaConflict, match="'v' is integer in the table and double"):
        land(lake, "id,v,open\n2,5.5,1\n")
    land(lake, "id,v,open\n2,6,1\n")
    assert types(lake / "t")[1] == {"id": "int32", "v": "int64", "open": "int64"}


def test_a_damaged_file_and_one_of_no_types_say_nothing(lake: Path) -> None:
    (lake / "t").mkdir(parents=True)
    (lake / "t" / "a.parquet").write_bytes(b"PAR1")
    land(lake, "id\n1\n")
    assert len(list((lake / "t").iterdir())) == 2


def test_a_table_whose_files_are_gone_begins_anew(lake: Path) -> None:
    land(lake, "id,v,w\n1,5,x\n")
    for file in (lake / "t").iterdir():
        file.unlink()
    with pytest.raises(SchemaConflict):  # they may be about to come
        land(lake, "id,v\n1,abc\n")
    for record in (lake / "_lakeport" / "schemas" / "t").iterdir():
        os.utime(record, (1, 1))
    land(lake, "id,v\n1,abc\n")
    assert types(lake / "t") == [{"id": "int64", "v": "string"}]
    with pytest.raises(SchemaConflict):
        lakeport.land(pa.table({"id": [2], "v": [7]}), lake, table="t", **KEYS)


def test_folders_by_date_are_one_table(lake: Path) -> None:
    land(lake, "id,v\n1,5\n", date_partition_format="year=%Y/day=%d")
    with pytest.raises(SchemaConflict):
        land(lake, "id,v\n1,x\n", date_partition_format="year=%Y/day=%d")


def test_a_plan_knows_the_table(lake: Path, tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    land(lake, "id,v\n1,5\n")
    source.write_text("id,v,w\n2,5.5,x\n")
    planned = lakeport.plan(str(source), lake, **KEYS).streams[0]
    assert planned.exists
    assert [(c.name, c.change) for c in planned.columns] == [
        ("id", ""),
        ("v", "integer in the table"),
        ("w", "new"),
    ]
    assert "5.5 in row 1 of t.csv" in planned.warnings[0]
    source.write_text("id,v\n2,6.0\n")
    planned = lakeport.plan(str(source), lake, **KEYS).streams[0]
    assert planned.warnings == ()
    shown = lakeport.Table(lake / "t").describe()
    assert [column.name for column in shown.columns] == ["id", "v"]


def test_a_table_shows_all_its_columns(lake: Path) -> None:
    for text in ("id,v\n1,\n", "id,v,w\n2,5,x\n"):
        land(lake, text)
    shown = lakeport.Table(lake / "t").describe()
    assert [(c.name, c.type) for c in shown.columns] == [
        ("id", "integer"),
        ("v", "integer"),
        ("w", "string"),
    ]


class Counting(LocalStorage):
    """Counts requests."""

    calls: ClassVar[Counter[str]] = Counter()

    def get(self, key: str) -> bytes | None:
        self.calls["get"] += 1
        return super().get(key)

    def list(self, prefix: str, *, after: str = "") -> Any:
        self.calls["list"] += 1
        return super().list(prefix, after=after)

    def open(self, key: str) -> Any:
        self.calls["open"] += 1
        return super().open(key)


SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def write(writer: FilesWriter, rows: pa.Table, number: int = 0) -> None:
    from datetime import UTC, datetime

    batch = Batch("t", number)
    while True:
        plan = writer.plan(rows.schema, batch, (), datetime.now(UTC), 1)
        cast = rows.select(plan.schema.names).cast(plan.schema)
        staged = plan.sink.write(iter(cast.to_batches()), 0)
        try:
            writer.commit(plan, staged, batch, None)
            return
        except ObjectExists:
            writer.discard(staged)


def test_a_load_lists_and_reads_once(tmp_path: Path) -> None:
    store = Counting(str(tmp_path))
    rows = pa.table({"id": [1], "v": [2]}, schema=SCHEMA)
    write(FilesWriter(store, Encoder(), "t"), rows)
    store.calls.clear()
    later = FilesWriter(store, Encoder(), "t")
    for number in range(5):
        write(later, rows, number)
    assert store.calls == {"list": 1, "get": 1}


def test_two_loads_that_make_a_table_at_once(tmp_path: Path) -> None:
    """The slower one is held to the types of the faster one, before it publishes anything."""
    store = LocalStorage(str(tmp_path))
    slow, fast = (FilesWriter(store, Encoder(), "t") for _ in range(2))
    both = threading.Barrier(2)
    outcome: list[Any] = []

    def run(writer: FilesWriter, value: Any) -> None:
        rows = pa.table({"id": [1], "v": [value]})
        planned = writer.plan

        def plan(*args: Any) -> Any:
            found = planned(*args)
            if len(outcome) == 0 and not hasattr(writer, "waited"):
                writer.waited = True  # type: ignore[attr-defined]
                both.wait()
            return found

        writer.plan = plan  # type: ignore[method-assign]
        try:
            write(writer, rows)
            outcome.append("landed")
        except SchemaConflict as error:
            outcome.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in ((slow, "x"), (fast, 5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(one, SchemaConflict) for one in outcome) == [False, True]
    assert len(types(tmp_path / "t")) == 1


class CreateOnly(LocalStorage):
    """A store that lets objects be created, and nothing else."""

    def get(self, key: str) -> bytes | None:
        raise PermissionRefused("no")

    def list(self, prefix: str, *, after: str = "") -> Any:
        raise PermissionRefused("no")

    def open(self, key: str) -> Any:
        raise PermissionRefused("no")


def test_with_permission_to_create_alone_it_is_told_once(tmp_path: Path) -> None:
    store = CreateOnly(str(tmp_path))
    for _ in range(2):
        writer = FilesWriter(store, Encoder(), "t")
        told = []
        for number in range(3):
            rows = pa.table({"id": [number], "v": [2]})
            from datetime import UTC, datetime

            batch = Batch("t", number)
            plan = writer.plan(rows.schema, batch, (), datetime.now(UTC), 1)
            told += writer.commit(
                plan, plan.sink.write(iter(rows.to_batches()), 0), batch, None
            ).warnings
        assert len(told) == 1
        assert "were not compared" in told[0]
    assert len(types(tmp_path / "t")) == 6


PARQUET = ("local-parquet", "amazon_s3-parquet", "google_cloud_storage-parquet")
HOLES: list[dict[str, Any]] = [
    {"list": [], "deep": [[]], "object": {}, "mapped": {"k": None}, "items": [{"x": None}]},
    {"list": [1], "deep": [["a"]], "object": {"y": {"z": 2}}, "mapped": {"k": 3}},
    {"list": None, "deep": [], "items": [{"x": [True]}], "object": None},
]


@pytest.mark.parametrize("target", PARQUET, indirect=True)
def test_a_place_without_a_value_gets_its_type_in_earlier_files(
    target: Target, tmp_path: Path
) -> None:
    """Readers that take one file's types for all read the rows as they came."""
    import polars as pl

    config = target.config(table="t", internal_columns=False)
    for number, row in enumerate(HOLES):
        report = lakeport.land([{"id": number, **row}], config)
        assert report.streams[0].warnings == ()
    copy = tmp_path / "copy"
    copy.mkdir()
    for key in target.data_keys("t"):
        (copy / Path(key).name).write_bytes(target.files.read(key))
    files = f"{copy}/*.parquet"
    deep = "SELECT id, list, deep, items[1].x, object.y.z, mapped.k"
    for options in ("", ", union_by_name=true"):
        found = duckdb.sql(f"{deep} FROM read_parquet('{files}'{options}) ORDER BY id").fetchall()
        assert found == [
            (0, [], [[]], None, None, None),
            (1, [1], [["a"]], None, 2, 3),
            (2, None, [], [True], None, None),
        ]
    frame = pl.read_parquet(files, missing_columns="insert").sort("id")
    assert frame["list"].to_list() == [[], [1], None]
    assert frame["items"].to_list() == [[{"x": None}], None, [{"x": [True]}]]
    table = ds.dataset(str(copy)).to_table().sort_by("id")
    assert table["deep"].to_pylist() == [[[]], [["a"]], []]
    assert table["object"].to_pylist() == [{"y": None}, {"y": {"z": 2}}, None]


def test_a_load_that_was_killed_between_two_files_is_gone_on_with(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        lakeport.land([{"id": number, "v": []}], lake, table="t", **KEYS)
    rewrite = LocalStorage.rewrite
    done: list[str] = []

    def refuse(storage: LocalStorage, key: str, change: Any) -> None:
        if done:
            raise PermissionRefused("no")
        done.append(key)
        rewrite(storage, key, change)

    monkeypatch.setattr(LocalStorage, "rewrite", refuse)
    report = lakeport.land([{"id": 3, "v": [1]}], lake, table="t", **KEYS)
    assert "2 earlier files" in str(report.streams[0].warnings)
    assert [each["v"].count("string") for each in types(lake / "t")].count(1) == 2
    monkeypatch.setattr(LocalStorage, "rewrite", rewrite)
    report = lakeport.land([{"id": 4, "v": []}], lake, table="t", **KEYS)
    assert report.streams[0].warnings == ()
    assert {each["v"] for each in types(lake / "t")} == {"list<element: int64>"}
    assert read(lake / "t") == [(0, []), (1, []), (2, []), (3, [1]), (4, [])]
    before = {path: path.stat() for path in (lake / "t").iterdir()}
    lakeport.land([{"id": 5, "v": [2]}], lake, table="t", **KEYS)
    assert {path: path.stat() for path in before} == before


def test_a_file_that_becomes_visible_after_the_type_gets_it(tmp_path: Path) -> None:
    """Its load had staged it before another one typed the place."""
    from datetime import UTC, datetime

    store = LocalStorage(str(tmp_path))
    open_ = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.null()))])
    slow, fast = (FilesWriter(store, Encoder(), "t") for _ in range(2))
    write(slow, pa.table({"id": [0], "v": [[]]}, schema=open_))
    batch = Batch("t", 1)
    plan = slow.plan(open_, batch, (), datetime.now(UTC), 1)
    rows = pa.table({"id": [1], "v": [[None]]}).cast(plan.schema)
    staged = plan.sink.write(iter(rows.to_batches()), 0)
    write(fast, pa.table({"id": [2], "v": [[7]]}))
    slow.commit(plan, staged, batch, None)
    assert {each["v"] for each in types(tmp_path / "t")} == {"list<element: int64>"}
    assert read(tmp_path / "t") == [(0, []), (1, [None]), (2, [7])]


def test_every_store_remembers(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("id,v\n1,5\n")
    lakeport.land(str(source), target.config())
    source.write_text("id,v\n2,abc\n")
    if target.format == "csv":
        lakeport.land(str(source), target.config())
        return
    with pytest.raises(SchemaConflict, match="'v' is integer in the table"):
        lakeport.land(str(source), target.config())
