"""A cursor: each load has the rows that the ones before have not had, whatever they share."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport import DatabaseSource
from lakeport.config.destinations.local import LocalConfig
from lakeport.errors import ConfigError, DestinationError, SourceError
from lakeport.model import Batch, Mode, SavedBookmark, Storage
from lakeport.sources.database.database_source import DatabaseFlushes
from lakeport.sources.target import TargetTables
from lakeport.storage.local import LocalStorage
from tests.database.kit import Schema

DECIMAL = "numeric(9,3)"


@dataclass
class Table:
    """Stands for a table that remembers; JSON is what it keeps, and files beside it."""

    mode: Mode = Mode.APPEND
    kept: dict[str, str] = field(default_factory=dict)
    number: int = -1
    folder: str = "memory"
    storage: Storage = field(default_factory=lambda: LocalStorage("absent"))

    def bookmark(self, name: str) -> SavedBookmark:
        return SavedBookmark(json.loads(self.kept.get(name, "{}")), self.number)

    def load(
        self,
        source: DatabaseSource,
        *,
        cut_off: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """The rows of a load by their id; one that is cut off leaves the bookmark as it is."""
        batch, rows = self.read(source, meanwhile)
        if batch is not None and batch.bookmark is not None and not cut_off:
            assert batch.bookmark.after == self.number
            if batch.before_commit is not None:
                batch.before_commit()
            self.kept[batch.bookmark.name] = json.dumps(batch.bookmark.value)
            self.number += 1
        return sorted(rows, key=lambda row: row["id"])

    def read(
        self, source: DatabaseSource, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[Batch | None, list[dict[str, Any]]]:
        config = LocalConfig(path="lake", mode=self.mode)
        tables = TargetTables(
            open_memory=lambda stream: self,  # type: ignore[arg-type,return-value]
            read_keys=lambda *about: None,
            storage=config.storage(),
            mode=self.mode,
        )
        flushes = DatabaseFlushes(source, "t", 2, config, tables)
        try:
            (flush,) = flushes
            meanwhile()
            if not flush.batches:
                return None, []
            (batch,) = flush.batches
            assert batch.reader is not None
            parts = [part for split in batch.splits for part in batch.reader.read(split)]
            return batch, pa.Table.from_batches(parts, batch.reader.schema).to_pylist()
        finally:
            flushes.close()


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_rows_of_one_value_are_neither_lost_nor_read_twice(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL)",
        "INSERT INTO t VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-02')",
    )
    table, source = Table(), schema.source(cursor="at")
    assert ids(table.load(source)) == [1, 2, 3]
    assert table.load(source) == []
    schema.sql("INSERT INTO t VALUES (4, '2024-01-02')")  # late, with the last value
    assert ids(table.load(source, cut_off=True)) == [4]
    assert ids(table.load(source)) == [4]
    schema.sql("INSERT INTO t VALUES (5, '2024-01-03'), (6, '2024-01-02')")
    assert ids(table.load(source)) == [5, 6]
    assert table.load(source) == []


def test_a_changed_row_comes_again(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int PRIMARY KEY, at int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    table, source = Table(Mode.MERGE), schema.source(cursor="at")
    table.load(source)
    schema.sql("UPDATE t SET at = 3 WHERE id = 1")
    assert table.load(source) == [{"id": 1, "at": 3}]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "kind", ["int", "numeric(9,3)", "timestamp", "timestamptz", "date", "text"]
)
def test_each_type_of_a_cursor(schema: Schema, kind: str, keyed: bool) -> None:
    values = ["2024-01-01", "2024-01-02", "2024-01-03"] if kind != "int" else ["1", "2", "3"]
    values = ["1.125", "2.5", "10"] if kind == DECIMAL else values
    schema.sql(f"CREATE TABLE t (id int {'PRIMARY KEY' * keyed}, v {kind}, other text)")
    table, source = Table(), schema.source(cursor="v")
    schema.sql(f"INSERT INTO t VALUES (1, '{values[0]}', 'a,\"'), (2, '{values[1]}', NULL)")
    assert ids(table.load(source)) == [1, 2]
    schema.sql(f"INSERT INTO t VALUES (3, '{values[1]}'), (4, '{values[2]}')")
    assert ids(table.load(source)) == [3, 4]
    assert table.load(source) == []


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6), st.booleans(), st.data())
def test_whatever_comes_between_loads(
    tmp_path_factory: pytest.TempPathFactory,
    loads: list[list[int]],
    keyed: bool,
    data: st.DataObject,
) -> None:
    """Rows never have less than the newest value, as those of a clock have."""
    folder = tmp_path_factory.mktemp("shop")
    connection = duckdb.connect(folder / "shop.duckdb")
    connection.execute(f"CREATE TABLE t (id INT {'PRIMARY KEY' * keyed}, v INT)")
    connection.close()
    source = DatabaseSource(database=f"duckdb:///{folder}/shop.duckdb", table="t", cursor="v")
    table, number, clock, landed = Table(), 0, 0, list[int]()
    for steps in loads:
        with duckdb.connect(folder / "shop.duckdb") as connection:
            for step in steps:
                clock += step
                connection.execute("INSERT INTO t VALUES (?, ?)", [number, clock])
                number += 1
        if data.draw(st.booleans()):
            table.load(source, cut_off=True)
        landed += ids(table.load(source))
    assert landed == list(range(number))


@dataclass
class Shop:
    """A table `t` of (id, at) in one of the databases."""

    uri: str
    name: str
    run: Callable[[str], Any]

    @property
    def source(self) -> DatabaseSource:
        return DatabaseSource(database=self.uri, table=self.name, cursor="u")

    def add(self, first: int, end: int, at: int) -> None:
        numbers = f"SELECT {first} UNION ALL SELECT i + 1 FROM s WHERE i + 1 < {end}"
        self.run(
            f"INSERT INTO {self.name} (id, u) WITH RECURSIVE s(i) AS ({numbers}) "
            f"SELECT i, {at} FROM s"
        )


@pytest.fixture(params=["postgresql", "sqlite", "duckdb"])
def shop(request: pytest.FixtureRequest, schema: Schema, tmp_path: Path) -> Shop:
    found = Shop(schema.uri, f"{schema.name}.t", schema.sql)
    if request.param != "postgresql":
        module: Any = {"sqlite": sqlite3, "duckdb": duckdb}[request.param]

        def run(sql: str) -> None:
            with closing(module.connect(str(tmp_path / "shop.db"))) as connection:
                connection.execute(sql)
                connection.commit()

        found = Shop(f"{request.param}:///{tmp_path}/shop.db", "t", run)
    found.run(f"CREATE TABLE {found.name} (id INTEGER PRIMARY KEY, u INTEGER)")
    return found


@pytest.mark.parametrize("late", [1, 300])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.MERGE])
def test_thousands_of_rows_of_one_value(
    shop: Shop, tmp_path: Path, mode: Mode, late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.sources.database.database_source._FEW_ROWS", 20)
    if late > 1:  # so many that those that are known are left out, not these taken
        monkeypatch.setattr("lakeport.sources.database.database_source.MOST_ROWS", 200)
        monkeypatch.setattr("lakeport.sources.database.database_source._MOST_COMPARED", 10_000)
    many = 200 if late > 1 else 2000
    table = Table(mode, storage=LocalStorage(str(tmp_path / "lake")))
    shop.add(0, many, 7)
    assert ids(table.load(shop.source)) == list(range(many))
    (kept,) = (tmp_path / "lake/memory/cursors").glob("*/*.digests")
    assert kept.stat().st_size == 2 * 16 * many  # by its key, and as a whole
    assert len(next(iter(table.kept.values()))) < 500
    assert table.load(shop.source) == []
    shop.run(f"DELETE FROM {shop.name} WHERE id = 3")  # as many rows as before, and other ones
    shop.add(many, many + late, 7)
    shop.add(9000, 9001, 8)
    new = [*range(many, many + late), 9000]
    assert ids(table.load(shop.source, cut_off=True)) == new
    assert ids(table.load(shop.source)) == new
    assert table.load(shop.source) == []


@pytest.fixture(params=["bookmark", "file"])
def remembered_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the rows of a cursor's last value remembered in the bookmark, or in a file beside it."""
    if request.param == "file":
        monkeypatch.setattr("lakeport.sources.database.database_source._FEW_ROWS", 0)


@pytest.mark.usefixtures("remembered_in")
def test_a_row_that_changes_at_the_last_value_is_merged(shop: Shop, tmp_path: Path) -> None:
    table = Table(Mode.MERGE, storage=LocalStorage(str(tmp_path / "lake")))
    shop.run(f"ALTER TABLE {shop.name} ADD COLUMN v VARCHAR(9)")
    shop.add(0, 3, 7)
    assert ids(table.load(shop.source)) == [0, 1, 2]
    shop.run(f"UPDATE {shop.name} SET v = 'x' WHERE id = 1")
    changed = [{"id": 1, "u": 7, "v": "x"}]
    assert table.load(shop.source, cut_off=True) == changed
    assert table.load(shop.source) == changed
    assert table.load(shop.source) == []
    shop.run(f"UPDATE {shop.name} SET v = NULL WHERE id = 1")
    shop.add(3, 4, 7)
    shop.add(4, 5, 8)
    assert ids(table.load(shop.source)) == [1, 3, 4]
    shop.run(f"UPDATE {shop.name} SET v = 'y' WHERE id IN (0, 4)")
    assert ids(table.load(shop.source)) == [4]  # what has an older value is not seen
    assert table.load(shop.source) == []


@pytest.mark.usefixtures("remembered_in")
def test_a_row_that_changes_at_the_last_value_is_told_where_rows_are_appended(
    shop: Shop, tmp_path: Path
) -> None:
    shop.run(f"ALTER TABLE {shop.name} ADD COLUMN v VARCHAR(9)")
    shop.add(0, 3, 7)
    source = shop.source

    def load() -> tuple[int, str]:
        stream = lakeport.land(source, str(tmp_path / "lake"), table="t").streams[0]
        return stream.rows, "".join(note for note in stream.notes if "changed since" in note)

    assert load() == (3, "")
    assert load() == (0, "")
    shop.run(f"UPDATE {shop.name} SET v = 'x' WHERE id = 1")
    for _ in range(2):
        rows, note = load()
        assert rows == 0
        assert "1 row changed since, and kept the last value of the cursor 'u'" in note
        assert "`--mode merge " in note
    shop.run(f"UPDATE {shop.name} SET v = 'x' WHERE id = 2")
    shop.add(3, 5, 8)
    rows, note = load()
    assert rows == 2
    assert "2 rows changed since" in note
    assert load() == (0, "")


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.MERGE])
@pytest.mark.parametrize("lost", [True, False])
def test_more_rows_of_one_value_than_are_remembered(
    schema: Schema, tmp_path: Path, mode: Mode, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the file that tells them apart is gone."""
    if not lost:
        monkeypatch.setattr("lakeport.sources.database.database_source._MOST_COMPARED", 1999)
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, at int)",
        "INSERT INTO t SELECT i, 7 FROM generate_series(1, 2000) i",
    )
    table = Table(mode, storage=LocalStorage(str(tmp_path / "lake")))
    source = schema.source(cursor="at")
    batch, _ = table.read(source)
    assert batch is not None
    assert bool(batch.notes) is not lost
    assert lost or "2,000 rows share the newest 'at'" in batch.notes[0]
    assert len(table.load(source)) == 2000
    if lost:
        shutil.rmtree(tmp_path / "lake")
    assert len(table.load(source)) == (2000 if mode is Mode.MERGE else 0)
    schema.sql("INSERT INTO t VALUES (3000, 7), (3001, 8)")
    if lost:
        shutil.rmtree(tmp_path / "lake", ignore_errors=True)
    if mode is Mode.MERGE:
        assert ids(table.load(source))[-2:] == [3000, 3001]
    else:
        with pytest.raises(SourceError, match="rows came late with the last value of the cursor"):
            table.load(source)


def test_files_of_digests_that_are_old_and_not_named_go(
    schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.sources.database.database_source._FEW_ROWS", 0)
    schema.sql("CREATE TABLE t (id int PRIMARY KEY, at int)", "INSERT INTO t VALUES (0, 0)")
    table = Table(storage=LocalStorage(str(tmp_path / "lake")))
    source = schema.source(cursor="at")
    seen = set[Path]()
    for number in range(1, 4):
        table.load(source)
        files = set((tmp_path / "lake/memory/cursors").glob("*/*.digests"))
        assert len(files) == min(number, 2)  # the one that is named, and that before it
        for file in files:
            os.utime(file, (0, 0))
        seen |= files
        schema.sql(f"INSERT INTO t VALUES ({number}, {number})")
    assert len(seen) == 3
    file = max(files, key=lambda one: one.name in next(iter(table.kept.values())))
    file.write_bytes(b"x")
    with pytest.raises(DestinationError, match=r"digests is damaged, and lists which rows"):
        table.load(source)


def test_what_was_read_stays_within_the_snapshot(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int PRIMARY KEY, at int)", "INSERT INTO t VALUES (1, 1)")
    table, source = Table(), schema.source(cursor="at")
    changes = "INSERT INTO t VALUES (2, 1), (3, 2)", "UPDATE t SET at = 9 WHERE id = 1"
    found = table.load(source, meanwhile=lambda: schema.sql(*changes) and None)
    assert found == [{"id": 1, "at": 1}]
    assert ids(table.load(source)) == [1, 2, 3]


def test_a_cursor_that_goes_back_is_told(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int PRIMARY KEY, at int)", "INSERT INTO t VALUES (1, 5), (2, 9)")
    table, source = Table(), schema.source(cursor="at")
    table.load(source)
    schema.sql("DELETE FROM t WHERE id = 2")
    batch, rows = table.read(source)
    assert batch is not None
    assert rows == []
    assert batch.bookmark is None
    assert "'at' is older than the one that has landed" in batch.warnings[0]
    schema.sql("DELETE FROM t")
    batch, rows = table.read(source)
    assert batch is not None
    assert "'at' is gone, with all rows" in batch.warnings[0]


def test_a_table_without_a_row_is_read_from_its_first_one_on(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int PRIMARY KEY, at int)")
    table, source = Table(), schema.source(cursor="at")
    assert table.load(source) == []
    schema.sql("INSERT INTO t VALUES (1, 5)")
    assert ids(table.load(source)) == [1]


def test_nulls_and_wrong_types_are_named(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int, at int, f double precision, u uuid, l int[])",
        "INSERT INTO t VALUES (1, NULL)",
    )
    with pytest.raises(SourceError, match="the cursor 'at' is null in some rows"):
        Table().load(schema.source(cursor="at"))
    for name, words in {"f": "double", "u": "string, made", "l": "list of int32"}.items():
        with pytest.raises(ConfigError, match=f"the cursor '{name}' is of type {words}"):
            Table().load(schema.source(cursor=name))


def test_what_is_remembered_belongs_to_its_source(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, at int, b int)", "INSERT INTO t VALUES (1, 1, 1)"
    )
    table = Table()
    table.load(schema.source(cursor="at", name="mine"))
    query = f"SELECT * FROM {schema.name}.t"
    for other in (
        schema.source(cursor="b", name="mine"),
        schema.source(cursor="at", name="mine", query=query),
        schema.source(cursor="at", name="mine", database=schema.uri + "?connect_timeout=9"),
    ):
        if other.database != schema.source().database:
            assert table.load(other) == []  # options are no other database
            continue
        with pytest.raises(ConfigError, match=r"'database mine' belongs to .*, and this source"):
            table.load(other)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_cursor_of_sqlite(tmp_path: Path, keyed: bool) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute(f"CREATE TABLE t (id INTEGER {'PRIMARY KEY' * keyed}, at DATETIME, n TEXT)")

    def insert(*rows: tuple[int, str, str | None]) -> None:
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.commit()

    source = DatabaseSource(database=f"sqlite:///{tmp_path}/shop.db", table="t", cursor="at")
    table = Table()
    insert((1, "2024-01-01", None), (2, "2024-01-02", "it's"))
    assert ids(table.load(source)) == [1, 2]
    insert((3, "2024-01-02", "it"), (4, "2024-01-03", "x"))
    assert ids(table.load(source)) == [3, 4]
    assert table.load(source) == []
    connection.close()


def test_a_row_like_one_that_has_landed_is_told_where_nothing_tells_them_apart(
    tmp_path: Path,
) -> None:
    source = DatabaseSource(database=f"sqlite:///{tmp_path}/shop.db", table="t", cursor="u")
    told = []
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE t (v TEXT, u INTEGER)")
        for rows in ([("a", 1), ("b", 2), ("b", 2)], [("b", 2), ("c", 2)], [("b", 2)], []):
            connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
            connection.commit()
            stream = lakeport.land(source, str(tmp_path / "lake"), table="t").streams[0]
            told.append((stream.rows, "1 more of the rows" in "".join(stream.notes)))
    assert told == [(3, False), (1, True), (0, True), (0, True)]


@pytest.mark.parametrize("there", [[1, 2], []])
def test_a_row_that_comes_to_sqlite_while_it_is_read_waits(
    tmp_path: Path, there: list[int]
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, n) for n in there])
    source = DatabaseSource(database=f"sqlite:///{tmp_path}/shop.db", table="t", cursor="at")
    table = Table()

    def insert() -> None:
        with connection:
            connection.execute("INSERT INTO t VALUES (3, 2), (4, 3)")

    assert ids(table.load(source, meanwhile=insert)) == there
    assert ids(table.load(source)) == [3, 4]
    assert table.load(source) == []
    connection.close()
